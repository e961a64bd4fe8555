"""Validate names, versions and columns of CustomResourceDefinitions. Schemas are validated where they are compiled.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan_cluster.apiserver.objects import JsonObject, is_true
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_NO_PATH = "must be a simple json path starting with ."
_WRONG_NAME = 'must be spec.names.plural+"."+spec.group'


def check_definition(errors: Errors, definition: JsonObject) -> None:
    spec = definition.get("spec") or {}
    spec_names, group = spec.get("names") or {}, spec.get("group", "")
    name = (definition.get("metadata") or {}).get("name", "")
    if name and name != f"{spec_names.get('plural', '')}.{group}":
        errors.invalid("metadata.name", name, _WRONG_NAME)
    _check_group(errors, "spec.group", group)
    errors.check_enum("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    _check_versions(errors, "spec.versions", spec.get("versions") or [])
    _check_views(errors, spec.get("versions") or [])
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec_names.get(field):
            errors.required(f"spec.names.{field}")
    check_definition_names(errors, "spec.names", spec_names)
    _check_stored_versions(errors, definition)


def _check_group(errors: Errors, path: str, group: str) -> None:
    if not group:
        errors.required(path)
    elif complaints := names.dns_subdomain(group):
        errors.invalid(path, group, ",".join(complaints))
    elif "." not in group:
        errors.invalid(path, group, "should be a domain with at least one dot")


def check_definition_names(errors: Errors, path: str, spec_names: JsonObject) -> None:
    for field in ("plural", "singular"):
        if value := spec_names.get(field):
            _check_label(errors, f"{path}.{field}", value)
    for field in ("kind", "listKind"):
        value = spec_names.get(field, "")
        if value and (complaints := names.dns_1035_label(value.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            errors.invalid(f"{path}.{field}", value, detail)
    if spec_names.get("kind") and spec_names["kind"] == spec_names.get("listKind"):
        errors.invalid(f"{path}.listKind", spec_names["kind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(spec_names.get(field) or ()):
            _check_label(errors, f"{path}.{field}[{index}]", value)


def _check_label(errors: Errors, path: str, value: str) -> None:
    if complaints := names.dns_1035_label(value):
        errors.invalid(path, value, ",".join(complaints))


def _check_versions(errors: Errors, path: str, versions: list[JsonObject]) -> None:
    for index, version in enumerate(versions):
        at = f"{path}[{index}]"
        _check_label(errors, f"{at}.name", version.get("name", ""))
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            errors.required(f"{at}.schema.openAPIV3Schema")
    listed = [version.get("name", "") for version in versions]
    if len(set(listed)) < len(listed):
        errors.invalid(path, versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.invalid(path, versions, detail)


def by_version(versions: list[JsonObject], field: str, in_spec: str) -> Iterator[tuple[str, Any]]:
    """Where a field of the versions is, and its value. Parity: what all of them have in common belongs to the spec."""
    values = [version.get(field) for version in versions]
    if all(value == values[0] for value in values):
        yield from ((f"spec.{in_spec}", value) for value in values[:1])
    else:
        yield from ((f"spec.versions[{index}].{field}", value) for index, value in enumerate(values))


def _check_views(errors: Errors, versions: list[JsonObject]) -> None:
    for path, subresources in by_version(versions, "subresources", "subresources"):
        _check_scale(errors, f"{path}.scale", (subresources or {}).get("scale"))
    for path, columns in by_version(versions, "additionalPrinterColumns", "additionalPrinterColumns"):
        for position, column in enumerate(columns or ()):
            _check_column(errors, f"{path}[{position}]", column)


def _check_scale(errors: Errors, path: str, scale: JsonObject | None) -> None:
    if scale is None:
        return
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field, "")
        if not value:
            errors.required(f"{path}.{field}")
        elif not value.startswith(f"{parent}."):
            detail = f"should be a json path under {parent}" if value.startswith(".") else _NO_PATH
            errors.invalid(f"{path}.{field}", value, detail)
    selector = scale.get("labelSelectorPath", "")
    if selector and not selector.startswith((".spec.", ".status.")):
        detail = "should be a json path under either .spec or .status" if selector.startswith(".") else _NO_PATH
        errors.invalid(f"{path}.labelSelectorPath", selector, detail)


def _check_column(errors: Errors, path: str, column: JsonObject) -> None:
    if not column.get("name"):
        errors.required(f"{path}.name")
    errors.check_enum(f"{path}.type", column.get("type"), _COLUMN_TYPES)
    if not column.get("jsonPath", "").startswith("."):
        errors.invalid(f"{path}.JSONPath", column.get("jsonPath", ""), _NO_PATH)


def _check_stored_versions(errors: Errors, definition: JsonObject) -> None:
    path, stored = "status.storedVersions", (definition.get("status") or {}).get("storedVersions") or []
    known = {version.get("name") for version in (definition.get("spec") or {}).get("versions") or ()}
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            errors.invalid(f"{path}[{index}]", name, detail)


def check_definition_update(errors: Errors, definition: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _check_stored_versions(errors, definition)
        return
    check_definition(errors, definition)
    spec, old_spec = definition.get("spec") or {}, old.get("spec") or {}
    spec_names, old_names = spec.get("names") or {}, old_spec.get("names") or {}
    if is_true(old.get("status") or {}, "Established"):
        errors.check_immutable("spec.scope", spec.get("scope"), old_spec.get("scope"))
        errors.check_immutable("spec.names.kind", spec_names.get("kind"), old_names.get("kind"))
    errors.check_immutable("spec.group", spec.get("group"), old_spec.get("group"))
    errors.check_immutable("spec.names.plural", spec_names.get("plural"), old_names.get("plural"))
