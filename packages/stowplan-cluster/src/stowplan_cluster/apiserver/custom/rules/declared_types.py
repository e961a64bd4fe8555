"""Static types of schemas in expressions.

What no schema describes is not there for expressions: fields of an unknown type are left out, and so is a list or map
of such.

Upstream: k8s.io/apiserver/pkg/cel/common/schemas.go, cel/escaping.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stowplan.kube.cel import types as t

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

    #: By name of a struct, the types of its fields, by the names that expressions use.
    Structs = dict[str, dict[str, t.Type]]

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void"
    "|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTIFIER = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_STRING: JsonObject = {"type": "string"}
_SCALARS = {"boolean": t.BOOL, "number": t.DOUBLE, "integer": t.INT}
_FORMATS = {"duration": t.DURATION, "date": t.TIMESTAMP, "date-time": t.TIMESTAMP, "byte": t.BYTES}


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


def declared_type(schema: JsonObject, structs: Structs, *, is_resource: bool, name: str = "selfType") -> t.Type | None:
    """The type of a schema, None if expressions cannot tell; adds the structs in it. `name`: of an object's struct."""
    if schema.get("x-kubernetes-int-or-string"):
        return t.DYN
    if is_resource:
        schema = as_resource(schema)
    match schema.get("type"):
        case "array":
            element = _inner(schema.get("items"), structs, f"{name}.@idx")
            return None if element is None else t.list_of(element)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            element = _inner(schema["additionalProperties"], structs, f"{name}.@elem")
            return None if element is None else t.map_of(t.STRING, element)
        case "object":
            return _object(schema, structs, name)
        case "string":
            return _FORMATS.get(schema.get("format") or "", t.STRING)
    return _SCALARS.get(schema.get("type") or "")


def _object(schema: JsonObject, structs: Structs, name: str) -> t.Type:
    fields = structs[name] = {}
    for key, of in (schema.get("properties") or {}).items():
        known = escaped(key)
        if known is not None and (declared := _inner(of, structs, f"{name}.{known}")) is not None:
            fields[known] = declared
    return t.Type(t.TypeKind.STRUCT, name)


def _inner(schema: JsonObject | None, structs: Structs, name: str) -> t.Type | None:
    if not schema:
        return None
    return declared_type(schema, structs, is_resource=bool(schema.get("x-kubernetes-embedded-resource")), name=name)
