"""Which file of a rotated recording has a moment."""

import msgspec
import pytest

from stowplan.engine.recording import Header, RecordingError
from stowplan.recordings.container import packed
from stowplan.recordings.files import file_at, header_of, moment_text, rotated

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


def test_a_moment_before_all_of_them(path):
    with pytest.raises(RecordingError, match=r"begins at 1970-01-01T00:03:20.000Z, after 1970-01-01T00:03:19.000Z"):
        file_at(path, 199.0)


def test_what_is_no_recording(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(RecordingError, match="empty: nothing is in it"):
        header_of(str(tmp_path / "empty"))
    (tmp_path / "other").write_bytes(b"{}\n")
    with pytest.raises(RecordingError, match="other: line 1: no header of a recording"):
        header_of(str(tmp_path / "other"))
    with pytest.raises(RecordingError, match="no such file"):
        header_of(str(tmp_path / "nowhere"))


def test_moments_that_no_calendar_has():
    assert moment_text(1e20) == "1e+20"
