"""Encode protobuf fields and messages.

Decoding is elsewhere (`apiserver/schema/protobuf.py`), as its input is not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def bytes_field(number: int, value: bytes) -> bytes:
    """Also for a nested message."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode())


def number_field(number: int, value: int) -> bytes:
    """A non-negative number, or a flag."""
    return varint(number << 3 | _VARINT) + varint(int(value))


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """Packed non-negative numbers."""
    return bytes_field(number, b"".join(map(varint, values)))
