"""A recording on disk: whatever the disk does, the event loop does not wait, and the scheduler goes on."""

import gzip
import os
import stat
import time
from contextlib import contextmanager

import pytest

from stowplan.daemon import recording_file
from stowplan.daemon.hang_guard import HangGuard
from stowplan.daemon.recording_file import RecordingFile, recording
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(recording_file, "FLUSH_INTERVAL", 0.001)


def until(reached):
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.001)


def test_lines_are_written_while_it_runs(tmp_path):
    path = tmp_path / "recording"
    file = RecordingFile(str(path))
    file.write(b"one\n")
    until(lambda: gzip.decompress(path.read_bytes()) == b"one\n")
    file.write(b"two\n")
    file.write(b"three\n")
    file.close()
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\nthree\n"
    with pytest.raises(OSError, match="is closed"):
        file.write(b"four\n")


@pytest.mark.parametrize("before", [None, 0o644])
def test_it_is_for_its_owner_only(tmp_path, before):
    path = tmp_path / "recording"
    if before is not None:
        path.write_text("an older one")
        path.chmod(before)
    RecordingFile(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b""


def test_a_place_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError), recording(str(tmp_path / "nowhere" / "recording"), HangGuard()):
        pass


@contextmanager
def a_disk_that_takes_nothing(path):
    """A pipe that nobody empties."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(reader)


def write_much(file):
    for _ in range(100):
        file.write(os.urandom(2**16))


def test_a_disk_that_does_not_keep_up(tmp_path, monkeypatch):
    monkeypatch.setattr(recording_file, "MAX_WAITING", 2**20)
    monkeypatch.setattr(recording_file, "CLOSE_TIMEOUT", 0.01)
    path = tmp_path / "pipe"
    with a_disk_that_takes_nothing(path):
        file = RecordingFile(str(path))
        with pytest.raises(BlockingIOError, match="does not keep up: 1 MiB wait"):
            write_much(file)
        with pytest.raises(BlockingIOError, match="does not take what still waits"):
            file.close()
    # Now it breaks, and the thread ends.
    until(lambda: not file._thread.is_alive())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
async def test_a_full_disk_costs_the_recording_and_one_line(caplog):
    with recording("/dev/full", HangGuard()) as recorder:
        async with live(a_node("n1").obj(), recorder=recorder) as cluster:
            await cluster.create(a_pod("before").obj())
            until(lambda: not recorder._recording or recorder._recording._write.__self__._failed)
            await cluster.create(a_pod("after").obj())
            assert cluster.node_of("before") == cluster.node_of("after") == "n1"
    said = [record.message for record in caplog.records if "recording" in record.message]
    assert len(said) == 1
    assert "Cannot write the recording; it ends here" in said[0]
    assert "No space left on device" in said[0]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
def test_a_disk_that_is_full_at_the_very_end(caplog, monkeypatch):
    monkeypatch.setattr(recording_file, "FLUSH_INTERVAL", 100.0)
    with recording("/dev/full", HangGuard()) as recorder:
        recorder._write(b"a line\n")
    (said,) = caplog.records
    assert "Cannot write the recording; it ends here" in said.message
