"""Persistent connections to one server for short requests.

A request takes the most recently used connection, so that surplus ones become idle and are closed. If all are busy, new
ones are opened, at most `MAX_DIALS` at a time; a waiting request takes whichever is free first, a new connection or a
released one. So a burst of short requests needs few TLS handshakes, and no connection is opened without a waiter.

Connections belong to the SSL context that they were opened with. When certificates change there is a new context, and
connections of the old one get no more requests.

Timeouts use the event loop's clock and one timer for all connections, as nearly none of them ever expires.

Upstream: net/http of Go (Transport), with the settings of staging/src/k8s.io/client-go/transport/cache.go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from stowplan.net.client.endpoint.tls import TlsSettings
from stowplan.net.client.http import failures
from stowplan.net.client.http.dialing import Address, dial
from stowplan.net.client.http.http1 import AnswerReader, ConnectionLost, NotHttp
from stowplan.net.client.http.responses import Answer

if TYPE_CHECKING:
    import ssl

    from yarl import URL

    from stowplan.net.client.http.transport import Limits

# One connection to a server, with at most one request in flight.
#
# It is only reused after a complete and unambiguous response. After anything else (a timeout, garbage, a cancelled
# request) it is aborted. A graceful TLS shutdown would wait for the other side, for longer than we may run.


class HttpConnection(asyncio.Protocol):
    def __init__(self, pool: ConnectionPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        #: By the event loop's clock, while no request is in progress.
        self.idle_until = 0.0
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        #: Both are set while a request is in progress.
        self._reader: AnswerReader | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._heard = 0.0
        self._answer_due = 0.0

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, *, answer_due: float, to_head: bool) -> Answer:
        """Send a request and return its response; raises NotAnswered."""
        assert self._transport is not None, "a connection is used when it has been made"
        assert self._answered is None, "a connection takes one request at a time"
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self._answered = answered
        self._reader = AnswerReader(to_head=to_head)
        self._heard = self._loop.time()
        self._answer_due = answer_due
        self._transport.write(request)
        try:
            return await answered
        finally:
            if self._answered is answered:
                # Cancelled: the response may still arrive, and must not be taken for another one's.
                self._answered = self._reader = None
                self.abort()

    def check(self, now: float, silence: float) -> float | None:
        """Abort a request that has timed out; return when it will if it has not, None if there is none."""
        if self._answered is None:
            return None
        if now >= self._answer_due:
            self.give_up(failures.INCOMPLETE)
            return None
        if now >= self._heard + silence:
            self.give_up(failures.SILENT)
            return None
        return min(self._answer_due, self._heard + silence)

    def give_up(self, why: str, *, lasting: bool = False) -> None:
        """Close the connection, and fail the request in progress."""
        answered, self._answered, self._reader = self._answered, None, None
        self.abort()
        if answered is not None and not answered.done():
            answered.set_exception(failures.broken(why, lasting=lasting))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- callbacks of the event loop -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pool.made(self)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            # An unsolicited response.
            self.abort()
            return
        self._heard = self._loop.time()
        try:
            answer = reader.feed(data)
        except NotHttp as error:
            self.give_up(failures.not_http(str(error)))
            return
        if answer is not None:
            self._complete(answer, keep=reader.keep)

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)
        self._pool.lost(self)

    def _ended(self, error: Exception | None) -> None:
        reader = self._reader
        if reader is None:
            return
        if error is not None:
            self.give_up(failures.os_error_message(error))
            return
        try:
            self._complete(reader.end(), keep=False)
        except NotHttp as wrong:
            self.give_up(failures.not_http(str(wrong)))
        except ConnectionLost:
            self.give_up(failures.CUT_OFF if reader.begun else failures.NO_ANSWER)

    def _complete(self, answer: Answer, *, keep: bool) -> None:
        answered, self._answered, self._reader = self._answered, None, None
        # A server that responds before it has read the whole request may have stopped reading.
        if keep and self._transport is not None and not self._transport.get_write_buffer_size():
            self._pool.free(self)
        else:
            self.abort()
        if answered is not None and not answered.done():
            answered.set_result(answer)


#: Concurrent handshakes, which cost the server far more than requests do.
MAX_DIALS = 8
#: Seconds until an idle connection is closed.
KEPT_IDLE = 90.0

#: Seconds to wait, on closing, until the event loop has released the connections.
LETTING_GO = 0.5

_CLOSED = "this client has been closed"


def _closed() -> failures.NotAnswered:
    return failures.NotAnswered(failures.Failure(_CLOSED, sent=False, lasting=True))


def _nothing() -> None:
    pass


class ConnectionPool:
    """Must be created within a running event loop, and closed. Later requests raise RuntimeError."""

    def __init__(self, server: URL, *, tls: TlsSettings | None, limits: Limits, socket_path: str = "") -> None:
        self._address = Address.of(server, tls, socket_path=socket_path)
        self._tls = tls
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._context: ssl.SSLContext | None = None
        #: All open connections.
        self._all: set[HttpConnection] = set()
        #: The most recently used one is last.
        self._idle: list[HttpConnection] = []
        #: Requests that wait for a connection, in order.
        self._waiting: deque[asyncio.Future[HttpConnection]] = deque()
        self._dials: set[asyncio.Task[HttpConnection]] = set()
        self._timer: asyncio.TimerHandle | None = None
        #: When the timer fires.
        self._next_check = 0.0
        #: Set when the pool is closed; done when no connection is left.
        self._closing: asyncio.Future[None] | None = None

    async def exchange(
        self, request: bytes, *, to_head: bool = False, before_sending: Callable[[], None] = _nothing
    ) -> Answer:
        """Send a request on a free or new connection; raises NotAnswered.

        `before_sending` is called just before sending, after any wait for a connection; an exception from it prevents
        the request from being sent.
        """
        if self._closing is not None:
            raise RuntimeError(f"{_CLOSED}, it sends no more requests")
        now = self._loop.time()
        answer_due = now + self._limits.total
        self._follow_certificates()
        connection = self._take_idle()
        while connection is None or not connection.usable:
            connection = await self._wait()
            now = self._loop.time()
        try:
            before_sending()
        except BaseException:
            self.free(connection)
            raise
        self._check_at(min(answer_due, now + self._limits.silence))
        return await connection.exchange(request, answer_due=answer_due, to_head=to_head)

    async def close(self) -> None:
        """Close everything at once, including requests in progress."""
        if self._closing is None:
            self._closing = self._loop.create_future()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials:
            task.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        while self._refuse(_closed()):
            pass
        for connection in tuple(self._all):
            connection.give_up(_CLOSED, lasting=True)
        if self._all:
            # uvloop does not always report the end of an aborted connection, for unknown reasons. The future is polled,
            # never awaited: a timeout would cancel it for later callers.
            await asyncio.wait((self._closing,), timeout=LETTING_GO)
        # Connections that were being opened are closed in the next iteration of the event loop.
        await asyncio.sleep(0)

    # -- callbacks of connections --------------------------------------------------------------------------------------

    def made(self, connection: HttpConnection) -> None:
        self._all.add(connection)

    def free(self, connection: HttpConnection) -> None:
        """Pass a connection to the next waiter, or keep it."""
        if self._closing is not None or connection.context is not self._context or not connection.usable:
            connection.abort()
            return
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(connection)
            return
        connection.idle_until = self._loop.time() + KEPT_IDLE
        self._idle.append(connection)
        self._check_at(connection.idle_until)

    def lost(self, connection: HttpConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._closing is not None and not self._all and not self._closing.done():
            self._closing.set_result(None)

    # -- getting a connection ------------------------------------------------------------------------------------------

    def _follow_certificates(self) -> None:
        if self._tls is None:
            return
        context = self._tls.context()
        if context is not self._context:
            # Busy connections follow when they are released.
            self._context = context
            while self._idle:
                self._idle.pop().abort()

    def _take_idle(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _wait(self) -> HttpConnection:
        if self._closing is not None:
            raise _closed()
        waiter: asyncio.Future[HttpConnection] = self._loop.create_future()
        self._waiting.append(waiter)
        self._dial_for_waiting()
        try:
            async with asyncio.timeout(self._limits.connect):
                return await waiter
        except BaseException as error:
            self._give_back(waiter)
            if isinstance(error, TimeoutError):
                raise failures.NotAnswered(failures.not_connected(error)) from None
            raise

    def _give_back(self, waiter: asyncio.Future[HttpConnection]) -> None:
        """Cancel a wait, even if it was fulfilled at the same moment."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        elif not waiter.cancelled() and waiter.exception() is None:
            self.free(waiter.result())

    def _next_waiter(self) -> asyncio.Future[HttpConnection] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _refuse(self, error: BaseException) -> bool:
        """Fail the longest waiter with the reason why there is no connection."""
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_exception(error)
        return waiter is not None

    def _dial_for_waiting(self) -> None:
        while self._closing is None and len(self._dials) < min(len(self._waiting), MAX_DIALS):
            task = self._loop.create_task(self._dial(self._context))
            self._dials.add(task)
            task.add_done_callback(self._dialled)

    async def _dial(self, context: ssl.SSLContext | None) -> HttpConnection:
        connection = HttpConnection(self, context)
        try:
            async with asyncio.timeout(self._limits.connect):
                await dial(self._address, connection, context)
        except BaseException:
            connection.abort()
            raise
        return connection

    def _dialled(self, task: asyncio.Task[HttpConnection]) -> None:
        self._dials.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.free(task.result())
        elif isinstance(error, OSError | UnicodeError):
            self._refuse(failures.NotAnswered(failures.not_connected(error)))
        else:
            self._refuse(error)
        self._dial_for_waiting()

    # -- timeouts ------------------------------------------------------------------------------------------------------

    def _check_at(self, due: float) -> None:
        if self._timer is not None:
            if self._next_check <= due:
                return
            self._timer.cancel()
        self._next_check = due
        self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        """Fail what has timed out, and schedule the next check."""
        self._timer = None
        now = self._loop.time()
        for connection in tuple(self._idle):
            if now >= connection.idle_until:
                self._idle.remove(connection)
                connection.abort()
        dues = [connection.idle_until for connection in self._idle]
        for connection in tuple(self._all):
            due = connection.check(now, self._limits.silence)
            if due is not None:
                dues.append(due)
        if dues:
            self._check_at(min(dues))
