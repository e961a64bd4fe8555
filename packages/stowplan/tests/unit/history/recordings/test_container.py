"""Lines in a file that may be truncated: complete lines are read, damage is reported."""

import gzip
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.history.recordings.container import lines_of, packed
from stowplan.scheduler.engine.input_log.recording import RecordingError
from support.examples import examples

LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"") + b"\n"), min_size=1, max_size=6)


def read(data):
    return list(lines_of(BytesIO(data)))


@given(st.lists(LINES, min_size=1, max_size=5), st.data())
@examples(60)
def test_a_crash_at_any_byte_loses_at_most_the_last_member(members, data):
    packs = [packed(b"".join(lines)) for lines in members]
    whole = b"".join(packs)
    end = data.draw(st.integers(0, len(whole)))
    expected, size = [], 0
    for lines, pack in zip(members, packs, strict=True):
        size += len(pack)
        if size <= end:
            expected += lines
    found = read(whole[:end])
    assert found[: len(expected)] == expected
    # Further lines belong to the truncated member, the last possibly truncated itself.
    written = b"".join(line for lines in members for line in lines)
    assert written.startswith(b"".join(found))


def test_gzip_can_read_it():
    assert gzip.decompress(packed(b"one\n") + packed(b"two\n")) == b"one\ntwo\n"


def test_zero_bytes_at_the_end():
    assert read(packed(b"one\n") + bytes(300_000)) == [b"one\n"]
    half = packed(b"one\ntwo\nthree\n")
    assert read(packed(b"one\n") + half[:15] + bytes(100_000))[:1] == [b"one\n"]


def test_damage_before_the_end():
    first, second = packed(b"one\n" * 100), packed(b"two\n" * 100)
    broken = bytearray(first + second)
    broken[len(first) + 12] ^= 0xFF
    with pytest.raises(RecordingError, match=r"broken near byte \d+"):
        read(bytes(broken) + packed(b"three\n"))


def test_plain_lines_of_older_versions():
    assert read(b"one\ntwo") == [b"one\n", b"two"]
    assert read(b"") == []


def test_a_line_longer_than_a_read(monkeypatch):
    line = b"x" * 1_000_000 + b"\n"
    assert read(packed(line) + packed(b"y\n")) == [line, b"y\n"]
    monkeypatch.setattr("stowplan.history.recordings.container._LONGEST_LINE", 500_000)
    with pytest.raises(RecordingError, match="a line is longer"):
        read(packed(line))
