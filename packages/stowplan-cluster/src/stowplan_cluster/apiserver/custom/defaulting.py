"""Apply the defaults of a schema.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.json_values import copy_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def apply_schema_defaults(schema: JsonObject, value: Any) -> None:
    """In place: prune nulls that are neither nullable nor defaulted, then set defaults from the outside in."""
    _drop_nulls(schema, value)
    _fill(schema, value)


def _inner(schema: JsonObject, name: str) -> JsonObject | None:
    """The schema of a field."""
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if name in properties:
        of: JsonObject = properties[name]
        return of
    return others if isinstance(others, dict) else None


def _default(schema: JsonObject | None) -> Any:
    return None if schema is None else schema.get("default")


def _drop_nulls(schema: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        for name, item in list(value.items()):
            of = _inner(schema, name)
            if of is None:
                continue
            if item is None and not of.get("nullable") and _default(of) is None:
                del value[name]
            else:
                _drop_nulls(of, item)
    elif isinstance(value, list) and schema.get("items"):
        for item in value:
            _drop_nulls(schema["items"], item)


def _fill(schema: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        for name, of in (schema.get("properties") or {}).items():
            if (default := of.get("default")) is not None and (name not in value or _is_no_null(of, value[name])):
                value[name] = copy_of(default)
        for name in value:
            of = _inner(schema, name)
            if of is not None:
                if _is_no_null(of, value[name]):
                    value[name] = copy_of(_default(of))
                _fill(of, value[name])
    elif isinstance(value, list) and schema.get("items"):
        of = schema["items"]
        for index, item in enumerate(value):
            if _is_no_null(of, item):
                value[index] = copy_of(_default(of))
            _fill(of, value[index])


def _is_no_null(schema: JsonObject, value: Any) -> bool:
    """Whether the value is null and the schema does not allow null."""
    return value is None and not schema.get("nullable")
