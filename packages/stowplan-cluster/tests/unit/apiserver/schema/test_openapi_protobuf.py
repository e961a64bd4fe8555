"""The protobuf form of the OpenAPI document, decoded by a reader in this test."""

import json

import pytest

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema.openapi import openapi_v2
from stowplan_cluster.apiserver.schema.openapi_protobuf import openapi_v2_protobuf


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) in the order of the message."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        else:
            assert tag & 7 == 0
        yield tag >> 3, value


def one(data, number):
    (found,) = [value for key, value in fields(data) if key == number]
    return found


def every(data, number):
    return [value for key, value in fields(data) if key == number]


def named(pairs):
    return {one(pair, 1).decode(): one(pair, 2) for pair in pairs}


def extensions(pairs):
    return {name: json.loads(one(value, 2)) for name, value in named(pairs).items()}


def schema(data):
    made = {}
    for number, value in fields(data):
        match number:
            case 1 | 2 | 4:
                made[{1: "$ref", 2: "format", 4: "description"}[number]] = value.decode()
            case 19:
                made.setdefault("required", []).append(value.decode())
            case 21:
                made["additionalProperties"] = schema(one(value, 1))
            case 22:
                made["type"] = one(value, 1).decode()
            case 23:
                made["items"] = schema(one(value, 1))
            case 25:
                made["properties"] = {name: schema(each) for name, each in named(every(value, 1)).items()}
            case 31:
                made.update(extensions([value]))
    return made


def parameter(data):
    inner = one(data, 1)
    if bodies := every(inner, 1):
        body = bodies[0]
        made = {"name": one(body, 2).decode(), "in": one(body, 3).decode(), "schema": schema(one(body, 5))}
        required = every(body, 4)
    else:
        other = one(inner, 2)
        (number, value), *_ = fields(other)
        made = {"name": one(value, 4).decode(), "in": one(value, 2).decode()}
        made["type"] = one(value, 6 if number == 3 else 5).decode()
        assert made["in"] == {3: "query", 4: "path"}[number]
        required = every(value, 1)
    return {**made, "required": True} if required else made


def response(data):
    inner = one(data, 1)
    made = {"description": one(inner, 1).decode()}
    for found in every(inner, 2):
        made["schema"] = schema(one(found, 1))
    return made


def operation(data):
    return {
        "operationId": one(data, 5).decode(),
        "produces": [each.decode() for each in every(data, 6)],
        "consumes": [each.decode() for each in every(data, 7)],
        "parameters": [parameter(each) for each in every(data, 8)],
        "responses": {code: response(each) for code, each in named(every(one(data, 9), 1)).items()},
        **extensions(every(data, 13)),
    }


METHODS = {2: "get", 3: "put", 4: "post", 5: "delete", 8: "patch"}


def path_item(data):
    made = {METHODS[number]: operation(value) for number, value in fields(data) if number in METHODS}
    return {**made, "parameters": [parameter(each) for each in every(data, 9)]}


@pytest.fixture(scope="module")
def document():
    return openapi_v2(Catalogue(BUILT_IN))


@pytest.fixture(scope="module")
def written(document):
    return openapi_v2_protobuf(document)


def test_definitions_round_trip(document, written):
    assert {name: schema(each) for name, each in named(every(one(written, 9), 1)).items()} == document["definitions"]


def test_paths_round_trip(document, written):
    assert {path: path_item(each) for path, each in named(every(one(written, 8), 2)).items()} == document["paths"]


def test_the_envelope_round_trips(document, written):
    info = one(written, 2)

    assert one(written, 1).decode() == document["swagger"]
    assert {"title": one(info, 1).decode(), "version": one(info, 2).decode()} == document["info"]


def test_lengths_of_long_fields():
    text = "x" * 300
    data = openapi_v2_protobuf({"swagger": text})

    assert data == b"\x0a\xac\x02" + text.encode()
