"""Write a configuration back the way the reference does (`--write-config-to`, configz).

The schema says which fields appear: those wrapped in `Always`, and every other one that is not empty. What is
written is the completed configuration: defaults merged, the user's sets at single extension points kept, multiPoint
not expanded.

Upstream: k8s.io/kube-scheduler/config/v1 (json tags), cmd/kube-scheduler/app/options/configfile.go.
"""

import base64
from typing import Any

import msgspec

from stowplan.config.declaration import Args
from stowplan.config.schema import API_VERSION, Pointer, Raw, Scalar, Slice, StringMap, Struct, Type


def encode_object(schema: Struct, value: msgspec.Struct) -> dict[str, Any]:
    """Write an object of its own kind, header included."""
    return {"apiVersion": API_VERSION, "kind": schema.name, **_struct(schema, value)}


def _encode(schema: Type, value: Any) -> Any:
    match schema:
        case Pointer(item=item):
            return None if value is None else _encode(item, value)
        case Slice(item=item):
            return [_encode(item, element) for element in value]
        case Struct():
            return _struct(schema, value)
        case StringMap():
            return dict(value)
        case Raw():
            return _encode_args(value)
        case Scalar(kind=kind):
            return _encode_scalar(kind, value)


def _struct(schema: Struct, value: msgspec.Struct) -> dict[str, Any]:
    attributes = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
    encoded = {}
    for name, field in schema.fields.items():
        if name not in attributes:
            continue  # apiVersion and kind
        element = getattr(value, attributes[name])
        if field.always or not _is_empty(field.type, element):
            encoded[name] = _encode(field.type, element)
    return encoded


def _is_empty(schema: Type, value: object) -> bool:
    """Say whether `omitempty` drops the value: a pointer to zero is not empty."""
    return value is None if isinstance(schema, Pointer | Raw) else not value


def _encode_args(value: Any) -> Any:
    """Write arguments by their schema, those of users' plugins as JSON says them; raw ones are JSON already."""
    return encode_object(value.schema, value) if isinstance(value, Args) else msgspec.to_builtins(value)


def _encode_scalar(kind: str, value: Any) -> Any:
    if kind == "duration":
        return str(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return int(value) if kind == "float32" and value == int(value) else value
