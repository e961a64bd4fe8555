"""What aiohttp's server leaves to its users, changed: errors below our handler are Status objects.

A request that is no HTTP, or whose head is too long, never reaches a handler; aiohttp would answer
with plain text and log a traceback. Here the client gets a Status and the log one line. An
exception out of our own handler is a bug: it is logged with its traceback and answered with 500.

Nor does aiohttp mind a client that does not read what it asked for, or whose body stops making sense
half-way: both would keep their connection. Here the first is cut off once the connection's buffer has
been full for too long, whatever was being sent; the second learns that its body is malformed.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go (panic recovery).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from stowplan.api.api_errors import BadRequest, InternalError
from stowplan.apiserver.front.responses import ALWAYS, status_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

    Sleep = Callable[[float], Awaitable[Any]]

log = logging.getLogger(__name__)


class FrontServer(web.Server):
    """aiohttp's low-level server with our connections."""

    def __init__(
        self,
        handler: Callable[[BaseRequest], Awaitable[StreamResponse]],
        *,
        sleep: Sleep,
        write_timeout: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(handler, **kwargs)
        self.sleep = sleep
        self.write_timeout = write_timeout

    def __call__(self) -> RequestHandler:
        return FrontConnection(self, loop=asyncio.get_running_loop(), **self._kwargs)


class FrontConnection(RequestHandler):
    __slots__ = ("_front", "_patience", "cut_off")

    def __init__(self, front: FrontServer, **kwargs: Any) -> None:
        super().__init__(front, **kwargs)
        self._front = front
        #: Runs while the client has more to read than is kept for it.
        self._patience: asyncio.Task[None] | None = None
        #: Whether the client left that unread for too long.
        self.cut_off = False

    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience = self._loop.create_task(self._lose_patience())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forgive()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forgive()
        super().connection_lost(exc)

    async def _lose_patience(self) -> None:
        await self._front.sleep(self._front.write_timeout)
        self.cut_off = True
        if self.transport is not None:
            self.transport.abort()

    def _forgive(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._break_off_bodies()

    def _break_off_bodies(self) -> None:
        """No more of them will come: what followed was no HTTP."""
        bodies = [body for _, body in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            if not body.is_eof():
                body.set_exception(RequestPayloadError("malformed"))
                # For those who only wait for the end before they close.
                body.feed_eof()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        if isinstance(exc, ConnectionError):
            # Whoever asked is gone: there is nobody to tell.
            raise exc
        if status < 500:
            log.debug("refused a malformed request from %s: %s", request.remote, type(exc).__name__)
            error: BadRequest | InternalError = BadRequest(f"malformed HTTP request: {_first_line(message)}")
        else:
            log.error("a request failed: %s", request, exc_info=exc)
            error = InternalError("Internal error occurred: the server's log says which")
        if request.writer.output_size > 0:
            # Part of an answer is out: nothing can be added that would be understood.
            raise ConnectionResetError("the answer was broken off")
        headers = {**ALWAYS, "Content-Type": "application/json"}
        response = web.Response(status=status, body=status_body(error.status), headers=headers)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        log.error(*args, **kwargs)


def _first_line(message: str | None) -> str:
    """What the parser said, without the bytes it shows below."""
    return (message or "").strip().partition("\n")[0].rstrip(":")[:200]
