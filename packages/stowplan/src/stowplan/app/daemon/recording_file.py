"""Write a recording to disk on a separate thread.

Lines are queued by the event loop and written in intervals, each time as a separate gzip member
(`recordings.container`). So a killed process loses the last moment and may leave a truncated member; everything before
it is readable. If the disk is full or too slow, the recording ends: the writer gets an exception, and the file ends
with the last complete member. A recording reveals what runs in a cluster, so only its owner may read the file.

Recordings are never overwritten: an existing file is renamed with the next number as suffix (`recordings.files`), and
so is a file that has become too large. The oldest are deleted if there are too many.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stowplan.history.recordings.recording_files import packed, rotated
from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.input_log.input_recorder import Recorder
from stowplan.scheduler.engine.input_log.recorded_annotations import RecordedAnnotations

if TYPE_CHECKING:
    from stowplan.drivers.hang_guard.hang_guard import HangGuard
    from stowplan.scheduler.framework.runtime.registry import Registry

#: Seconds between two writes.
FLUSH_INTERVAL = 0.5
#: Maximum number of bytes waiting for the disk: many seconds of the busiest scheduler.
MAX_WAITING = 64 * 2**20
#: Timeout in seconds for writing the remaining data at the end.
CLOSE_TIMEOUT = 5.0
#: File size in bytes from which it is rotated, and number of older files that are kept.
ROTATE_AT, KEPT = 256 * 2**20, 8
#: Keep all annotations.
ALL = "all"
#: Bytes of lines that are compressed at a time, which bounds the memory of one member.
_MEMBER = 8 * 2**20

_log = get_logger(__name__)


class _Rotate:
    """A marker in the queue: the following lines go to a new file."""


_ROTATE = _Rotate()


class RecordingFile:
    def __init__(self, path: str, *, rotate_at: int = ROTATE_AT, kept: int = KEPT) -> None:
        """Create the file, renaming an existing one; raises OSError.

        `rotate_at`: bytes; 0: never. `kept`: number of older files, including those of earlier runs.
        """
        self._path = path
        self._rotate_at = rotate_at
        self._kept = kept
        self._file = self._create()
        #: Several lines each.
        self._lines: deque[bytes | _Rotate] = deque()
        #: Bytes of lines; each is counted by one thread only.
        self._taken = self._written = 0
        #: Of the current file.
        self._size = 0
        #: Whether a rotation was requested and has not been done yet.
        self._rotating = False
        #: Why writing has failed.
        self._failed: OSError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="recording", daemon=True)
        self._thread.start()

    def write(self, lines: bytes) -> None:
        """Queue lines for writing; raises OSError after a failure."""
        if self._failed is not None:
            raise self._failed
        self._taken += len(lines)
        if self._taken - self._written > MAX_WAITING:
            raise BlockingIOError(f"the disk does not keep up: {MAX_WAITING >> 20} MiB wait to be written")
        self._lines.append(lines)

    @property
    def is_due(self) -> bool:
        """Whether the file is large enough to be rotated."""
        return 0 < self._rotate_at <= self._size and not self._rotating

    def rotate(self) -> None:
        self._rotating = True
        self._lines.append(_ROTATE)

    def close(self) -> None:
        """Write the remaining data, unless the disk is too slow; raises OSError."""
        self._closing.set()
        self._thread.join(CLOSE_TIMEOUT)
        if self._failed is None and self._thread.is_alive():
            self._failed = BlockingIOError("the disk does not take what still waits to be written")
        if self._failed is not None:
            raise self._failed
        self._failed = OSError("the recording is closed")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _keep_writing(self) -> None:
        try:
            while not self._closing.wait(FLUSH_INTERVAL):
                self._write_out()
            self._write_out()
        except OSError as e:
            self._failed = e
        finally:
            os.close(self._file)

    def _write_out(self) -> None:
        """Write the queued lines; those added meanwhile are written next time."""
        waiting: list[bytes] = []
        size = 0
        for _ in range(len(self._lines)):
            lines = self._lines.popleft()
            if isinstance(lines, _Rotate):
                self._write_member(b"".join(waiting))
                waiting, size = [], 0
                self._begin_another()
                continue
            waiting.append(lines)
            size += len(lines)
            if size >= _MEMBER:
                self._write_member(b"".join(waiting))
                waiting, size = [], 0
        self._write_member(b"".join(waiting))

    def _write_member(self, lines: bytes) -> None:
        if not lines:
            return
        member = packed(lines)
        rest = memoryview(member)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # Complete members stay; a pipe cannot be truncated.
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(member)
        self._written += len(lines)

    def _begin_another(self) -> None:
        another = self._create()
        os.close(self._file)
        self._file, self._size, self._rotating = another, 0, False

    def _create(self) -> int:
        """Create an empty file, readable by its owner only; a special file, such as a pipe, is opened as it is."""
        self._move_aside()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if stat.S_ISREG(os.fstat(file).st_mode):
            # It may have existed before.
            os.fchmod(file, 0o600)
        return file

    def _move_aside(self) -> None:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(there.st_mode) or not there.st_size:
            return
        older = rotated(self._path)
        os.rename(self._path, f"{self._path}.{older[-1][0] + 1 if older else 1}")
        for _, path in rotated(self._path)[: -self._kept or None]:
            with suppress(OSError):
                os.unlink(path)


def kept_annotations(registry: Registry, asked_for: Collection[str]) -> RecordedAnnotations | None:
    """The annotations that plugins read, and those requested by the user: keys, or `all`."""
    if ALL in asked_for:
        return None
    read = (key for declaration in registry.declarations.values() for key in declaration.annotations)
    return RecordedAnnotations((*read, *asked_for), secret=os.urandom(32))


@contextmanager
def recording(
    path: str,
    guard: HangGuard | None,
    *,
    annotations: RecordedAnnotations | None = None,
    rotate_at: int = ROTATE_AT,
    kept: int = KEPT,
) -> Iterator[Recorder]:
    """A recorder to a file, complete at the end of the context; raises OSError."""
    file = RecordingFile(path, rotate_at=rotate_at, kept=kept)
    recorder = Recorder(file.write, guard=guard, annotations=annotations, rotation=file)
    try:
        yield recorder
    finally:
        recorder.flush()
        try:
            file.close()
        except OSError as e:
            recorder.end(e)
