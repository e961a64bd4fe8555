"""Plain HTTP for the user of this machine: a port on 127.0.0.1, protected by a token, or a Unix socket.

Any page in the user's browser can send requests to a local port, and an attacker's host name can resolve to 127.0.0.1.
So there are no cookies: data requires the token, which such a page does not know. In addition, requests with a foreign
Host or Origin are rejected. A socket needs no token: browsers cannot reach it, and the kernel keeps other users out.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import Forbidden, Unauthorized
from stowplan.kube.api.users import ANONYMOUS_USER, AUTHENTICATED, UserInfo
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.serving.handler import Handler, refuse
from stowplan.net.serving.requests.messages import Page
from stowplan.net.serving.requests.protocol import HttpServer
from stowplan.net.serving.serving_error import ServingError, reason_of

if TYPE_CHECKING:
    from stowplan.net.serving.user import Headers, Peer

HOST = "127.0.0.1"
#: Large enough for a pasted configuration and manifests.
_MAX_BODY = 16 << 20
_MAX_HEAD = 64 << 10
_TIMEOUT = 30.0
_KEEP_ALIVE = 75.0
#: Seconds for requests in progress at shutdown.
_GRACE = 2.0
_OWNER = UserInfo("stowplan:user", groups=(AUTHENTICATED,))
_CREDENTIALS = ("authorization", "cookie")
_NAMES = (HOST, "localhost", "[::1]")


class LoopbackServer:
    def __init__(
        self,
        pages: Mapping[str, Page],
        *,
        token: str,
        public: Callable[[str], bool] = lambda path: False,
        port: int = 0,
        times: Times = REAL_TIMES,
    ) -> None:
        """`public`: whether a path contains no data, and is open to everybody on this machine."""
        self._http = local_http(pages, TokenAccess(token, public), times=times)
        self._server: asyncio.Server | None = None
        self.port = port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Start serving; raises ServingError."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._http, HOST, self.port, family=socket.AF_INET
            )
        except OSError as error:
            raise ServingError(f"cannot listen on {HOST}:{self.port}: {reason_of(error)}") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._http.pre_shutdown()
            await self._http.shutdown(_GRACE)
            self._server = None


def local_http(pages: Mapping[str, Page], access: TokenAccess | OwnerAccess, *, times: Times) -> HttpServer:
    """The HTTP server of a port or socket for this machine's user."""
    return HttpServer(
        Handler(pages=pages, authenticator=access, authorizer=access, times=times, max_body=_MAX_BODY),
        refuse=refuse,
        sleep=times.sleep,
        write_timeout=_TIMEOUT,
        head_timeout=_TIMEOUT,
        max_head_bytes=_MAX_HEAD,
        handler_cancellation=True,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=_KEEP_ALIVE,
        max_line_size=_MAX_HEAD,
        max_field_size=_MAX_HEAD,
    )


@asynccontextmanager
async def served_on_socket(
    pages: Mapping[str, Page], listening: socket.socket, *, times: Times = REAL_TIMES
) -> AsyncIterator[None]:
    """Serve pages within the context on a Unix socket that only its owner can reach (`client.local_sockets`)."""
    http = local_http(pages, OwnerAccess(), times=times)
    server = await asyncio.get_running_loop().create_unix_server(http, sock=listening)
    try:
        yield
    finally:
        server.close()
        http.pre_shutdown()
        await http.shutdown(_GRACE)


class OwnerAccess:
    """Authenticator and authorizer of a socket that the kernel keeps others from: whoever connects is the owner."""

    async def authenticate(self, headers: Headers, peer: Peer) -> UserInfo:
        return _OWNER

    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        pass

    def without_credentials(self, headers: Headers) -> Headers:
        return _without_credentials(headers)


class TokenAccess:
    """Authenticator and authorizer: the token grants access to everything."""

    def __init__(self, token: str, public: Callable[[str], bool]) -> None:
        self._token = token.encode()
        self._public = public

    async def authenticate(self, headers: Headers, peer: Peer) -> UserInfo:
        _check_origin(headers)
        kind, _, given = headers.get("Authorization", "").partition(" ")
        if not given:
            return ANONYMOUS_USER
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(errors="replace"), self._token):
            raise Unauthorized("this is not the token of this server, which its command prints")
        return _OWNER

    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        if user is not _OWNER and not self._public(path):
            raise Unauthorized("this server requires its token, which its command prints")

    def without_credentials(self, headers: Headers) -> Headers:
        return _without_credentials(headers)


def _without_credentials(headers: Headers) -> Headers:
    kept = headers.copy()
    for name in _CREDENTIALS:
        kept.popall(name, None)
    return type(headers)(kept)


def _check_origin(headers: Headers) -> None:
    host = headers.get("Host", "")
    name, _, port = host.rpartition(":")
    if (name if port.isdecimal() and name else host).lower() not in _NAMES:
        raise Forbidden(f"use the address that the command printed, not {host!r}")
    origin = headers.get("Origin")
    if origin is not None and origin.lower() != f"http://{host}".lower():
        raise Forbidden(f"pages of {origin} may not ask this server")
