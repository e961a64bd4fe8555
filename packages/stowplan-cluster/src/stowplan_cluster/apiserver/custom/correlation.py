"""Correlate values of the old and the new object: fields by name, list map elements by key.

Upstream: k8s.io/apiserver/pkg/cel/common/equality.go (CorrelatedObject).
"""

from __future__ import annotations

from typing import Any, Final

from stowplan_cluster.apiserver.objects import JsonObject, sorted_json


class _Absent:
    """Marks a missing old value, or one that cannot be correlated."""


ABSENT: Final = _Absent()
#: A JSON value, or ABSENT.
Old = Any


def old_field(schema: JsonObject, name: str, old: Old) -> Old:
    if not isinstance(old, dict) or schema.get("x-kubernetes-map-type") == "atomic":
        return ABSENT
    return old.get(name, ABSENT)


def old_item(schema: JsonObject, value: list[Any], index: int, old: Old) -> Old:
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return ABSENT
    key = list_map_key(schema, value[index])
    return next((item for item in old if list_map_key(schema, item) == key), ABSENT)


def list_map_key(schema: JsonObject, item: Any) -> str:
    """The key of a list map's element, as one string."""
    names = schema.get("x-kubernetes-list-map-keys") or ()
    return sorted_json({name: item[name] for name in names if isinstance(item, dict) and name in item})
