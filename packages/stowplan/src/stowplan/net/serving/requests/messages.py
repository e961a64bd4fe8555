"""Request and response types of pages, independent of sockets; and the parts of a request target.

The server reads the whole request, authenticates and authorizes it, and then calls the page; the common headers are
added to the page's response. A page refuses a request by raising an `ApiError`; any other exception becomes a 500 and
is logged.

Upstream: net/http's Handler, behind staging/src/k8s.io/apiserver/pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

from msgspec import field
from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.users import UserInfo
from stowplan.kube.structs import PlainStruct

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

#: Headers of every response.
ALWAYS = {"Cache-Control": "no-cache, private", "Server": "stowplan"}
#: For texts that contain input, so that no browser treats them as a page.
NO_SNIFF = (("X-Content-Type-Options", "nosniff"),)


def _no_headers() -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict())


class Request(PlainStruct, frozen=True):
    method: str
    #: Decoded, without the query, with its leading slash.
    path: str
    user: UserInfo
    query: Mapping[str, list[str]] = field(default_factory=dict)
    #: Without credentials.
    headers: CIMultiDictProxy[str] = field(default_factory=_no_headers)
    body: bytes = b""
    #: The client's address, without the port.
    remote: str = ""

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return self.query.get(name, [default])[0]


class Response(PlainStruct, frozen=True):
    body: bytes
    status: int = 200
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class Stream(PlainStruct, frozen=True):
    """A response of unknown length, sent as fast as the client reads; its page ends it at shutdown."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


Answer = Response | Stream
Page = Callable[[Request], Answer | Awaitable[Answer]]


def text(body: str, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(body.encode(), status=status, headers=headers)


def refusal(message: str, status: int) -> Response:
    """Upstream: net/http's Error, a line of plain text."""
    return text(f"{message}\n", status=status, headers=NO_SNIFF)


Query = dict[str, list[str]]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def bad_escape(raw: str) -> str:
    """The first malformed escape (`%zz`, `%`); "" if there is none."""
    found = _BAD_ESCAPE.search(raw)
    return "" if found is None else raw[found.start() : found.start() + 3]


def parse_query(text: str, *, limit: int, errors: str) -> Query:
    """All values by parameter; ValueError for more than `limit`, UnicodeDecodeError if `errors` is "strict"."""
    query: Query = {}
    for name, value in parse_qsl(text, keep_blank_values=True, errors=errors, max_num_fields=limit):
        query.setdefault(name, []).append(value)
    return query
