"""Uniqueness in list sets and list maps.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api.field_errors import child
from stowplan_cluster.apiserver.custom.errors import duplicate_value, invalid_value
from stowplan_cluster.apiserver.json_values import sorted_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.kube.api.api_errors import FieldError
    from stowplan_cluster.apiserver.objects import JsonObject


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
