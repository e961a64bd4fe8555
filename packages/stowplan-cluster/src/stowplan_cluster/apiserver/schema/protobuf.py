"""Decode protobuf request bodies of kubectl, kubelets and typed Go clients.

A body is an envelope (four magic bytes, then apiVersion, kind and the encoded object) around a message whose layout
follows from the object's type: `Struct.wire` has the field numbers. The result equals the decoded JSON of the same
object. Go encodes the zero value of every non-pointer field, so `conform` runs last and drops them.

Bodies are untrusted: time and memory are linear in their size, and nesting is bounded.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf, **/generated.proto.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.conform import JSON_SCHEMA, conform
from stowplan_cluster.apiserver.schema.parse import META, Schemas, built_in
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct, Type, WireField

# The protobuf wire format: a sequence of (field number, wire type, value).
#
# This module does not know what fields mean. Input is untrusted: nothing is read beyond its end, and lengths are
# checked before anything is allocated.
#
# Upstream: vendor/github.com/gogo/protobuf, as staging/**/generated.pb.go uses it.

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
_NAMES = {VARINT: "a number", FIXED64: "8 bytes", BYTES: "a length and bytes", FIXED32: "4 bytes"}
_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_NUMBER = (1 << 29) - 1
_MAX_VARINT = 10

#: A field's value: a number, or bytes to be decoded.
Value = int | memoryview


class Malformed(Exception):
    """Malformed input; the message names the field."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        #: Names of the enclosing fields, innermost first.
        self.within: list[str] = []

    def __str__(self) -> str:
        return ": ".join([".".join(reversed(self.within)), *self.args] if self.within else self.args)


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Yield (field number, wire type, value) for each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= _MAX_NUMBER:
            raise Malformed(f"illegal field number {number}")
        if wire == GROUP:
            # Groups are deprecated; no known field uses them.
            at = _after_group(data, at)
        else:
            value, at = _value(data, at, wire)
            yield number, wire, value


def packed(data: memoryview, wire: int) -> Iterator[Value]:
    """Decode a packed list of numbers."""
    at = 0
    while at < len(data):
        value, at = _value(data, at, wire)
        yield value


def _value(data: memoryview, at: int, wire: int) -> tuple[Value, int]:
    if wire == VARINT:
        return _varint(data, at)
    if wire == BYTES:
        size, at = _varint(data, at)
    elif wire in _SIZES:
        size = _SIZES[wire]
    else:
        raise Malformed(f"illegal wire type {wire}")
    if size > len(data) - at:
        raise Malformed("unexpected end")
    return data[at : at + size], at + size


