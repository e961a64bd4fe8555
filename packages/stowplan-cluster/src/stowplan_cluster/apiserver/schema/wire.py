"""The protobuf wire format: a sequence of (field number, wire type, value).

This module does not know what fields mean. Input is untrusted: nothing is read beyond its end, and lengths are checked
before anything is allocated.

Upstream: vendor/github.com/gogo/protobuf, as staging/**/generated.pb.go uses it.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
