"""Parts of custom resources as values of expressions.

Fields that no schema describes are no fields for expressions; only whether two objects are equal depends on them. Lists
that are sets or maps by their schema are equal in any order, and adding to them unites them.

Upstream: k8s.io/apiserver/pkg/cel/common/valuesunstructured.go.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from stowplan.cel import values as v
from stowplan.cel.errors import ValueProblem
from stowplan.cel.times import read_timestamp
from stowplan.cel.values import CustomList, CustomMap, Value
from stowplan_cluster.apiserver.custom.formats import duration_of
from stowplan_cluster.apiserver.custom.rules.declared_types import as_resource, escaped
from stowplan_cluster.apiserver.json_values import equal

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def value_of(schema: JsonObject, value: Any) -> Value:
    """The value of a part; raises a `ValueProblem` where it is not as its schema says."""
    if value is None:
        if schema.get("nullable"):
            return None
        raise ValueProblem("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueProblem("invalid data, expected XIntOrString value to be either a string or integer")
        return value
    match schema.get("type"):
        case "object" if isinstance(value, dict):
            return _object(schema, value)
        case "array" if isinstance(value, list):
            return _list(schema, value)
        case "string" if isinstance(value, str):
            return _string(schema.get("format"), value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
    raise ValueProblem(f"invalid data, expected {schema.get('type')}")


# -- objects and maps -------------------------------------------------------------------------------------------------


class _Object(CustomMap):
    """An object with fields, by the names that expressions use; one that is null is as good as absent."""

    __slots__ = ("_raw",)

    def __init__(self, raw: JsonObject, fields: dict[Value, Value]) -> None:
        super().__init__(fields)
        self._raw = raw

    def equals(self, other: Value) -> bool:
        if not isinstance(other, dict):
            raise ValueProblem("no such overload")
        theirs = other._raw if isinstance(other, _Object) else other
        if len(self._raw) != len(theirs):
            return False
        for name, raw in self._raw.items():
            known = escaped(name)
            if known in self or known in other:
                if known not in self or known not in other or not v.equal(self[known], other[known]):
                    return False
            elif name in theirs and not equal(raw, theirs[name]):
                return False
        return True


def _object(schema: JsonObject, value: JsonObject) -> Value:
    others = schema.get("additionalProperties")
    if schema.get("x-kubernetes-embedded-resource"):
        schema = as_resource(schema)
    properties = schema.get("properties")
    if not properties and isinstance(others, dict):
        return {name: value_of(others, item) for name, item in value.items()}
    fields: dict[Value, Value] = {}
    for name, of in (properties or {}).items():
        known = escaped(name)
        if known is not None and value.get(name) is not None and _is_known(of):
            fields[known] = value_of(of, value[name])
    return _Object(value, fields)


def _is_known(schema: JsonObject) -> bool:
    return bool(schema.get("type") or schema.get("x-kubernetes-int-or-string"))


# -- lists ------------------------------------------------------------------------------------------------------------


class _SetList(CustomList):
    __slots__ = ()

    def equals(self, other: Value) -> bool:
        if not isinstance(other, list):
            raise ValueProblem("no such overload")
        return len(self) == len(other) and all(v.member(element, self) for element in other)

    def joined_with(self, other: list[Value]) -> Value:
        found = _SetList(self)
        found += [element for element in other if not v.member(element, self)]
        return found


class _MapList(CustomList):
    """A list of objects that are told apart by some of their fields."""

    __slots__ = ("_keys",)

    def __init__(self, elements: list[Value], keys: tuple[str, ...]) -> None:
        super().__init__(elements)
        self._keys = keys

    def equals(self, other: Value) -> bool:
        if not isinstance(other, list):
            raise ValueProblem("no such overload")
        mine = {self._key_of(element): element for element in self}
        return len(self) == len(other) and all(
            (key := self._key_of(element)) in mine and v.equal(mine[key], element) for element in other
        )

    def joined_with(self, other: list[Value]) -> Value:
        found = {self._key_of(element): element for element in self}
        found |= {self._key_of(element): element for element in other}
        return _MapList(list(found.values()), self._keys)

    def _key_of(self, element: Value) -> Value:
        return tuple(element.get(key) for key in self._keys) if isinstance(element, dict) else None


def _list(schema: JsonObject, value: list[Any]) -> Value:
    items = schema.get("items") or {}
    elements = [value_of(items, item) for item in value]
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _SetList(elements)
        case "map":
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            return _MapList(elements, tuple(escaped(key) or key for key in keys))
    return elements


for _kind in (_SetList, _MapList):
    v.register(_kind, v.type_of([]))
v.register(_Object, v.type_of({}))


# -- texts ------------------------------------------------------------------------------------------------------------


def _string(form: str | None, text: str) -> Value:
    match form:
        case "duration":
            nanoseconds = duration_of(text)
            if nanoseconds is None:
                raise ValueProblem(f"Invalid duration {text}")
            return v.Duration(nanoseconds)
        case "date" | "date-time":
            found = read_timestamp(f"{text}T00:00:00Z" if form == "date" else text.upper())
            if found is None:
                raise ValueProblem(f"Invalid {form} formatted string {text}")
            return found
        case "byte":
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueProblem(f"Invalid byte formatted string {text}: {error}") from None
    return text
