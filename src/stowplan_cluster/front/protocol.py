"""Connections of the front: limit their number, and report protocol errors as Status objects.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go (panic recovery).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web

from stowplan.api.api_errors import BadRequest, InternalError
from stowplan.serving.requests.messages import ALWAYS
from stowplan.serving.requests.protocol import HttpConnection, HttpServer, Sleep
from stowplan_cluster.front.responses import status_body

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from aiohttp.web_protocol import RequestHandler
    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

__all__ = ("FrontConnection", "FrontServer", "Sleep")

FrontConnection = HttpConnection

log = logging.getLogger(__name__)


class FrontServer(HttpServer):
    def __init__(
        self,
        handler: Callable[[BaseRequest], Awaitable[StreamResponse]],
        *,
        sleep: Sleep,
        write_timeout: float,
        max_connections: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(handler, refuse=_refuse, sleep=sleep, write_timeout=write_timeout, **kwargs)
        self._most = max_connections

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        if len(self.connections) >= self._most:
            self._make_room(transport)
        super().connection_made(handler, transport)

    def _make_room(self, new: asyncio.Transport) -> None:
        """Close the oldest connection that waits for its client, or else the new one. Watches are never closed."""
        crowd = [one for one in self.connections if one.transport is not None and not one.transport.is_closing()]
        if len(crowd) < self._most:
            # The rest are already closing.
            return
        idle = (one for one in crowd if isinstance(one, HttpConnection) and one.awaits_client)
        closed = next((one.transport for one in idle if one.transport is not None), new)
        log.info("too many connections: one was closed")
        closed.abort()


def _refuse(status: int, message: str) -> web.Response:
    error: BadRequest | InternalError
    if status < 500:
        error = BadRequest(f"malformed HTTP request: {message}", code=status)
    else:
        error = InternalError("Internal error occurred: the server's log says which")
    headers = {**ALWAYS, "Content-Type": "application/json"}
    return web.Response(status=status, body=status_body(error.status), headers=headers)
