"""Serialize a configuration as the reference does (`--write-config-to`, configz).

The schema determines which fields are written: those wrapped in `Always`, and all non-empty ones. The output is the
completed configuration: defaults merged, the user's sets at single extension points kept, multiPoint not expanded.

Upstream: k8s.io/kube-scheduler/config/v1 (json tags), cmd/kube-scheduler/app/options/configfile.go.
"""

import base64
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import msgspec

from stowplan.kube.api.quantity import read_quantity
from stowplan.kube.config.args_classes import settable_fields
from stowplan.kube.config.declaration import Args
from stowplan.kube.config.schema import API_VERSION, Map, Pointer, Raw, Scalar, Slice, StringMap, Struct, Type


def encode_object(schema: Struct, value: msgspec.Struct) -> dict[str, Any]:
    """Encode an object of its own kind, with header."""
    return {"apiVersion": API_VERSION, "kind": schema.name, **_struct(schema, value)}


def _encode(schema: Type, value: Any) -> Any:
    match schema:
        case Pointer(item=item):
            return None if value is None else _encode(item, value)
        case Slice(item=item):
            return [_encode(item, element) for element in value]
        case Struct():
            return _struct(schema, value)
        case Map(item=item):
            return {key: _encode(item, element) for key, element in value.items()}
        case StringMap():
            return dict(value)
        case Raw():
            return _encode_args(value)
        case Scalar(kind=kind):
            return _encode_scalar(kind, value)


def _struct(schema: Struct, value: msgspec.Struct) -> dict[str, Any]:
    attributes = _attributes(type(value))
    encoded = {}
    for name, field in schema.fields.items():
        if name not in attributes:
            continue  # apiVersion and kind
        element = getattr(value, attributes[name])
        if field.not_omitted or not _is_empty(field.type, element):
            encoded[name] = _encode(field.type, element)
    return encoded


@cache
def _attributes(of: type[msgspec.Struct]) -> dict[str, str]:
    """JSON names -> attributes.

    Cached, because msgspec evaluates annotations on each call, which would dominate the time.
    """
    return {field.encode_name: field.name for field in msgspec.structs.fields(of)}


def _is_empty(schema: Type, value: object) -> bool:
    """Whether `omitempty` drops the value: a pointer to zero is not empty."""
    return value is None if isinstance(schema, Pointer | Raw) else not value


def _encode_args(value: Any) -> Any:
    """Encode arguments by their schema, those of out-of-tree plugins by their type."""
    return encode_object(value.schema, value) if isinstance(value, Args) else typed_args_as_json(value)


def typed_args_as_json(value: Any) -> Any:
    """Encode arguments of an out-of-tree plugin; raw ones are JSON already.

    Fields that a configuration cannot set are derived from the others, so they are omitted and may have any type.
    """
    match value:
        case msgspec.Struct():
            names = _attributes(type(value))
            encoded = _to_builtins(value)
            if not isinstance(encoded, dict):  # array_like
                return encoded
            # A key that is not a field is the tag.
            return {
                key: typed_args_as_json(getattr(value, names[key])) if key in names else element
                for key, element in encoded.items()
            }
        case dict():
            return {next(iter(_to_builtins({key: None}))): typed_args_as_json(of) for key, of in value.items()}
        case list() | tuple():
            return [typed_args_as_json(element) for element in value]
        case set() | frozenset():
            # The order of a set differs from process to process.
            return sorted((typed_args_as_json(element) for element in value), key=str)
        case _ if is_dataclass(value) or hasattr(value, "__attrs_attrs__"):
            return _settable_as_json(value)
        case _:
            return _to_builtins(value)


def _to_builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_settable_as_json)


def _settable_as_json(value: Any) -> Any:
    """Encode an instance of a class by its fields; None for anything else without a JSON form."""
    names = settable_fields(type(value))
    return None if names is None else {name: typed_args_as_json(getattr(value, name)) for name in names}


def same_args(one: Any, other: Any) -> bool:
    """Whether arguments are equal as data: a class may define no equality, or one that fails."""
    return bool(_encode_args(one) == _encode_args(other))


def _encode_scalar(kind: str, value: Any) -> Any:
    if kind == "duration":
        return str(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "quantity":
        return str(read_quantity(value))
    return int(value) if kind in ("float32", "float64") and value == int(value) else value
