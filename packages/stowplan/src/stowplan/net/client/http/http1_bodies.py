"""HTTP/1.1 response bodies: by length, chunked, or until the connection closes.

Each kind takes arbitrary pieces. Inconsistent framing is `NotHttp`: a guessed end would let one response run into the
next.

Specified by RFC 9112, sections 6 and 7.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Protocol

from stowplan.kube.api.field_errors import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Maximum bytes of a response's head, and of its trailers.
LONGEST_HEAD = 1 << 16
#: Characters of the input that messages show.
QUOTED = 40

_LONGEST_CHUNK_LINE = 1 << 12
_GZIP = 16 + zlib.MAX_WBITS
_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")


class NotHttp(Exception):
    """The input is not a valid HTTP/1.1 response."""


class Body(Protocol):
    def feed(self, data: bytes) -> bytes | None:
        """Process data; return what follows the body's end, or None before the end."""

    def content(self) -> bytes: ...


class Content:
    """The collected body."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)


class Gzipped(Content):
    """Decompressed incrementally, so that not all work is left to the end."""

    def __init__(self) -> None:
        super().__init__()
        self._unpacker = zlib.decompressobj(_GZIP)
        self._begun = False

    def add(self, piece: bytes) -> None:
        self._begun = self._begun or bool(piece)
        try:
            super().add(self._unpacker.decompress(piece))
        except zlib.error as error:
            raise NotHttp(f"its body is not gzip: {error}") from None

    def whole(self) -> bytes:
        if self._begun and (not self._unpacker.eof or self._unpacker.unused_data):
            raise NotHttp("its body is not one whole gzip file")
        return super().whole()


def content_of(headers: Mapping[str, str]) -> Content:
    encoding = headers.get("content-encoding", "").lower()
    if encoding in ("", "identity"):
        return Content()
    if encoding in ("gzip", "x-gzip"):
        return Gzipped()
    raise NotHttp(f"its Content-Encoding is {go_quote(encoding[:QUOTED])}, which was not requested")


class ContentLengthBody:
    """A body with a Content-Length."""

    __slots__ = ("_content", "_left")

    def __init__(self, length: int, content: Content) -> None:
        self._left = length
        self._content = content

    def feed(self, data: bytes) -> bytes | None:
        left = self._left
        if len(data) > left:
            self._content.add(data[:left])
            self._left = 0
            return data[left:]
        self._content.add(data)
        self._left = left - len(data)
        return None if self._left else b""

    def content(self) -> bytes:
        return self._content.whole()


class CloseDelimitedBody:
    """A body that ends with the connection."""

    __slots__ = ("_content",)

    def __init__(self, content: Content) -> None:
        self._content = content

    def feed(self, data: bytes) -> None:
        self._content.add(data)

    def content(self) -> bytes:
        return self._content.whole()


class ChunkedBody:
    """A body in chunks, each after a line that says how long it is; one of no length ends it, trailers follow."""

    def __init__(self, content: Content) -> None:
        self._content = content
        #: Remaining bytes of the current chunk.
        self._left = 0
        #: Whether the line end after a chunk's data is expected.
        self._after_data = False
        #: Whether the last chunk has ended, and the bytes of trailers since.
        self._in_trailers = False
        self._trailers = 0
        #: The start of an incomplete line.
        self._held = b""

    def feed(self, data: bytes) -> bytes | None:
        data = self._held + data if self._held else data
        at, length = 0, len(data)
        while True:
            if self._left:
                piece = data[at : at + self._left]
                self._content.add(piece)
                at += len(piece)
                self._left -= len(piece)
                self._after_data = not self._left
            if at == length:
                self._held = b""
                return None
            end = data.find(b"\r\n", at)
            if end < 0:
                self._held = self._unended(data[at:])
                return None
            line, at = data[at:end], end + 2
            if self._ends_with(line):
                return data[at:]

    def content(self) -> bytes:
        return self._content.whole()

    def _unended(self, line: bytes) -> bytes:
        if len(line) > _LONGEST_CHUNK_LINE:
            raise NotHttp(f"a line between chunks is longer than {_LONGEST_CHUNK_LINE} bytes")
        if self._after_data and line != b"\r":
            raise NotHttp("a chunk is longer than announced")
        return line

    def _ends_with(self, line: bytes) -> bool:
        """Process a line between chunks; return whether it is the body's last."""
        if self._after_data:
            if line:
                raise NotHttp("a chunk is longer than announced")
            self._after_data = False
        elif self._in_trailers:
            self._trailers += len(line)
            if self._trailers > LONGEST_HEAD:
                raise NotHttp(f"its trailers are longer than {LONGEST_HEAD} bytes")
            return not line
        else:
            size = _CHUNK_LINE.fullmatch(line)
            if size is None:
                raise NotHttp(f"a chunk's length is {go_quote(line[:QUOTED].decode('latin-1'))}")
            self._left = int(size[1], 16)
            self._in_trailers = not self._left
        return False
