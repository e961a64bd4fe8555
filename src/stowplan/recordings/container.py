"""The file format of recordings: concatenated gzip members, so that a crash loses at most the last.

Each write is a member of its own with whole lines in it, readable without those before it; `zcat` reads the file, too.
Where a process was killed, or a disk was full, the file may end anywhere: within a member the lines that can still be
unpacked count, and the end of the file is the end of the recording. What is broken before the end is an error.

Plain lines, as recordings of older versions have them, are read as well.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, BinaryIO

from stowplan.engine.input_log.recording import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP = 31
#: How a member begins, and no line.
_MAGIC = b"\x1f"
#: A higher level takes twice the time for a tenth of the size.
_LEVEL = 3
_CHUNK = 2**18
#: Bytes of one line: more is no recording, and would not fit into memory.
_LONGEST_LINE = 2**31


def packed(lines: bytes) -> bytes:
    """A member with these lines."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(lines) + packer.flush()


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends, the last one perhaps without; raise RecordingError where the file is broken."""
    first = file.read(_CHUNK)
    # One byte of it may be all that was written.
    chunks = _unpacked(file, first) if first[:1] == _MAGIC else _plain(file, first)
    #: The beginning of a line whose end has not come yet.
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
    #: Where in the file the data begin.
    at = 0
    while data:
        if member.eof:
            if not data.strip(b"\0"):
                # What some file systems leave after a power failure.
                at, data = at + len(data), file.read(_CHUNK)
                continue
            member = zlib.decompressobj(_GZIP)
        try:
            found = member.decompress(data, _CHUNK)
        except zlib.error as e:
            # Nothing of this chunk: its check sum has not come yet.
            if _ends_in_zeros(file, data):
                return
            raise RecordingError(f"broken near byte {at}: {e}") from e
        if found:
            yield found
        rest = member.unused_data if member.eof else member.unconsumed_tail
        at += len(data) - len(rest)
        data = rest or (b"" if member.unconsumed_tail else file.read(_CHUNK))


def _ends_in_zeros(file: BinaryIO, data: bytes) -> bool:
    """Whether nothing was ever written to what follows: the file was made longer, and then the power failed."""
    if data[-64:].strip(b"\0"):
        return False
    while chunk := file.read(_CHUNK):
        if chunk.strip(b"\0"):
            return False
    return True
