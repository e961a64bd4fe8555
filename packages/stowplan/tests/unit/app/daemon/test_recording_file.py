"""A recording on disk: whatever happens to the disk, the event loop is not blocked, and the scheduler continues."""

import errno
import gzip
import os
import stat
import time
from contextlib import contextmanager
from functools import partial

import pytest

from stowplan.app.daemon import recording_file
from stowplan.app.daemon.recording_file import RecordingFile, kept_annotations, recording
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.history.recordings.recording_files import rotated
from stowplan.history.recordings.replaying import Replayed, difference, moment_of
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.input_log.recorded_annotations import OTHERS
from stowplan.scheduler.engine.inputs import Changes
from stowplan.scheduler.framework.declarations import ReadsNoObjects
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(recording_file, "FLUSH_INTERVAL", 0.001)


def until(reached):
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, "the condition did not become true"
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
def test_the_file_is_private_to_its_owner(tmp_path, before):
    path = tmp_path / "recording"
    if before is not None:
        path.write_text("an older one")
        path.chmod(before)
    RecordingFile(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b""


def test_a_path_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError), recording(str(tmp_path / "nowhere" / "recording"), HangGuard()):
        pass


@contextmanager
def a_blocked_disk(path):
    """A pipe without a reader."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(reader)


def write_much(file):
    for _ in range(100):
        file.write(os.urandom(2**16))


def test_a_disk_that_is_too_slow(tmp_path, monkeypatch):
    monkeypatch.setattr(recording_file, "MAX_WAITING", 2**20)
    monkeypatch.setattr(recording_file, "CLOSE_TIMEOUT", 0.01)
    path = tmp_path / "pipe"
    with a_blocked_disk(path):
        file = RecordingFile(str(path))
        with pytest.raises(BlockingIOError, match="does not keep up: 1 MiB wait"):
            write_much(file)
        with pytest.raises(BlockingIOError, match="does not take what still waits"):
            file.close()
    # Now writing fails, and the thread ends.
    until(lambda: not file._thread.is_alive())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
async def test_a_full_disk_ends_the_recording_with_one_log_line(caplog):
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
def test_a_disk_that_is_full_at_close(caplog, monkeypatch):
    monkeypatch.setattr(recording_file, "FLUSH_INTERVAL", 100.0)
    with recording("/dev/full", HangGuard()) as recorder:
        recorder._write(b"a line\n")
    (said,) = caplog.records
    assert "Cannot write the recording; it ends here" in said.message


# -- existing recordings -----------------------------------------------------------------------------------------------


def plain(path):
    return gzip.decompress(path.read_bytes())


def test_an_existing_file_is_renamed(tmp_path):
    path = tmp_path / "recording"
    for text in (b"first\n", b"second\n", b"third\n", b"fourth\n"):
        file = RecordingFile(str(path), kept=2)
        file.write(text)
        file.close()
    assert plain(path) == b"fourth\n"
    assert {other.name: plain(other) for other in tmp_path.iterdir() if other != path} == {
        "recording.2": b"second\n",
        "recording.3": b"third\n",
    }


def _is_written(file):
    return file._taken == file._written


def _is_rotated(file):
    return not file._rotating


async def test_each_rotated_file_is_complete_in_itself(tmp_path):
    path = tmp_path / "recording"
    with recording(str(path), HangGuard(), rotate_at=1) as recorder:
        async with live(a_node("n1").obj(), a_node("n2").obj(), recorder=recorder) as cluster:
            for name in ("one", "two", "three"):
                await cluster.create(a_pod(name).obj())
                file = recorder._rotation
                # More than a byte is written by now, and the scheduler is idle.
                recorder.flush()
                until(partial(_is_written, file))
                await cluster.settle()
                until(partial(_is_rotated, file))
            placed = {name: cluster.node_of(name) for name in ("one", "two", "three")}
    registry = in_tree_registry()
    older = [name for _, name in rotated(str(path))]
    assert len(older) >= 2
    for name in (*older, str(path)):
        with Replayed(name, registry) as again:
            assert [difference(step) for step in again.steps() if difference(step)] == []
    found = moment_of(str(path), None, registry)
    assert {obj.metadata.name: obj.spec.node_name for obj in found.objects if type(obj).__name__ == "Pod"} == placed


def test_a_disk_that_is_full_within_a_gzip_member(tmp_path, monkeypatch):
    path = tmp_path / "recording"
    file = RecordingFile(str(path))
    file.write(b"whole\n")
    until(lambda: file._written)
    write = os.write

    def full(descriptor, data):
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:10])

    monkeypatch.setattr(recording_file.os, "write", full)
    file.write(b"lost\n")
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert plain(path) == b"whole\n"


# -- annotations -------------------------------------------------------------------------------------------------------


def test_annotations_that_plugins_read_are_kept(tmp_path):
    class Reading(ReadsNoObjects):
        name = "Reading"
        reads_annotations = ("example.com/read",)

    registry = in_tree_registry()
    registry.register(Reading)
    kept = kept_annotations(registry, ["example.com/asked-for"])
    written = {"example.com/read": "1", "example.com/asked-for": "2", "example.com/secret": "3"}
    made = convert(a_pod("p").annotations(written | {"volume.kubernetes.io/selected-node": "n"}).obj(), Pod)
    found = annotations_of(kept, made)
    digest = found.pop(OTHERS)
    assert found == {"example.com/read": "1", "example.com/asked-for": "2", "volume.kubernetes.io/selected-node": "n"}
    assert len(digest) == 16
    # A change of an annotation that is not kept is recorded, without its value.
    other = convert(a_pod("p").annotations(written | {"example.com/secret": "4"}).obj(), Pod)
    assert annotations_of(kept, other)[OTHERS] != digest
    assert annotations_of(kept_annotations(registry, ()), made)[OTHERS] != digest
    assert kept_annotations(registry, ["all"]) is None


def annotations_of(kept, obj):
    return kept.of_input(Changes(Pod, (Change(None, obj),))).changes[0].new.metadata.annotations
