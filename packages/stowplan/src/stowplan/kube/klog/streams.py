"""Output streams: combined, or split into info and error streams.

Lines are written immediately, except that info lines with a stream of their own may be buffered until the next `flush`.

Upstream: k8s.io/component-base/logs/api/v1/text.go, logs/json/json.go.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from stowplan.kube.klog.entry import Severity


class Writer(Protocol):
    def write(self, line: str) -> None: ...

    def flush(self) -> None: ...


class Unbuffered:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        try:
            try:
                self._stream.write(line)
            except UnicodeEncodeError:
                # Characters that the stream's encoding lacks, or lone surrogates.
                self._stream.write(line.encode("ascii", "backslashreplace").decode())
            self._stream.flush()
        except (OSError, ValueError):
            # Parity: if stderr is closed, lines are dropped and the scheduler continues.
            return

    def flush(self) -> None:
        """No-op: nothing is buffered."""


class Buffered:
    """Buffers lines up to `size` bytes, or until `flush`."""

    def __init__(self, out: Writer, size: int) -> None:
        self._out = out
        self._size = size
        self._waiting = io.StringIO()
        self._bytes = 0

    def write(self, line: str) -> None:
        size = len(line.encode("utf-8", "replace"))
        if self._bytes + size > self._size:
            self.flush()
        if size > self._size:
            self._out.write(line)
            return
        self._waiting.write(line)
        self._bytes += size

    def flush(self) -> None:
        if self._bytes:
            text, self._waiting, self._bytes = self._waiting.getvalue(), io.StringIO(), 0
            self._out.write(text)


class Streams:
    """The stream of each severity."""

    def __init__(self, *, information: Writer, trouble: Writer, warnings: Writer) -> None:
        self._information = information
        self._writers: dict[Severity, Writer] = {"I": information, "W": warnings, "E": trouble}

    def write(self, severity: Severity, line: str) -> None:
        self._writers[severity].write(line)

    def flush(self) -> None:
        self._information.flush()
