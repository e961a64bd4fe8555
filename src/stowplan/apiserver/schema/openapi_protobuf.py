"""The OpenAPI document of version 2 in the protobuf form that kubectl asks for.

The document is small in kinds of messages but not in size; writing them takes a table of field
numbers and a few encoders. Only what `openapi_v2` produces is covered.

Upstream: github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stowplan.apiserver.objects import JsonObject

#: Field number and JSON value to the encoded field.
_Encoder = Callable[[int, Any], bytes]
_Spec = Mapping[str, tuple[int, _Encoder]]

_VARINT, _BYTES = 0, 2


def openapi_v2_protobuf(document: JsonObject) -> bytes:
    """What `openapi_v2` made, as a message Document."""
    return _message(_DOCUMENT, document)


def _message(spec: _Spec, obj: JsonObject, *, extensions: int = 0) -> bytes:
    """`extensions`: the field for what starts with `x-`."""
    parts = []
    for key, value in obj.items():
        if key.startswith("x-"):
            parts.append(_bytes(extensions, _named(key, _bytes(2, msgspec.json.encode(value)))))
        else:
            number, encode = spec[key]
            parts.append(encode(number, value))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(int(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _info(number: int, value: JsonObject) -> bytes:
    return _bytes(number, _message(_INFO, value))


def _paths(number: int, value: JsonObject) -> bytes:
    return _bytes(number, b"".join(_bytes(2, _named(path, _message(_PATH_ITEM, item))) for path, item in value.items()))


def _operation(number: int, value: JsonObject) -> bytes:
    return _bytes(number, _message(_OPERATION, value, extensions=13))


def _parameters(number: int, values: list[JsonObject]) -> bytes:
    return b"".join(_bytes(number, _bytes(1, _parameter(value))) for value in values)


def _parameter(value: JsonObject) -> bytes:
    if value["in"] == "body":
        return _bytes(1, _message(_BODY_PARAMETER, value))
    if value["in"] == "query":
        return _bytes(2, _bytes(3, _message(_QUERY_PARAMETER, value)))
    return _bytes(2, _bytes(4, _message(_PATH_PARAMETER, value)))


def _responses(number: int, value: JsonObject) -> bytes:
    return _bytes(
        number,
        b"".join(_bytes(1, _named(code, _bytes(1, _message(_RESPONSE, response)))) for code, response in value.items()),
    )


def _schema(number: int, value: JsonObject) -> bytes:
    return _bytes(number, _message(_SCHEMA, value, extensions=31))


def _schema_around(number: int, value: JsonObject) -> bytes:
    """In a message that holds nothing else."""
    return _bytes(number, _schema(1, value))


def _type(number: int, value: str) -> bytes:
    return _bytes(number, _text(1, value))


def _named_schemas(number: int, value: JsonObject) -> bytes:
    return _bytes(
        number,
        b"".join(_bytes(1, _named(name, _message(_SCHEMA, schema, extensions=31))) for name, schema in value.items()),
    )


_INFO: _Spec = {"title": (1, _text), "version": (2, _text)}
_SCHEMA: _Spec = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "required": (19, _texts),
    "additionalProperties": (21, _schema_around),
    "type": (22, _type),
    "items": (23, _schema_around),
    "properties": (25, _named_schemas),
}
_BODY_PARAMETER: _Spec = {"name": (2, _text), "in": (3, _text), "required": (4, _flag), "schema": (5, _schema)}
_QUERY_PARAMETER: _Spec = {"required": (1, _flag), "in": (2, _text), "name": (4, _text), "type": (6, _text)}
_PATH_PARAMETER: _Spec = {"required": (1, _flag), "in": (2, _text), "name": (4, _text), "type": (5, _text)}
_RESPONSE: _Spec = {"description": (1, _text), "schema": (2, _schema_around)}
_OPERATION: _Spec = {
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
}
_PATH_ITEM: _Spec = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}
_DOCUMENT: _Spec = {
    "swagger": (1, _text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _named_schemas),
}