def _after_group(data: memoryview, at: int) -> int:
    depth = 1
    while depth:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == GROUP:
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
        else:
            _, at = _value(data, at, wire)
    return at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Decode a varint: seven bits per byte, 64 in all."""
    value = shift = 0
    for byte in data[at : at + _MAX_VARINT]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise Malformed("a number has more than 64 bits" if shift == 7 * _MAX_VARINT else "unexpected end")


# Decoding of a field's value


def content(wire: int, value: Value) -> memoryview:
    if wire != BYTES or isinstance(value, int):
        raise _wrong(wire, BYTES)
    return value


def _wrong(wire: int, wanted: int) -> Malformed:
    return Malformed(f"expected {_NAMES[wanted]}, got {_NAMES[wire]}")


def _number(wire: int, value: Value) -> int:
    if not isinstance(value, int):
        raise _wrong(wire, VARINT)
    return value


def _signed(bits: int) -> Callable[[int, Value], int]:
    high = 1 << bits - 1

    def read(wire: int, value: Value) -> int:
        number = _number(wire, value) & (high << 1) - 1
        return number - (high << 1) if number >= high else number

    return read


int32, int64 = _signed(32), _signed(64)


def flag(wire: int, value: Value) -> bool:
    return _number(wire, value) != 0


def text(wire: int, value: Value) -> str:
    try:
        return str(content(wire, value), "utf-8")
    except UnicodeDecodeError:
        raise Malformed("text that is not in UTF-8") from None


def base64(wire: int, value: Value) -> str:
    return b64encode(content(wire, value)).decode()


def double(wire: int, value: Value) -> float:
    if wire != FIXED64 or isinstance(value, int):
        raise _wrong(wire, FIXED64)
    (number,) = struct.unpack("<d", value)
    if not math.isfinite(number):
        raise Malformed(f"JSON has no number {number}")
    return float(number)


MAGIC = b"k8s\x00"
#: Maximum nesting of messages: protobuf's own default, and far from Python's recursion limit.
MAX_DEPTH = 100

_EPOCH = datetime(1970, 1, 1)
_YEAR_10000 = 253402300800
#: Go's zero time, which means unset; earlier times are invalid.
_YEAR_1 = -62135596800


def decode(data: bytes, schemas: Schemas) -> JsonObject:
    """Decode the object in a request body; raise BadRequest if it is malformed or its kind is not in `schemas`."""
    try:
        api_version, kind, raw = _open_envelope(data)
        type = _type_of(api_version, kind, schemas)
        obj = _merge(type, raw, {"apiVersion": api_version, "kind": kind}, 0)
    except Malformed as error:
        raise BadRequest(f"the object provided is unrecognized (must be a protobuf message): {error}") from None
    conform(type, obj)
    return obj


def _open_envelope(data: bytes) -> tuple[str, str, memoryview]:
    if not data.startswith(MAGIC):
        raise Malformed(f"it does not begin with {MAGIC!r}")
    type_meta = {1: "", 2: ""}
    raw = memoryview(b"")
    for number, wire, value in fields(memoryview(data)[len(MAGIC) :]):
        if number == 1:
            type_meta |= _texts(content(wire, value))
        elif number == 2:
            raw = content(wire, value)
    return type_meta[1], type_meta[2], raw


def _texts(data: memoryview) -> dict[int, str]:
    return {number: text(wire, value) for number, wire, value in fields(data) if number in (1, 2)}


def _type_of(api_version: str, kind: str, schemas: Schemas) -> Struct:
    if not kind:
        raise Malformed("Object 'Kind' is missing")
    if not api_version:
        raise Malformed("Object 'apiVersion' is missing")
    if kind == "DeleteOptions":
        # DeleteOptions are the same in every group.
        return schemas.structs[f"{META}.DeleteOptions"]
    type = schemas.kinds.get((api_version, kind))
    if type is None:
        raise Malformed(f"no kind {go_quote(kind)} is registered for version {go_quote(api_version)}")
    if type.preserve_unknown:
        raise Malformed(f"{kind} of {api_version} is stored only, without the layout of its message: send JSON")
    return type


# Values by type. `before` is the field's earlier value: later occurrences replace it or are merged into it.


def _merge(type: Struct, data: memoryview, into: JsonObject, depth: int) -> JsonObject:
    if depth > MAX_DEPTH:
        raise Malformed("exceeded max depth")
    layout = type.wire
    for number, wire, value in fields(data):
        field = layout.get(number)
        if field is None:
            continue
        name = field.name
        try:
            if name:
                into[name] = _read(field.type, wire, value, into.get(name), depth)
            else:
                _read(field.type, wire, value, into, depth)
        except Malformed as error:
            if name:
                error.within.append(name)
            raise
    return into


def _read(type: Type, wire: int, value: Value, before: Any, depth: int) -> Any:
    if isinstance(type, Struct):
        return _merge(type, content(wire, value), {} if before is None else before, depth + 1)
    if isinstance(type, ListType):
        items: list[Any] = [] if before is None else before
        items.extend(_items(type.element, wire, value, depth))
        return items
    if isinstance(type, MapType):
        entries: JsonObject = {} if before is None else before
        key, item = _entry(type.value, content(wire, value), depth)
        entries[key] = item
        return entries
    if type in _CHOICES:
        return _schema_or_else(type, content(wire, value), depth)
    return _SCALARS[type](wire, value)


def _items(type: Type, wire: int, value: Value, depth: int) -> Iterator[Any]:
    alone = _PACKED.get(type, wire)
    if wire == alone:
        yield _read(type, wire, value, None, depth)
    else:
        for item in packed(content(wire, value), alone):
            yield _read(type, alone, item, None, depth)


def _entry(type: Type, data: memoryview, depth: int) -> tuple[str, Any]:
    """Decode a map entry: a message with key (1) and value (2)."""
    key, item = "", None
    for number, wire, value in fields(data):
        if number == 1:
            key = text(wire, value)
        elif number == 2 and isinstance(type, ListType):
            item = _boxed_list(type, content(wire, value), depth)
        elif number == 2:
            item = _read(type, wire, value, item, depth)
    return key, item


def _boxed_list(type: ListType, data: memoryview, depth: int) -> list[Any]:
    """Decode a list that is a map value: protobuf wraps it in a message."""
    lists = (_items(type.element, wire, value, depth) for number, wire, value in fields(data) if number == 1)
    return [item for items in lists for item in items]


def _schema_or_else(type: Scalar, data: memoryview, depth: int) -> Any:
    parts = _merge(_choice(type), data, {}, depth)
    if type is Scalar.SCHEMA_OR_BOOL:
        return parts.get("schema", parts.get("else", False))
    return parts.get("else") or parts.get("schema")


@cache
def _choice(type: Scalar) -> Struct:
    """The message of a union: a schema or its alternative."""
    schema = WireField("schema", built_in().structs[JSON_SCHEMA])
    if type is Scalar.SCHEMA_OR_BOOL:
        return Struct("", wire={1: WireField("else", Scalar.BOOL), 2: schema})
    element = schema.type if type is Scalar.SCHEMA_OR_LIST else Scalar.STRING
    return Struct("", wire={1: schema, 2: WireField("else", ListType(element))})


# Values that are scalars in JSON and messages in protobuf


def _parts(wire: int, value: Value) -> dict[int, tuple[int, Value]]:
    """The last value of each field."""
    return {number: (wire, value) for number, wire, value in fields(content(wire, value))}


def _quantity(wire: int, value: Value) -> str:
    found = _parts(wire, value).get(1)
    return text(*found) if found else "0"


def _any(wire: int, value: Value) -> Any:
    found = _parts(wire, value).get(1)
    raw = content(*found) if found else b""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None


def _int_or_string(wire: int, value: Value) -> int | str:
    parts = _parts(wire, value)
    if 1 in parts and int64(*parts[1]) != 0:
        return text(*parts[3]) if 3 in parts else ""
    return int32(*parts[2]) if 2 in parts else 0


def _timestamp(wire: int, value: Value) -> datetime | None:
    parts = _parts(wire, value)
    if not parts:
        return None
    seconds = int64(*parts[1]) if 1 in parts else 0
    nanos = int32(*parts[2]) if 2 in parts else 0
    if not _YEAR_1 <= seconds < _YEAR_10000 or not 0 <= nanos < 1_000_000_000:
        raise Malformed(f"a time out of range: {seconds} seconds and {nanos} nanoseconds since 1970")
    if seconds == _YEAR_1 and not nanos:
        return None
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _time(wire: int, value: Value) -> str | None:
    found = _timestamp(wire, value)
    return f"{found.isoformat(timespec='seconds')}Z" if found else None


def _micro_time(wire: int, value: Value) -> str | None:
    found = _timestamp(wire, value)
    return f"{found.isoformat(timespec='microseconds')}Z" if found else None


def _json_number(wire: int, value: Value) -> int | float:
    number = double(wire, value)
    # As Go's JSON encoder prints it.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


_CHOICES = (Scalar.SCHEMA_OR_LIST, Scalar.SCHEMA_OR_BOOL, Scalar.SCHEMA_OR_NAMES)
#: Types whose lists may be packed -> wire type of a single value.
_PACKED: dict[Type, int] = {Scalar.BOOL: VARINT, Scalar.INT32: VARINT, Scalar.INT64: VARINT, Scalar.NUMBER: FIXED64}
_SCALARS: dict[Scalar, Callable[[int, Value], Any]] = {
    Scalar.STRING: text,
    Scalar.BOOL: flag,
    Scalar.INT32: int32,
    Scalar.INT64: int64,
    Scalar.NUMBER: _json_number,
    Scalar.BYTES: base64,
    Scalar.QUANTITY: _quantity,
    Scalar.INT_OR_STRING: _int_or_string,
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
    Scalar.ANY: _any,
}
