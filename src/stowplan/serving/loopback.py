"""A plain HTTP port on 127.0.0.1, protected by a token.

Any page in the user's browser can send requests to a local port, and an attacker's host name can resolve to 127.0.0.1.
So there are no cookies: data requires the token, which such a page does not know. In addition, requests with a foreign
Host or Origin are rejected.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from typing import TYPE_CHECKING

from stowplan.api.api_errors import Forbidden, Unauthorized
from stowplan.api.users import ANONYMOUS_USER, AUTHENTICATED, UserInfo
from stowplan.serving.errors import ServingError, reason_of
from stowplan.serving.handler import Handler, refuse
from stowplan.serving.requests.protocol import HttpServer
from stowplan.timing.times import REAL_TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stowplan.serving.requests.messages import Page
    from stowplan.serving.user import Headers, Peer
    from stowplan.timing.times import Times

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
        access = TokenAccess(token, public)
        handler = Handler(pages=pages, authenticator=access, authorizer=access, times=times, max_body=_MAX_BODY)
        self._http = HttpServer(
            handler,
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
            raise Unauthorized("this is not the token of this server: it is in the address that the command printed")
        return _OWNER

    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        if user is not _OWNER and not self._public(path):
            raise Unauthorized("this server requires its token: it is in the URL that the command printed")

    def without_credentials(self, headers: Headers) -> Headers:
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
