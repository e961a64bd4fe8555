"""Reading the fields of protobuf messages."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.schema import protobuf
from stowplan_cluster.apiserver.schema.protobuf import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields


def read(data):
    return [
        (number, kind, value if isinstance(value, int) else bytes(value))
        for number, kind, value in fields(memoryview(data))
    ]


def test_fields_of_each_wire_type():
    data = b"\x08\x96\x01" + b"\x12\x02hi" + b"\x19" + bytes(8) + b"\x25abcd"

    assert read(data) == [(1, VARINT, 150), (2, BYTES, b"hi"), (3, FIXED64, bytes(8)), (4, FIXED32, b"abcd")]


def test_groups_are_skipped():
    inner = b"\x13" + b"\x08\x01" + b"\x22\x01\x14" + b"\x1d\x14\x14\x14\x14" + b"\x14"

    assert read(b"\x0b" + inner + b"\x0c" + b"\x10\x07") == [(2, VARINT, 7)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"\x08", "unexpected end", id="a tag without a value"),
        pytest.param(b"\x08\x80", "unexpected end", id="half a number"),
        pytest.param(b"\x08" + b"\xff" * 10, "a number has more than 64 bits", id="an endless number"),
        pytest.param(b"\x12\x05abc", "unexpected end", id="fewer bytes than announced"),
        pytest.param(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc", "unexpected end", id="a huge length"),
        pytest.param(b"\x19abc", "unexpected end", id="half of 8 bytes"),
        pytest.param(b"\x00\x01", "illegal field number 0", id="field 0"),
        pytest.param(b"\x80\x80\x80\x80\x10\x01", "illegal field number 536870912", id="a number too large"),
        pytest.param(b"\x0e", "illegal wire type 6", id="unknown wire type"),
        pytest.param(b"\x0c", "illegal wire type 4", id="unexpected end of group"),
        pytest.param(b"\x0b\x08\x01", "unexpected end", id="unterminated group"),
    ],
)
def test_malformed(data, why):
    with pytest.raises(Malformed, match=f"^{why}$"):
        read(data)


@pytest.mark.parametrize(
    ("reader", "kind", "value", "expected"),
    [
        pytest.param(protobuf.int32, VARINT, (1 << 64) - 5, -5, id="a negative number has ten bytes"),
        pytest.param(protobuf.int32, VARINT, (1 << 32) - 5, -5, id="or five"),
        pytest.param(protobuf.int32, VARINT, (1 << 32) + 5, 5, id="beyond 32 bits is cut off"),
        pytest.param(protobuf.int64, VARINT, (1 << 64) - 5, -5, id="negative, 64 bits"),
        pytest.param(protobuf.int64, VARINT, (1 << 63) - 1, (1 << 63) - 1, id="the largest"),
        pytest.param(protobuf.flag, VARINT, 2, True, id="true"),
        pytest.param(protobuf.flag, VARINT, 0, False, id="false"),
        pytest.param(protobuf.text, BYTES, "é".encode(), "é", id="text"),
        pytest.param(protobuf.base64, BYTES, b"\x00\xff", "AP8=", id="bytes"),
        pytest.param(protobuf.double, FIXED64, struct.pack("<d", 0.5), 0.5, id="double"),
    ],
)
def test_values(reader, kind, value, expected):
    assert reader(kind, value if isinstance(value, int) else memoryview(value)) == expected


@pytest.mark.parametrize(
    ("reader", "kind", "value", "why"),
    [
        pytest.param(protobuf.int32, BYTES, b"", "expected a number, got a length and bytes", id="bytes for a number"),
        pytest.param(protobuf.text, VARINT, 1, "expected a length and bytes, got a number", id="a number for text"),
        pytest.param(
            protobuf.text, FIXED32, b"abcd", "expected a length and bytes, got 4 bytes", id="4 bytes for text"
        ),
        pytest.param(protobuf.text, BYTES, b"\xff", "text that is not in UTF-8", id="no UTF-8"),
        pytest.param(protobuf.double, FIXED32, b"abcd", "expected 8 bytes, got 4 bytes", id="float for double"),
        pytest.param(protobuf.double, FIXED64, struct.pack("<d", float("nan")), "JSON has no number nan", id="NaN"),
    ],
)
def test_invalid_values(reader, kind, value, why):
    with pytest.raises(Malformed, match=f"^{why}$"):
        reader(kind, value if isinstance(value, int) else memoryview(value))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(data):
    try:
        found = read(data)
    except Malformed:
        return
    assert sum(len(value) for *_, value in found if isinstance(value, bytes)) <= len(data)
