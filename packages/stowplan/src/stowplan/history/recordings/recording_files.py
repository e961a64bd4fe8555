"""The files of a recording: FILE, FILE.1, FILE.2 and so on, each of concatenated gzip members.

A higher number is newer, and FILE is the newest. Each file is self-contained. One that begins with a dump continues the
file before it; one without begins a run, because a restarted recorder also rotates the files of the previous run.

Each write is a separate member of whole lines, readable without those before it, so that a crash loses at most the
last; `zcat` reads the file, too. If a process was killed, or a disk was full, the file may end anywhere: of an
incomplete member the lines that can still be decompressed count, and the end of the file is the end of the recording.
Corruption before the end is an error. Plain lines, as in recordings of older versions, are also supported.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stowplan.kube.config.config_errors import os_error_text
from stowplan.scheduler.engine.input_log.recording import (
    Header,
    RecordedInput,
    RecordingError,
    read_entries,
    read_header,
)

_GZIP = 31
#: The first byte of a member, which no line starts with.
_MAGIC = b"\x1f"
#: A higher level takes twice the time for a tenth of the size.
_LEVEL = 3
_CHUNK = 2**18
#: Maximum bytes per line: longer ones are not from a recording, and would exhaust memory.
_LONGEST_LINE = 2**31


def packed(lines: bytes) -> bytes:
    """A member with these lines."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(lines) + packer.flush()


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines including line ends, except possibly the last one; raises RecordingError for corruption."""
    first = file.read(_CHUNK)
    # A single byte may be all that was written of it.
    chunks = _unpacked(file, first) if first[:1] == _MAGIC else _plain(file, first)
    #: The start of an incomplete line.
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        if whole:
            yield b"".join((*begun, whole[0], b"\n"))
            for line in whole[1:]:
                yield line + b"\n"
            begun, size = [], 0
        if rest:
            begun.append(rest)
            size += len(rest)
            if size > _LONGEST_LINE:
                raise RecordingError(f"a line is longer than {_LONGEST_LINE >> 20} MiB: this is not a recording")
    if begun:
        yield b"".join(begun)


def _plain(file: BinaryIO, chunk: bytes) -> Iterator[bytes]:
    while chunk:
        yield chunk
        chunk = file.read(_CHUNK)


def _unpacked(file: BinaryIO, data: bytes) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP)
    #: File offset of the data.
    at = 0
    while data:
        if member.eof:
            if not data.strip(b"\0"):
                # Some file systems leave this after a power failure.
                at, data = at + len(data), file.read(_CHUNK)
                continue
            member = zlib.decompressobj(_GZIP)
        try:
            found = member.decompress(data, _CHUNK)
        except zlib.error as e:
            # Nothing of this chunk: its checksum is missing.
            if _ends_in_zeros(file, data):
                return
            raise RecordingError(f"broken near byte {at}: {e}") from e
        if found:
            yield found
        rest = member.unused_data if member.eof else member.unconsumed_tail
        at += len(data) - len(rest)
        data = rest or (b"" if member.unconsumed_tail else file.read(_CHUNK))


def _ends_in_zeros(file: BinaryIO, data: bytes) -> bool:
    """Whether the rest of the file was allocated but never written, because of a power failure."""
    if data[-64:].strip(b"\0"):
        return False
    while chunk := file.read(_CHUNK):
        if chunk.strip(b"\0"):
            return False
    return True


class OpenedRecording(NamedTuple):
    path: str
    header: Header
    #: The lines, including the header.
    lines: Iterator[bytes]


def rotated(path: str) -> list[tuple[int, str]]:
    """(number, path) of the older files, the oldest first."""
    here = Path(path)
    found = []
    for other in here.parent.glob(f"{_literally(here.name)}.*"):
        number = other.name.removeprefix(f"{here.name}.")
        if number.isascii() and number.isdecimal():
            found.append((int(number), os.path.join(os.path.dirname(path), other.name)))
    return sorted(found)


def files_of_run(path: str) -> list[str]:
    """The existing files of the newest run, the oldest first.

    Raises RecordingError.
    """
    files, older = [path], rotated(path)
    while older and header_of(files[0]).dump is not None:
        number, name = older.pop()
        files.insert(0, name)
        if older and older[-1][0] != number - 1:
            # The file before it was removed, which leaves a gap.
            break
    return files


def entries_of(files: Sequence[str]) -> Iterator[RecordedInput]:
    """The recorded entries of all files in order; raises RecordingError."""
    for file in files:
        with opened(file) as found:
            next(found.lines)
            yield from read_entries(found.lines, found.header)


def _literally(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def header_of(path: str) -> Header:
    """The header; raises RecordingError with the file name."""
    with opened(path) as found:
        return found.header


@contextmanager
def opened(path: str) -> Iterator[OpenedRecording]:
    """Open a recording; raises RecordingError with the file name, here or while lines are read."""
    try:
        with open(path, "rb") as file:
            lines = lines_of(file)
            first = next(lines, b"")
            if not first:
                raise RecordingError("the file is empty: the recording ended before its first line was written")
            yield OpenedRecording(path, read_header(first), _from(first, lines))
    except OSError as error:
        raise RecordingError(os_error_text("open", path, error)) from error
    except RecordingError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise RecordingError(f"{path}: {error}") from error


def _from(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def file_at(path: str, when: float | None) -> str:
    """The file that covers this moment; None: the newest. Raises RecordingError if it is before all of them."""
    if when is None:
        return path
    began = None
    for candidate in (path, *(older for _, older in reversed(rotated(path)))):
        began = header_of(candidate).now
        if began <= when:
            return candidate
    raise RecordingError(f"{path}: the recording begins at {moment_text(began or 0.0)}, after {moment_text(when)}")


def is_continued(path: str, file: str) -> bool:
    """Whether the next file continues this one. Raises RecordingError."""
    files = [*(older for _, older in rotated(path)), path]
    following = files[files.index(file) + 1 :]
    return bool(following) and header_of(following[0]).dump is not None


def moment_text(when: float) -> str:
    """Seconds since the epoch as readable text, in UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{when:g}"
