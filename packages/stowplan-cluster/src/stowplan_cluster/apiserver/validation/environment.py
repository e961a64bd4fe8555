"""Environment variables of containers.

Upstream: pkg/apis/core/validation (ValidateEnv, ValidateEnvFrom).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import Errors, check_texts, invalid, required
from stowplan_cluster.apiserver.validation.paths import check_no_backsteps
from stowplan_cluster.apiserver.validation.references import (
    ENVIRONMENT_FIELDS,
    check_field_reference,
    check_resource_reference,
)

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_environment(errors: Errors, path: str, variables: list[JsonObject]) -> None:
    for index, variable in enumerate(variables):
        at, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        else:
            check_texts(errors, f"{at}.name", name, names.environment_name(name))
        if (source := variable.get("valueFrom")) is not None:
            _check_source(errors, f"{at}.valueFrom", source, has_value=bool(variable.get("value")))


def _check_source(errors: Errors, path: str, source: JsonObject, *, has_value: bool) -> None:
    if (field := source.get("fieldRef")) is not None:
        check_field_reference(errors, f"{path}.fieldRef", field, ENVIRONMENT_FIELDS)
    if (resource := source.get("resourceFieldRef")) is not None:
        check_resource_reference(errors, f"{path}.resourceFieldRef", resource, in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (key := source.get(name)) is not None:
            _check_key(errors, f"{path}.{name}", key)
    if (file := source.get("fileKeyRef")) is not None:
        _check_file(errors, f"{path}.fileKeyRef", file)
    count = sum(name in source for name in _SOURCES)
    if count == 0:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(path, "", detail))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_key(errors: Errors, path: str, reference: JsonObject) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    check_texts(errors, f"{path}.name", name, names.dns_subdomain(name))
    if key:
        check_texts(errors, f"{path}.key", key, names.config_key(key))
    else:
        errors.append(required(f"{path}.key"))


def _check_file(errors: Errors, path: str, reference: JsonObject) -> None:
    key, volume, target = (reference.get(name, "") for name in ("key", "volumeName", "path"))
    for name, value in (("key", key), ("volumeName", volume), ("path", target)):
        if not value:
            errors.append(required(f"{path}.{name}"))
    if key:
        check_texts(errors, f"{path}.key", key, names.environment_name(key))
    if volume:
        check_texts(errors, f"{path}.volumeName", volume, names.dns_label(volume))
    check_no_backsteps(errors, f"{path}.path", target)


def check_environment_from(errors: Errors, path: str, sources: list[JsonObject]) -> None:
    for index, source in enumerate(sources):
        at, prefix = f"{path}[{index}]", source.get("prefix", "")
        if prefix:
            check_texts(errors, f"{at}.prefix", prefix, names.environment_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            _check_bag(errors, f"{at}.{name}.name", source[name].get("name", ""))
        # Parity: the path has no index.
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_bag(errors: Errors, path: str, name: str) -> None:
    if name:
        check_texts(errors, path, name, names.dns_subdomain(names.mask_trailing_dash(name)))
    else:
        errors.append(required(path))
