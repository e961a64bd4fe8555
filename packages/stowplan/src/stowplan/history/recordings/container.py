"""The file format of recordings: concatenated gzip members, so that a crash loses at most the last.

Each write is a separate member of whole lines, readable without those before it; `zcat` reads the file, too. If a
process was killed, or a disk was full, the file may end anywhere: of an incomplete member the lines that can still be
decompressed count, and the end of the file is the end of the recording. Corruption before the end is an error.

Plain lines, as in recordings of older versions, are also supported.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, BinaryIO

from stowplan.scheduler.engine.input_log.recording import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
