"""Serialize a configuration as the reference does (`--write-config-to`, configz).

The schema determines which fields are written: those wrapped in `Always`, and all non-empty ones. The output is the
completed configuration: defaults merged, the user's sets at single extension points kept, multiPoint not expanded.

Upstream: k8s.io/kube-scheduler/config/v1 (json tags), cmd/kube-scheduler/app/options/configfile.go.
"""

import base64
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import msgspec

from stowplan.config.declaration import Args
from stowplan.config.schema import API_VERSION, Pointer, Raw, Scalar, Slice, StringMap, Struct, Type


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

    Dataclass fields with `init=False` are derived from the others, so they are omitted and may have any type.
    """
    return _without_derived(msgspec.to_builtins(value, enc_hook=lambda _: None), value)


def _without_derived(encoded: Any, value: Any) -> Any:
    """Remove derived fields from an encoded value."""
    match encoded:
        case dict() if is_dataclass(value):
            given = [field.name for field in dataclass_fields(value) if field.init]
            return {name: _without_derived(encoded[name], getattr(value, name)) for name in given}
        case dict() if isinstance(value, msgspec.Struct):
            names = _attributes(type(value))
            # A key that is not a field is the tag.
            return {
                key: _without_derived(element, getattr(value, names[key])) if key in names else element
                for key, element in encoded.items()
            }
        case dict() if isinstance(value, dict):
            pairs = zip(encoded.items(), value.values(), strict=True)
            return {key: _without_derived(element, of) for (key, element), of in pairs}
        case list() | tuple() if isinstance(value, list | tuple | set | frozenset):
            return [_without_derived(element, of) for element, of in zip(encoded, value, strict=True)]
        case _:
            return encoded


def _encode_scalar(kind: str, value: Any) -> Any:
    if kind == "duration":
        return str(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return int(value) if kind == "float32" and value == int(value) else value
