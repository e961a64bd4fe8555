"""HTTP/1.1 without I/O: serialize requests, parse responses incrementally.

Only what a client of one server needs: no pipelining, no upgrades, one response per reader. The end of a response must
never be guessed, as the next one begins there. Anything that leaves it open is `NotHttp`: two lengths, a length along
with chunks, a line that ends in LF alone, or a chunk that is longer than announced.

Specified by RFC 9112, sections 3 to 7. Upstream has net/http of Go.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlencode

from stowplan.kube.api.field_errors import go_quote
from stowplan.net.client.http.responses import Answer

if TYPE_CHECKING:
    from multidict import MultiMapping
    from yarl import URL

# HTTP/1.1 response bodies: by length, chunked, or until the connection closes.
#
# Each kind takes arbitrary pieces. Inconsistent framing is `NotHttp`: a guessed end would let one response run into
# the next.
#
# Specified by RFC 9112, sections 6 and 7.

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


_VERSION = b"HTTP/1."

_STATUS_LINE = re.compile(r"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: .*)?")
_LINE_END = re.compile(r"[\r\n\0]")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
#: All bytes except control characters: what a line may contain.
_TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))


class ConnectionLost(Exception):
    """The connection ended before the response was complete."""


# --- requests


class RequestWriter:
    """Serializes requests to one server; their common lines are prepared once."""

    def __init__(self, server: URL, fields: Mapping[str, str]) -> None:
        self._base = server.raw_path.rstrip("/")
        self._fields = _lines([("Host", server.host_port_subcomponent or ""), *fields.items()])
        self._credentials: MultiMapping[str] | None = None
        self._shared = self._fields

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        credentials: MultiMapping[str],
        body: bytes | None,
        content_type: str,
    ) -> bytes:
        """The whole request. `path` must be quoted."""
        if credentials is not self._credentials:
            self._shared = self._fields + _lines(credentials.items())
            self._credentials = credentials
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        start = f"{method} {self._base}{target} HTTP/1.1\r\n{self._shared}"
        if body is None:
            return f"{start}\r\n".encode()
        return f"{start}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _lines(fields: Iterable[tuple[str, str]]) -> str:
    lines = [f"{name}: {value}" for name, value in fields]
    for line in lines:
        if _LINE_END.search(line):
            # Without the value, which may be secret.
            raise ValueError(f"header {line.partition(':')[0]!r}: there is a line end in it")
    return "".join(f"{line}\r\n" for line in lines)


# --- responses


class AnswerReader:
    """Assembles one response from arbitrary pieces. Single use."""

    __slots__ = ("_body", "_code", "_head", "_headers", "_to_head", "keep")

    def __init__(self, *, to_head: bool = False) -> None:
        #: Whether the request was HEAD, whose response has the headers of a body but no body.
        self._to_head = to_head
        self._head = b""
        self._code = 0
        self._headers: dict[str, str] = {}
        self._body: Body | None = None
        #: Whether the connection can be reused after the response.
        self.keep = False

    @property
    def begun(self) -> bool:
        return bool(self._head) or self._code != 0

    def feed(self, data: bytes) -> Answer | None:
        """The response once it is complete; raises NotHttp."""
        body = self._body
        if body is None:
            data = self._head + data if self._head else data
            body, data = self._begin(data)
            if body is None:
                return None
        surplus = body.feed(data)
        if surplus is None:
            return None
        # Surplus data cannot be distinguished from the next response.
        self.keep = self.keep and not surplus
        return Answer(self._code, self._headers, body.content())

    def end(self) -> Answer:
        """The response, if the end of the connection completes it; raises ConnectionLost otherwise."""
        if not isinstance(self._body, CloseDelimitedBody):
            raise ConnectionLost
        return Answer(self._code, self._headers, self._body.content())

    def _begin(self, data: bytes) -> tuple[Body | None, bytes]:
        """Parse the head, after any 1xx responses; return its body parser, and the rest of the data."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0 or end > LONGEST_HEAD:
                self._head = _beginning(data)
                return None, b""
            version = self._read_head(data[:end])
            data = data[end + 4 :]
            if self._code >= 200:
                self._body = self._framed(version)
                return self._body, data
            if self._code == 101:
                raise NotHttp("the server switches protocols unasked")

    def _read_head(self, head: bytes) -> str:
        """Parse status and headers; return the minor version."""
        lines = head.decode("latin-1").split("\r\n")
        if head.translate(None, _TEXT) != b"\r\n" * (len(lines) - 1):
            raise NotHttp("there are control characters in its head")
        status = _STATUS_LINE.fullmatch(lines[0])
        if status is None:
            raise NotHttp(f"its first line is {go_quote(lines[0][:QUOTED])}")
        self._code = int(status[2])
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            name = _field_name(name)
            value = value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self._headers = headers
        return status[1]

    def _framed(self, version: str) -> Body:
        """How the body is delimited, and whether the connection can be reused."""
        headers = self._headers
        options = headers.get("connection", "").lower()
        self.keep = "close" not in options if version != "0" else "keep-alive" in options
        if self._to_head or self._code in (204, 304):
            return ContentLengthBody(0, Content())
        content = content_of(headers)
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                beside = "" if length is None else " beside a Content-Length"
                raise NotHttp(f"its Transfer-Encoding is {go_quote(coding[:QUOTED])}{beside}")
            # HTTP/1.0 has no chunks: an intermediary may have forwarded what it did not understand.
            self.keep = self.keep and version != "0"
            return ChunkedBody(content)
        if length is not None:
            return ContentLengthBody(_length_of(length), content)
        self.keep = False
        return CloseDelimitedBody(content)


def _beginning(data: bytes) -> bytes:
    """The start of a head, if it can still become valid."""
    if data[: len(_VERSION)] != _VERSION[: len(data)]:
        raise NotHttp(f"it begins with {go_quote(data[:QUOTED].decode('latin-1'))}")
    if len(data) > LONGEST_HEAD:
        raise NotHttp(f"its head is longer than {LONGEST_HEAD} bytes")
    if b"\n\n" in data:
        raise NotHttp("its lines do not end in CR LF")
    return data


@lru_cache(maxsize=256)
def _field_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotHttp(f"one of its headers is called {go_quote(name[:QUOTED])}")
    return name.lower()


def _length_of(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise NotHttp(f"its Content-Length is {go_quote(text[:QUOTED])}")
    return int(text)
