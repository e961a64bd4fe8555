"""Convert a custom resource's schema to the types that conformance, patches and server-side apply use.

Upstream: apiextensions-apiserver/pkg/apiserver/schema, controller/openapi/builder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.schema import struct_named
from stowplan_cluster.apiserver.schema.types import ATOMIC, MAP, SET, ListType, MapType, Scalar, Struct, Type

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALARS = {"string": Scalar.STRING, "boolean": Scalar.BOOL, "number": Scalar.NUMBER}
_LIST_KINDS = {"set": SET, "map": MAP}
_DESCRIPTIONS = {
    "apiVersion": "The group and version of the kind.",
    "kind": "What the object is.",
    "metadata": "What every object has.",
}


def struct_of(schema: JsonObject | None) -> Struct:
    """The type of whole objects; without a schema, unknown fields are preserved."""
    return _resource(schema or {"x-kubernetes-preserve-unknown-fields": True})


def _resource(schema: JsonObject) -> Struct:
    struct = _struct(schema)
    struct.fields |= {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "metadata": struct_named(_OBJECT_META),
    }
    for name, description in _DESCRIPTIONS.items():
        struct.descriptions.setdefault(name, description)
    return struct


def _type(schema: JsonObject) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar.INT_OR_STRING
    if schema.get("x-kubernetes-embedded-resource"):
        return _resource(schema)
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return _list(schema)
        case "integer":
            return Scalar.INT32 if schema.get("format") == "int32" else Scalar.INT64
        case type:
            return _SCALARS.get(type or "", Scalar.ANY)


def _object(schema: JsonObject) -> Type:
    others = schema.get("additionalProperties")
    if schema.get("properties") or not others:
        return _struct(schema)
    value = _type(others) if isinstance(others, dict) else Scalar.ANY
    return MapType(value, atomic=schema.get("x-kubernetes-map-type") == "atomic")


def _struct(schema: JsonObject) -> Struct:
    properties = schema.get("properties") or {}
    descriptions = {name: of["description"] for name, of in properties.items() if of.get("description")}
    if schema.get("description"):
        descriptions[""] = schema["description"]
    return Struct(
        name="",
        fields={name: _type(of) for name, of in properties.items()},
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        required=frozenset(schema.get("required") or ()),
        descriptions=descriptions,
    )


def _list(schema: JsonObject) -> ListType:
    items = schema.get("items") or {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    defaults = {key: (items.get("properties") or {}).get(key, {}).get("default") for key in keys}
    return ListType(
        _type(items),
        kind=_LIST_KINDS.get(schema.get("x-kubernetes-list-type") or "", ATOMIC),
        keys=keys,
        key_defaults={key: default for key, default in defaults.items() if default is not None},
    )
