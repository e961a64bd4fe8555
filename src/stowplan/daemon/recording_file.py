"""A recording on disk, written by a thread: the event loop waits for no disk.

Lines are taken from the event loop as they come, and written every now and then, so a process that is killed loses the
last moment and may leave a line that is torn. A disk that is full, or too slow for what comes, ends the recording;
whoever writes to it is told by an exception. A recording says what runs in a cluster and under which names, so nobody
but its owner may read the file.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stowplan.klog import get_logger
from stowplan.live.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.guarding.hang_guard import HangGuard

#: Seconds between two writes.
FLUSH_INTERVAL = 0.5
#: Bytes that may wait for the disk: many seconds of the busiest scheduler.
MAX_WAITING = 64 * 2**20
#: Seconds that the disk is given for what still waits at the end.
CLOSE_TIMEOUT = 5.0

_log = get_logger(__name__)


class RecordingFile:
    def __init__(self, path: str) -> None:
        """Create the file, or empty it; raise OSError if that cannot be done."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if stat.S_ISREG(os.fstat(self._file).st_mode):
            # It may have been there before.
            os.fchmod(self._file, 0o600)
        #: Some lines each.
        self._lines: deque[bytes] = deque()
        #: Bytes; each is counted by one thread only.
        self._taken = self._written = 0
        #: Why nothing can be written any more.
        self._failed: OSError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="recording", daemon=True)
        self._thread.start()

    def write(self, lines: bytes) -> None:
        """Have them written soon; raise OSError once that is not possible any more."""
        if self._failed is not None:
            raise self._failed
        self._taken += len(lines)
        if self._taken - self._written > MAX_WAITING:
            raise BlockingIOError(f"the disk does not keep up: {MAX_WAITING >> 20} MiB wait to be written")
        self._lines.append(lines)

    def close(self) -> None:
        """Write what still waits, unless the disk takes too long; raise OSError if that does not work."""
        self._closing.set()
        self._thread.join(CLOSE_TIMEOUT)
        if self._failed is None and self._thread.is_alive():
            self._failed = BlockingIOError("the disk does not take what still waits to be written")
        if self._failed is not None:
            raise self._failed
        self._failed = OSError("the recording is closed")

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
        """Write the lines that wait; those that come meanwhile are for the next time."""
        data = b"".join([self._lines.popleft() for _ in range(len(self._lines))])
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._written += len(data)


@contextmanager
def recording(path: str, guard: HangGuard) -> Iterator[Recorder]:
    """A recorder into a file, complete at the end of the block; raise OSError if there can be no such file."""
    file = RecordingFile(path)
    recorder = Recorder(file.write, guard=guard)
    try:
        yield recorder
    finally:
        recorder.flush()
        try:
            file.close()
        except OSError as e:
            recorder.end(e)
