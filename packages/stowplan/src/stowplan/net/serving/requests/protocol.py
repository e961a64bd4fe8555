"""aiohttp's server protocol with our limits.

For invalid HTTP, or a head that is too long, aiohttp would log a traceback without calling a handler. Here `refuse`
returns the response, and there is at most one log line. An exception of our own handler is a bug: it is logged with its
traceback and becomes a 500.

aiohttp also lets clients keep their connection that do not read the response, send a request slowly, or send a
malformed body. Here the first is disconnected once the connection's buffer has been full for too long; the second after
a timeout; the third is told that its body is malformed. Many heads that are each short enough can together exhaust
memory before any client is authenticated: beyond a limit, a client that has sent more than a little and sends more is
disconnected.

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

from stowplan.kube.api.api_errors import BadRequest, RequestEntityTooLarge
from stowplan.kube.timing.times import within

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

Sleep = Callable[[float], Awaitable[Any]]

log = logging.getLogger(__name__)

_TOO_LARGE = 431
#: Bytes of heads that every connection may send.
_LITTLE = 16 * 1024


class Timer:
    """Runs a callback later, unless it is stopped."""

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
        write_timeout: float = 60,
        head_timeout: float = 32,
        max_head_bytes: int = 1024 * 1024,
        max_heads_bytes: int = 16 * 1024 * 1024,
        **kwargs: Any,
    ) -> None:
        """`refuse` returns the response for a status if the handler cannot: for invalid HTTP, and for its failures."""
        super().__init__(self._handle, **kwargs)
        self._handler = handler
        self.refuse = refuse
        self.sleep = sleep
        self.write_timeout = write_timeout
        self.head_timeout = head_timeout
        self.max_head_bytes = max_head_bytes
        self.max_heads_bytes = max_heads_bytes
        #: Over all connections: bytes of heads that are not answered yet.
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
        "_server",
        "_since_head",
        "_write_timer",
        "cut_off",
        "is_authorized",
    )

    def __init__(self, server: HttpServer, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._server = server
        #: Runs while the client has more to read than fits into its buffer.
        self._write_timer = Timer(server.sleep)
        #: Runs while the head of a request is incomplete.
        self._head_timer = Timer(server.sleep)
        self._head_bytes = 0
        #: Its share of the server's `heads_bytes`.
        self._held = 0
        #: Bytes received since, and including the end of, the last complete head.
        self._since_head = 0
        #: Of the last request.
        self._body = EMPTY_PAYLOAD
        #: Whether the client did not read a response for too long.
        self.cut_off = False
        #: Whether the current request is authenticated and authorized.
        self.is_authorized = False

    @property
    def busy(self) -> bool:
        """Whether there is an unanswered request."""
        if self._messages or self._request_count == 0:
            return bool(self._messages)
        return self._waiter is None or self._waiter.done()

    @property
    def awaits_client(self) -> bool:
        """Whether the next step is the client's."""
        return not self.busy or not self._body.is_eof() or self._write_timer.runs

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._write_timer.stop()
        self._head_timer.stop()
        self._hold(-self._held)
        super().connection_lost(exc)

    # Clients that do not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer.start(self._server.write_timeout, self._on_write_timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_timer.stop()

    def _on_write_timeout(self) -> None:
        self.cut_off = True
        if self.transport is not None:
            self.transport.abort()

    # Clients that do not send a complete request

    def _await_head(self) -> None:
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
        self._head_bytes += size
        if self._head_bytes > self._server.max_head_bytes:
            self._refuse_head()
        elif not self._head_timer.runs:
            self._await_head()

    def _refuse_head(self) -> None:
        """Same as aiohttp's handling of errors that it finds itself."""
        error = _ErrInfo(status=_TOO_LARGE, exc=LineTooLong(b"", self._head_bytes), message="the head is too large")
        self._messages.append((error, EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._head_timer.stop()

    # Too much data from all clients together

    def _hold(self, size: int) -> None:
        server = self._server
        self._held += size
        server.heads_bytes += size
        too_many = server.heads_bytes > server.max_heads_bytes
        if too_many and self._held > _LITTLE and self.transport is not None:
            log.debug("too many pending request headers: closed a connection that had sent %d bytes", self._held)
            self.transport.abort()

    def answered(self) -> None:
        """Release what was held for requests, except for the start of the next one."""
        if not self._messages:
            self._hold(min(self._since_head - self._held, 0))

    def ended_by_client(self) -> bool:
        """Whether there are unanswered requests of a client that has closed its side."""
        self._break_off_bodies()
        if not self.busy:
            return False
        self.close()
        return True

    def _break_off_bodies(self) -> None:
        """End incomplete bodies."""
        bodies = [body for _, body in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            if not body.is_eof():
                body.set_exception(RequestPayloadError("malformed"))
                # For waiters that only wait for the end before they close.
                body.feed_eof()

    # Failures of the handler

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        if isinstance(exc, ConnectionError):
            # The client is gone.
            raise exc
        if isinstance(exc, LineTooLong):
            status = _TOO_LARGE
        if status < 500:
            log.debug("refused a malformed request from %s: %s", request.remote, type(exc).__name__)
        else:
            log.error("a request failed: %s", request, exc_info=exc)
        if request.writer.output_size > 0:
            # The response was partially sent: nothing can be added.
            raise ConnectionResetError("the answer was broken off")
        response = self._server.refuse(status, _first_line(message))
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        log.error(*args, **kwargs)


def _first_line(message: str | None) -> str:
    """The parser's message, without the bytes that it quotes."""
    return (message or "").strip().partition("\n")[0].rstrip(":")[:200]


# Read request bodies with limits on size and time.
#
# Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (limitedReadBody), server/filters/timeout.go.


async def read_body(request: BaseRequest, *, limit: int, seconds: float, sleep: Sleep) -> bytes:
    """The whole body; an ApiError if it is too large or malformed, TimeoutError if it does not arrive in time.

    After an error the connection must not be reused, as it is out of sync.
    """
    content = request.content
    if content.exception() is not None:
        raise _malformed()
    if content.at_eof():
        return b""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if content.is_eof():
        body = content.read_nowait(-1)
        if len(body) > limit:
            raise _too_large(limit)
        return body
    _send_continue(request)
    try:
        return await within(seconds, _read_chunks(request, limit), sleep=sleep)
    except RequestPayloadError:
        raise _malformed() from None


async def _read_chunks(request: BaseRequest, limit: int) -> bytes:
    chunks, size = [], 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _send_continue(request: BaseRequest) -> None:
    """Respond to a client that sent Expect: 100-continue."""
    if request.transport is not None and request.headers.get("Expect", "").lower() == "100-continue":
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _malformed() -> BadRequest:
    return BadRequest("the body of the request is malformed: no valid transfer coding")


def _too_large(limit: int) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: limit is {limit}")
