"""aiohttp's server protocol with our limits.

A request that is no HTTP, or whose head is too long, never reaches a handler; aiohttp would log a traceback. Here
`refuse` says what the client gets, and the log has one line at most. An exception out of our own handler is a
bug: it is logged with its traceback and answered with 500.

Nor does aiohttp mind a client that does not read what it asked for, one that takes its time to ask, or one whose
body stops making sense half-way: all would keep their connection. Here the first is cut off once the connection's
buffer has been full for too long, whatever was being sent; the second after a time; the third learns that its body
is malformed. And heads of requests that are each short enough can together be more than there is memory for, without
anybody having said who they are: of those who sent more than a little, the one that sends more is cut off then.

Upstream: net/http (ReadHeaderTimeout, MaxHeaderBytes); staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

Sleep = Callable[[float], Awaitable[Any]]

log = logging.getLogger(__name__)

_TOO_LARGE = 431
#: Bytes of heads that every connection may send.
_LITTLE = 16 * 1024


class Timer:
    """Does something later, unless it is stopped."""

    __slots__ = ("_sleep", "_task")

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return self._task is not None

    def start(self, seconds: float, action: Callable[[], None]) -> None:
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._wait(seconds, action))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _wait(self, seconds: float, action: Callable[[], None]) -> None:
        await self._sleep(seconds)
        self._task = None
        action()


class HttpServer(web.Server):
    """aiohttp's low-level server with our connections."""

    def __init__(
        self,
        handler: Callable[[BaseRequest], Awaitable[StreamResponse]],
        *,
        refuse: Callable[[int, str], web.Response],
        sleep: Sleep,
        write_timeout: float,
        head_timeout: float | None = None,
        max_head_bytes: int | None = None,
        max_heads_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        """`refuse` answers with a status where the handler cannot: for what is no HTTP, and for its own failures."""
        super().__init__(self._handle, **kwargs)
        self._handler = handler
        self.refuse = refuse
        self.sleep = sleep
        self.write_timeout = write_timeout
        self.head_timeout = head_timeout
        self.max_head_bytes = max_head_bytes
        self.max_heads_bytes = max_heads_bytes
        #: Of all connections: bytes of heads that came and are not answered.
        self.heads_bytes = 0

    def __call__(self) -> HttpConnection:
        return HttpConnection(self, loop=asyncio.get_running_loop(), **self._kwargs)

    async def _handle(self, request: BaseRequest) -> StreamResponse:
        try:
            return await self._handler(request)
        finally:
            connection = request.protocol
            assert isinstance(connection, HttpConnection)
            connection.answered()


class HttpConnection(RequestHandler):
    __slots__ = (
        "_body",
        "_head_bytes",
        "_head_timer",
        "_held",
        "_patience",
        "_server",
        "_since_head",
        "cut_off",
        "is_let_in",
    )

    def __init__(self, server: HttpServer, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._server = server
        #: Runs while the client has more to read than is kept for it.
        self._patience = Timer(server.sleep)
        #: Runs while the head of a request is awaited.
        self._head_timer = Timer(server.sleep)
        self._head_bytes = 0
        #: Its share of the server's `heads_bytes`.
        self._held = 0
        #: Bytes that came since the last head was complete, its end included.
        self._since_head = 0
        #: Of the request that came last.
        self._body = EMPTY_PAYLOAD
        #: Whether the client left an answer unread for too long.
        self.cut_off = False
        #: Whether it is known who sent the request that is under way, and that they may send it.
        self.is_let_in = False

    @property
    def busy(self) -> bool:
        """Whether a request has come that is not answered yet."""
        if self._messages or self._request_count == 0:
            return bool(self._messages)
        return self._waiter is None or self._waiter.done()

    @property
    def awaits_client(self) -> bool:
        """Whether nothing happens until the client sends or reads something."""
        return not self.busy or not self._body.is_eof() or self._patience.runs

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._patience.stop()
        self._head_timer.stop()
        self._hold(-self._held)
        super().connection_lost(exc)

    # The client does not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience.start(self._server.write_timeout, self._lose_patience)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._patience.stop()

    def _lose_patience(self) -> None:
        self.cut_off = True
        if self.transport is not None:
            self.transport.abort()

    # The client does not ask, or not to the end

    def _await_head(self) -> None:
        if self._server.head_timeout is not None:
            self._head_timer.start(self._server.head_timeout, self.force_close)

    def data_received(self, data: bytes) -> None:
        heads = self._request_count
        super().data_received(data)
        self._since_head = len(data) + (self._since_head if self._request_count == heads else 0)
        if self._messages:
            last, self._body = self._messages[-1]
            if isinstance(last, _ErrInfo):
                self._break_off_bodies()
        if self.busy or not self._body.is_eof():
            self._head_timer.stop()
            self._head_bytes = 0
        elif data:
            self._head_grows(len(data))
        if self._body.is_eof():
            self._hold(len(data))

    def _head_grows(self, size: int) -> None:
        limit = self._server.max_head_bytes
        self._head_bytes += size
        if limit is not None and self._head_bytes > limit:
            self._refuse_head()
        elif not self._head_timer.runs:
            self._await_head()

    def _refuse_head(self) -> None:
        """As aiohttp does it for what it finds itself."""
        error = _ErrInfo(status=_TOO_LARGE, exc=LineTooLong(b"", self._head_bytes), message="the head is too large")
        self._messages.append((error, EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._head_timer.stop()

    # All clients together ask for too much

    def _hold(self, size: int) -> None:
        server = self._server
        self._held += size
        server.heads_bytes += size
        limit = server.max_heads_bytes
        if limit is not None and server.heads_bytes > limit and self._held > _LITTLE and self.transport is not None:
            log.debug("too much is asked at once: a connection was cut off that had sent %d bytes", self._held)
            self.transport.abort()

    def answered(self) -> None:
        """What was held of requests is free again, but for the beginning of the next one."""
        if not self._messages:
            self._hold(min(self._since_head - self._held, 0))

    def ended_by_client(self) -> bool:
        """Whether something is still to be answered to a client that sends no more."""
        self._break_off_bodies()
        if not self.busy:
            return False
        self.close()
        return True

    def _break_off_bodies(self) -> None:
        """No more of them will come."""
        bodies = [body for _, body in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            if not body.is_eof():
                body.set_exception(RequestPayloadError("malformed"))
                # For those who only wait for the end before they close.
                body.feed_eof()

    # Nobody can answer

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
        if isinstance(exc, LineTooLong) and self._server.max_head_bytes is not None:
            status = _TOO_LARGE
        if status < 500:
            log.debug("refused a malformed request from %s: %s", request.remote, type(exc).__name__)
        else:
            log.error("a request failed: %s", request, exc_info=exc)
        if request.writer.output_size > 0:
            # Part of an answer is out: nothing can be added that would be understood.
            raise ConnectionResetError("the answer was broken off")
        response = self._server.refuse(status, _first_line(message))
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        log.error(*args, **kwargs)


def _first_line(message: str | None) -> str:
    """What the parser said, without the bytes it shows below."""
    return (message or "").strip().partition("\n")[0].rstrip(":")[:200]
