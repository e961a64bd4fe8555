"""Requests with aiohttp: streamed responses, and everything through a proxy.

Other requests use `connection_pool`, see `transport`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from stowplan.net.client.connection import Connection
from stowplan.net.client.http.connection_pool import KEPT_IDLE
from stowplan.net.client.http.dialing import probed_socket
from stowplan.net.client.http.failures import FAILURES, NotAnswered, failure_of
from stowplan.net.client.http.responses import Answer

if TYPE_CHECKING:
    from multidict import MultiMapping

    from stowplan.net.client.http.transport import Limits, Request

#: Large enough that a burst of watch events is read in few pieces.
READ_BUFFER = 1 << 18


class AiohttpSession:
    """Must be created within a running event loop, and closed."""

    def __init__(self, connection: Connection, *, fields: Mapping[str, str], limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._session = aiohttp.ClientSession(
            connector=_connector(connection.socket_path),
            headers=fields,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            middlewares=(_without_hidden_repetition,),
        )
        #: Responses that are being read.
        self._open: set[aiohttp.ClientResponse] = set()

    @property
    def closed(self) -> bool:
        return self._session.closed

    async def close(self) -> None:
        for response in self._open:
            # Readers would not be notified: aiohttp forgets them when it closes.
            response.content.set_exception(aiohttp.ClientConnectionError("this client has been closed"))
            _abort(response)
        await self._session.close()

    async def exchange(self, request: Request, credentials: MultiMapping[str]) -> Answer:
        """The complete response; raises NotAnswered."""
        try:
            async with self.opened(request, credentials) as response:
                return await read(response)
        except FAILURES as error:
            raise NotAnswered(failure_of(error)) from error

    @asynccontextmanager
    async def opened(
        self, request: Request, credentials: MultiMapping[str], *, silence: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The start of a response; raises one of FAILURES. With an explicit `silence`, it may last indefinitely."""
        limits = self._limits
        headers = CIMultiDict(credentials, Accept=request.answers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        options: dict[str, Any] = {}
        tls = self._connection.tls
        if tls is not None:
            options = {"ssl": tls.context(), "server_hostname": tls.server_name}
        async with self._session.request(
            request.method,
            URL(self._connection.server + request.path, encoded=True),
            params=request.query or None,
            data=request.body,
            headers=headers,
            proxy=self._connection.proxy_url,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=limits.total if silence is None else None,
                sock_connect=limits.connect,
                sock_read=limits.silence if silence is None else silence,
            ),
            **options,
        ) as response:
            self._open.add(response)
            try:
                yield response
            except BaseException:
                _abort(response)
                raise
            finally:
                self._open.discard(response)


def _connector(socket_path: str) -> aiohttp.BaseConnector:
    # `RateLimitedLanes` bounds the concurrent short requests; watches are added to those.
    if socket_path:
        return aiohttp.UnixConnector(socket_path, limit=0, keepalive_timeout=KEPT_IDLE)
    return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_IDLE, socket_factory=probed_socket)


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort its connection. A graceful TLS shutdown would wait for the other side, for longer than we may run."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


async def read(response: aiohttp.ClientResponse) -> Answer:
    return Answer(response.status, response.headers, await response.read())


async def _without_hidden_repetition(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from retrying PUT and DELETE by itself if a kept connection breaks: the transport decides that."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except aiohttp.ServerDisconnectedError as error:
        raise aiohttp.ClientConnectionError("the server closed the connection without an answer") from error
    except aiohttp.ClientOSError as error:
        raise OSError(*error.args) from error
