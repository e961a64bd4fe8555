"""Convert a custom resource's schema to the types that conformance, patches and server-side apply use.

Upstream: apiextensions-apiserver/pkg/apiserver/schema, controller/openapi/builder.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api.merge_patches import copy_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema import struct_named
from stowplan_cluster.apiserver.schema.type_model import ATOMIC, MAP, SET, ListType, MapType, Scalar, Struct, Type

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


# Apply the defaults of a schema.
#
# Upstream: apiextensions-apiserver/pkg/apiserver/schema/defaulting.


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
