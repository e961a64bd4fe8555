"""Checks of custom resources beyond the schema: scale, lists and embedded resources.

Upstream: apiextensions-apiserver/pkg/registry/customresource (strategy.go, validator.go), apiserver/schema/objectmeta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.api.field_errors import child
from stowplan.kube.api.meta import MAX_INT32
from stowplan_cluster.apiserver.custom.correlation import ABSENT
from stowplan_cluster.apiserver.custom.openapi import validate_value
from stowplan_cluster.apiserver.objects import JsonObject, go_text, go_type, sorted_json, value_at
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.validation.field_errors import duplicate_value, invalid_value, required
from stowplan_cluster.apiserver.validation.names import dns_1035_label

# Uniqueness in list sets and list maps.
#
# Upstream: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go.


def list_errors(schema: JsonObject, value: Any, path: str = "") -> list[FieldError]:
    if isinstance(value, list):
        return _list_errors(schema, value, path)
    if not isinstance(value, dict):
        return []
    errors = []
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if isinstance(others, dict) and name not in properties:
            errors += list_errors(others, item, f"{path}[{name}]")
        elif name in properties:
            errors += list_errors(properties[name], item, child(path, name))
    return errors


def _list_errors(schema: JsonObject, value: list[Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    match schema.get("x-kubernetes-list-type"):
        case "set":
            errors = [duplicate_value(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        case "map":
            errors = _map_errors(schema.get("x-kubernetes-list-map-keys") or (), value, path)
    items = schema.get("items")
    if items:
        for index, item in enumerate(value):
            errors += list_errors(items, item, f"{path}[{index}]")
    return errors


def _map_errors(names: Sequence[str], value: list[Any], path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [invalid_value(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    return [duplicate_value(f"{path}[{index}]", keys[index]) for index in _repeated(keys)]


def _repeated(values: list[Any]) -> list[int]:
    """The index of the second occurrence of each repeated value."""
    seen: dict[str, int] = {}
    repeated = []
    for index, value in enumerate(values):
        text = sorted_json(value)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            repeated.append(index)
    return repeated


def object_errors(resource: Resource, schema: JsonObject, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    errors = validate_value(schema, obj, old=ABSENT if old is None else old)
    errors += scale_errors(resource, obj)
    errors += embedded_errors(schema, obj)
    if old is None or not list_errors(schema, old):
        errors += list_errors(schema, obj)
    return errors


def scale_errors(resource: Resource, obj: JsonObject) -> list[FieldError]:
    if resource.scale_paths is None:
        return []
    spec, status, selector = resource.scale_paths
    errors = [*_replicas_errors(obj, spec), *_replicas_errors(obj, status)]
    if selector:
        value = value_at(obj, selector)
        if value is not None and not isinstance(value, str):
            errors.append(invalid_value(selector, "", _not_of_type(selector, value, "string")))
    return errors


def _replicas_errors(obj: JsonObject, path: str) -> list[FieldError]:
    value = value_at(obj, path)
    if value is None:
        return []
    if type(value) is not int:
        return [invalid_value(path, 0, _not_of_type(path, value, "int64"))]
    if value < 0:
        return [invalid_value(path, value, "should be a non-negative integer")]
    if value > MAX_INT32:
        return [invalid_value(path, value, f"should be less than or equal to {MAX_INT32}")]
    return []


def _not_of_type(path: str, value: Any, wanted: str) -> str:
    return f"{path} accessor error: {go_text(value)} is of the type {go_type(value)}, expected {wanted}"


def embedded_errors(schema: JsonObject, value: Any, path: str = "") -> list[FieldError]:
    """Check that embedded resources (`x-kubernetes-embedded-resource`) have a kind and an apiVersion."""
    errors: list[FieldError] = []
    if isinstance(value, list) and schema.get("items"):
        for index, item in enumerate(value):
            errors += embedded_errors(schema["items"], item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return errors
    if schema.get("x-kubernetes-embedded-resource"):
        errors += _resource_errors(value, path)
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            errors += embedded_errors(properties[name], item, child(path, name))
        elif isinstance(others, dict):
            errors += embedded_errors(others, item, f"{path}[{name}]")
    return errors


def _resource_errors(value: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("apiVersion", "kind"):
        at = child(path, name)
        if name not in value:
            errors.append(required(at))
        elif not isinstance(value[name], str):
            errors.append(invalid_value(at, value[name], "must be a string"))
        elif not value[name]:
            errors.append(invalid_value(at, "", "must not be empty"))
    kind = value.get("kind")
    if isinstance(kind, str) and kind and (complaints := dns_1035_label(kind.lower())):
        detail = "may have mixed case, but should otherwise match: " + ",".join(complaints)
        errors.append(invalid_value(child(path, "kind"), kind, detail))
    return errors
