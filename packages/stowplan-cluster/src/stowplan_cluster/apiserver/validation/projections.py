"""Validate downward API and projected volumes.

Of certificate sources only paths and names are validated.

Upstream: pkg/apis/core/validation (validateProjectionSources, validateDownwardAPIVolumeFile).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation.fields import Errors, check_required_fields, forbidden, invalid, required
from stowplan_cluster.apiserver.validation.paths import check_key_paths, check_mode, check_non_reserved_path
from stowplan_cluster.apiserver.validation.references import (
    VOLUME_FIELDS,
    check_field_reference,
    check_resource_reference,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

_SOURCES = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 10 * 60, 1 << 32


def check_downward_items(errors: Errors, path: str, items: list[JsonObject] | None, *, with_index: bool) -> None:
    for index, item in enumerate(items or ()):
        _check_downward_item(errors, f"{path}[{index}]" if with_index else path, item)


def _check_downward_item(errors: Errors, path: str, item: JsonObject) -> None:
    check_required_fields(errors, path, item, ("path",))
    check_non_reserved_path(errors, f"{path}.path", item.get("path", ""))
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field_reference(errors, f"{path}.fieldRef", field, VOLUME_FIELDS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource is not None:
        check_resource_reference(errors, f"{path}.resourceFieldRef", resource, in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    check_mode(errors, f"{path}.mode", item.get("mode"))


def check_projected(errors: Errors, path: str, volume: JsonObject) -> None:
    check_mode(errors, f"{path}.defaultMode", volume.get("defaultMode"))
    seen: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        _check_source(errors, path, at, source)
        for target, blamed in _targets(source):
            if target in seen:
                errors.append(invalid(path, blamed, "conflicting duplicate paths"))
            seen.add(target)
        if sum(name in source for name in _SOURCES) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))


def _check_source(errors: Errors, path: str, at: str, source: JsonObject) -> None:
    for name in ("secret", "configMap"):
        if (reference := source.get(name)) is not None:
            check_required_fields(errors, f"{at}.{name}", reference, ("name",))
            check_key_paths(errors, f"{at}.{name}.items", reference.get("items"))
    if (downward := source.get("downwardAPI")) is not None:
        check_downward_items(errors, f"{at}.downwardAPI", downward.get("items"), with_index=False)
    if (token := source.get("serviceAccountToken")) is not None:
        _check_token(errors, path, f"{at}.serviceAccountToken", token)
    if (bundle := source.get("clusterTrustBundle")) is not None:
        _check_bundle(errors, f"{at}.clusterTrustBundle", bundle)
    if (certificate := source.get("podCertificate")) is not None:
        check_required_fields(errors, f"{at}.podCertificate", certificate, ("signerName",))


def _check_token(errors: Errors, path: str, at: str, token: JsonObject) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < _MIN_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    if seconds > _MAX_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    # Parity: the path is the volume's, not the source's.
    if token.get("path"):
        check_non_reserved_path(errors, f"{path}.path", token["path"])
    else:
        errors.append(required(f"{path}.path"))


def _check_bundle(errors: Errors, at: str, bundle: JsonObject) -> None:
    named = [name for name in ("name", "signerName") if name in bundle]
    if len(named) > 1:
        errors.append(invalid(at, bundle, "only one of name and signerName may be used"))
    elif not named:
        errors.append(required(at, "either name or signerName must be specified"))
    check_required_fields(errors, at, bundle, ("path",))
    check_non_reserved_path(errors, f"{at}.path", bundle.get("path", ""))


def _targets(source: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the files of a source, each with the value to report if it conflicts."""
    for name in ("secret", "configMap"):
        reference = source.get(name) or {}
        for item in reference.get("items") or ():
            if item.get("path"):
                yield item["path"], reference.get("name", "")
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        if item.get("path"):
            yield item["path"], item["path"]
    if "clusterTrustBundle" in source:
        target = source["clusterTrustBundle"].get("path", "")
        yield target, target
