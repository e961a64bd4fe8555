"""Static types of schemas in expressions, and how large what they describe can be.

What no schema describes is not there for expressions: fields of an unknown type are left out, and so is a list or map
of such. Sizes follow from the largest request that an API server takes.

Upstream: k8s.io/apiserver/pkg/cel/common/schemas.go, cel/escaping.go, cel/limits.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import field

from stowplan.cel import types as t
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stowplan_cluster.apiserver.objects import JsonObject

MAX_REQUEST = 3 * 1024 * 1024

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void"
    "|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTIFIER = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_STRING: JsonObject = {"type": "string"}


class Declared(PlainStruct, frozen=True):
    """The type of what a schema describes."""

    type: t.Type
    #: In bytes of JSON.
    min_size: int
    #: How many characters, items or entries there can be.
    max_elements: int = 0
    #: Of a list or map.
    element: Declared | None = None
    #: Of an object, by the name that expressions use.
    fields: Mapping[str, Declared] = field(default_factory=dict)

    def structs(self) -> Iterator[tuple[str, dict[str, t.Type]]]:
        """The object types in it, and their fields."""
        if self.type.kind is t.TypeKind.STRUCT:
            yield self.type.name, {name: of.type for name, of in self.fields.items()}
        for part in (*self.fields.values(), *((self.element,) if self.element is not None else ())):
            yield from part.structs()

    def at(self, path: tuple[str, ...]) -> int | None:
        """How much there can be at a path of fields, `@items`, `@values` and `@keys`; None: nobody knows."""
        declared: Declared = self
        for step in path:
            found = declared._inside(step)
            if found is None:
                return None
            declared = found
        return declared.max_elements

    def _inside(self, step: str) -> Declared | None:
        if step == "@keys":
            return _KEY if self.type.kind is t.TypeKind.MAP else None
        return self.element if step in ("@items", "@values") else self.fields.get(step)


_KEY = Declared(t.STRING, 2)
_BOOL, _DOUBLE, _INT = Declared(t.BOOL, 4), Declared(t.DOUBLE, 1), Declared(t.INT, 1)
#: Formats of strings that have types of their own, which are as long as their longest text.
_FORMATS = {
    "duration": Declared(t.DURATION, 3, 32),
    "date": Declared(t.TIMESTAMP, 12, 12),
    "date-time": Declared(t.TIMESTAMP, 21, 32),
}


def escaped(name: str) -> str | None:
    """The name of a field in expressions; None: it has none."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    return re.sub(r"__|[./-]", lambda match: _ESCAPES[match[0]], name)


def as_resource(schema: JsonObject) -> JsonObject:
    """A schema with the fields that every object has."""
    metadata = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
    common = {"kind": _STRING, "apiVersion": _STRING, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **common}}


def declared_type(schema: JsonObject, *, is_resource: bool, name: str = "selfType") -> Declared | None:
    """The type of a schema, None if expressions cannot tell. `name`: of its type, if that is an object."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(t.DYN, 1, _longest(schema, 4, MAX_REQUEST - 2))
    if is_resource:
        schema = as_resource(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            others = schema.get("additionalProperties")
            return _map(schema, others, name) if isinstance(others, dict) else _object(schema, name)
        case "string":
            return _string(schema)
        case "boolean":
            return _BOOL
        case "number":
            return _DOUBLE
        case "integer":
            return _INT
    return None


def _list(schema: JsonObject, name: str) -> Declared | None:
    element = _inner(schema.get("items"), f"{name}.@idx")
    if element is None:
        return None
    most = schema.get("maxItems")
    most = (MAX_REQUEST - 2) // (element.min_size + 1) if most is None else max(0, most)
    return Declared(t.list_of(element.type), 2, most, element)


def _map(schema: JsonObject, others: JsonObject, name: str) -> Declared | None:
    element = _inner(others, f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    # Quotes of a key, colon, comma and what follows take six bytes at least.
    most = (MAX_REQUEST - 2) // (element.min_size + 6) if most is None else max(0, most)
    return Declared(t.map_of(t.STRING, element.type), 2, most, element)


def _object(schema: JsonObject, name: str) -> Declared:
    required, fields, size = schema.get("required") or (), {}, 2
    for key, of in (schema.get("properties") or {}).items():
        known = escaped(key)
        declared = _inner(of, f"{name}.{known}")
        if declared is None:
            continue
        if known is not None:
            fields[known] = declared
        if key in required and of.get("default") is None:
            size += len(key) + declared.min_size + 4
    return Declared(t.Type(t.TypeKind.STRUCT, name), size, fields=fields)


def _inner(schema: JsonObject | None, name: str) -> Declared | None:
    if not schema:
        return None
    return declared_type(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


def _string(schema: JsonObject) -> Declared:
    form = schema.get("format")
    if form in _FORMATS:
        return _FORMATS[form]
    if form == "byte":
        return Declared(t.BYTES, 2, _longest(schema, 1, MAX_REQUEST - 2))
    texts = [len(value.encode()) for value in schema.get("enum") or () if isinstance(value, str)]
    return Declared(t.STRING, 2, _longest(schema, 4, max(texts, default=0) if schema.get("enum") else MAX_REQUEST - 2))


def _longest(schema: JsonObject, bytes_per_character: int, otherwise: int) -> int:
    limit = schema.get("maxLength")
    return otherwise if limit is None else max(0, limit) * bytes_per_character
