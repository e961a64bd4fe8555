"""The OpenAPI version 2 document in protobuf, as kubectl requests it.

The document has few message types, so a table of field numbers and a few encoders suffice. Only what `openapi_v2`
produces is supported.

Upstream: github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stowplan.kube.api.protobuf_fields import bytes_field, number_field, text_field
from stowplan_cluster.apiserver.objects import JsonObject

#: (field number, JSON value) -> encoded field.
_Encoder = Callable[[int, Any], bytes]
_Spec = Mapping[str, tuple[int, _Encoder]]


def openapi_v2_protobuf(document: JsonObject) -> bytes:
    """Encode the result of `openapi_v2` as a Document message."""
    return _message(_DOCUMENT, document)


def _message(spec: _Spec, obj: JsonObject, *, extensions: int = 0) -> bytes:
    """`extensions` is the number of the field for `x-` extensions."""
    parts = []
    for key, value in obj.items():
        if key.startswith("x-"):
            parts.append(bytes_field(extensions, _named(key, bytes_field(2, msgspec.json.encode(value)))))
        else:
            number, encode = spec[key]
            parts.append(encode(number, value))
    return b"".join(parts)


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(text_field(number, value) for value in values)


def _named(name: str, value: bytes) -> bytes:
    return text_field(1, name) + bytes_field(2, value)


def _info(number: int, value: JsonObject) -> bytes:
    return bytes_field(number, _message(_INFO, value))


def _paths(number: int, value: JsonObject) -> bytes:
    return bytes_field(
        number, b"".join(bytes_field(2, _named(path, _message(_PATH_ITEM, item))) for path, item in value.items())
    )


def _operation(number: int, value: JsonObject) -> bytes:
    return bytes_field(number, _message(_OPERATION, value, extensions=13))


def _parameters(number: int, values: list[JsonObject]) -> bytes:
    return b"".join(bytes_field(number, bytes_field(1, _parameter(value))) for value in values)


def _parameter(value: JsonObject) -> bytes:
    if value["in"] == "body":
        return bytes_field(1, _message(_BODY_PARAMETER, value))
    if value["in"] == "query":
        return bytes_field(2, bytes_field(3, _message(_QUERY_PARAMETER, value)))
    return bytes_field(2, bytes_field(4, _message(_PATH_PARAMETER, value)))


def _responses(number: int, value: JsonObject) -> bytes:
    return bytes_field(
        number,
        b"".join(
            bytes_field(1, _named(code, bytes_field(1, _message(_RESPONSE, response))))
            for code, response in value.items()
        ),
    )


def _schema(number: int, value: JsonObject) -> bytes:
    return bytes_field(number, _message(_SCHEMA, value, extensions=31))


def _schema_around(number: int, value: JsonObject) -> bytes:
    """A schema wrapped in a message of its own."""
    return bytes_field(number, _schema(1, value))


def _type(number: int, value: str) -> bytes:
    return bytes_field(number, text_field(1, value))


def _named_schemas(number: int, value: JsonObject) -> bytes:
    return bytes_field(
        number,
        b"".join(
            bytes_field(1, _named(name, _message(_SCHEMA, schema, extensions=31))) for name, schema in value.items()
        ),
    )


_INFO: _Spec = {"title": (1, text_field), "version": (2, text_field)}
_SCHEMA: _Spec = {
    "$ref": (1, text_field),
    "format": (2, text_field),
    "description": (4, text_field),
    "required": (19, _texts),
    "additionalProperties": (21, _schema_around),
    "type": (22, _type),
    "items": (23, _schema_around),
    "properties": (25, _named_schemas),
}
_BODY_PARAMETER: _Spec = {
    "name": (2, text_field),
    "in": (3, text_field),
    "required": (4, number_field),
    "schema": (5, _schema),
}
_QUERY_PARAMETER: _Spec = {
    "required": (1, number_field),
    "in": (2, text_field),
    "name": (4, text_field),
    "type": (6, text_field),
}
_PATH_PARAMETER: _Spec = {
    "required": (1, number_field),
    "in": (2, text_field),
    "name": (4, text_field),
    "type": (5, text_field),
}
_RESPONSE: _Spec = {"description": (1, text_field), "schema": (2, _schema_around)}
_OPERATION: _Spec = {
    "operationId": (5, text_field),
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
    "swagger": (1, text_field),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _named_schemas),
}
