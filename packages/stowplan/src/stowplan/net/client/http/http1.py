"""HTTP/1.1 without I/O: serialize requests, parse responses incrementally.

Only what a client of one server needs: no pipelining, no upgrades, one response per reader. The end of a response must
never be guessed, as the next one begins there. Anything that leaves it open is `NotHttp`: two lengths, a length along
with chunks, a line that ends in LF alone, or a chunk that is longer than announced.

Specified by RFC 9112, sections 3 to 7. Upstream has net/http of Go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from stowplan.kube.api.field_errors import go_quote
from stowplan.net.client.http.http1_bodies import (
    LONGEST_HEAD,
    QUOTED,
    ChunkedBody,
    CloseDelimitedBody,
    Content,
    ContentLengthBody,
    NotHttp,
    content_of,
)
from stowplan.net.client.http.responses import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from multidict import MultiMapping
    from yarl import URL

    from stowplan.net.client.http.http1_bodies import Body

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
