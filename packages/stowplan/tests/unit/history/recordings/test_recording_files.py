"""Recordings on disk: which file has a moment; complete lines are read, damage is reported."""

import gzip
from io import BytesIO
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.history.recordings import recording_files
from stowplan.history.recordings.recording_files import (
    file_at,
    files_of_run,
    header_of,
    is_continued,
    lines_of,
    moment_text,
    packed,
    rotated,
)
from stowplan.scheduler.engine.input_log.recording import Header, RecordingError
from support.examples import examples

DUMPED = SimpleNamespace(dump="what was there")
HEADER = Header(now=0.0, configuration={}, gates={}, max_in_unschedulable=300.0)


@pytest.fixture
def path(tmp_path):
    for name, now in (("r", 400.0), ("r.9", 200.0), ("r.10", 300.0), ("r.x", 0.0), ("r.1.2", 0.0), ("q.1", 0.0)):
        header = msgspec.structs.replace(HEADER, now=now)
        (tmp_path / name).write_bytes(packed(msgspec.json.encode(header) + b"\n"))
    return str(tmp_path / "r")


def test_older_files_by_number(path):
    assert rotated(path) == [(9, f"{path}.9"), (10, f"{path}.10")]


@pytest.mark.parametrize(("when", "suffix"), [(None, ""), (1e9, ""), (400.0, ""), (399.9, ".10"), (200.0, ".9")])
def test_the_file_of_a_moment(path, when, suffix):
    assert file_at(path, when) == path + suffix


@pytest.mark.parametrize(
    ("begin_runs", "run"),
    [
        pytest.param({"r"}, ["r"], id="the newest begins it"),
        pytest.param({"r.9"}, ["r.9", "r.10", "r"], id="all of them"),
        pytest.param({"r.9", "r.10"}, ["r.10", "r"], id="an earlier run beside it"),
        pytest.param(set(), ["r.9", "r.10", "r"], id="its beginning is gone"),
    ],
)
def test_the_files_of_a_run(path, monkeypatch, begin_runs, run):
    folder = path.removesuffix("r")
    headers = {f"{folder}{name}": msgspec.structs.replace(HEADER, dump=None) for name in begin_runs}
    monkeypatch.setattr(recording_files, "header_of", lambda name: headers.get(name, DUMPED))
    assert files_of_run(path) == [f"{folder}{name}" for name in run]


@pytest.mark.parametrize(
    ("file", "begin_runs", "continued"),
    [
        ("r", set(), False),
        ("r.10", {"r"}, False),
        ("r.10", set(), True),
        ("r.9", {"r"}, True),
        ("r.9", {"r.10"}, False),
    ],
)
def test_whether_a_file_goes_on_in_the_next(path, monkeypatch, file, begin_runs, continued):
    folder = path.removesuffix("r")
    headers = {f"{folder}{name}": msgspec.structs.replace(HEADER, dump=None) for name in begin_runs}
    monkeypatch.setattr(recording_files, "header_of", lambda name: headers.get(name, DUMPED))
    assert is_continued(path, f"{folder}{file}") is continued


def test_a_missing_file_ends_the_run(path, monkeypatch, tmp_path):
    (tmp_path / "r.12").write_bytes(b"x")
    monkeypatch.setattr(recording_files, "header_of", lambda name: DUMPED)
    assert files_of_run(path) == [f"{path}.12", path]


def test_a_moment_before_all_of_them(path):
    with pytest.raises(RecordingError, match=r"begins at 1970-01-01T00:03:20.000Z, after 1970-01-01T00:03:19.000Z"):
        file_at(path, 199.0)


def test_other_files(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(RecordingError, match="the file is empty"):
        header_of(str(tmp_path / "empty"))
    (tmp_path / "other").write_bytes(b"{}\n")
    with pytest.raises(RecordingError, match="other: line 1: no header of a recording"):
        header_of(str(tmp_path / "other"))
    with pytest.raises(RecordingError, match="no such file"):
        header_of(str(tmp_path / "nowhere"))


def test_invalid_dates():
    assert moment_text(1e20) == "1e+20"


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
    monkeypatch.setattr("stowplan.history.recordings.recording_files._LONGEST_LINE", 500_000)
    with pytest.raises(RecordingError, match="a line is longer"):
        read(packed(line))
