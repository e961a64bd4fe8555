"""One connection to a server, with at most one request in flight.

It is only reused after a complete and unambiguous response. After anything else (a timeout, garbage, a cancelled
request) it is aborted. A graceful TLS shutdown would wait for the other side, for longer than we may run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from stowplan.net.client.http.failures import CUT_OFF, INCOMPLETE, NO_ANSWER, SILENT, broken, not_http, os_error_message
from stowplan.net.client.http.http1 import AnswerReader, ConnectionLost
from stowplan.net.client.http.http1_bodies import NotHttp

if TYPE_CHECKING:
    import ssl

    from stowplan.net.client.http.connection_pool import ConnectionPool
    from stowplan.net.client.http.responses import Answer


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
            self.give_up(INCOMPLETE)
            return None
        if now >= self._heard + silence:
            self.give_up(SILENT)
            return None
        return min(self._answer_due, self._heard + silence)

    def give_up(self, why: str, *, lasting: bool = False) -> None:
        """Close the connection, and fail the request in progress."""
        answered, self._answered, self._reader = self._answered, None, None
        self.abort()
        if answered is not None and not answered.done():
            answered.set_exception(broken(why, lasting=lasting))

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
            self.give_up(not_http(str(error)))
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
            self.give_up(os_error_message(error))
            return
        try:
            self._complete(reader.end(), keep=False)
        except NotHttp as wrong:
            self.give_up(not_http(str(wrong)))
        except ConnectionLost:
            self.give_up(CUT_OFF if reader.begun else NO_ANSWER)

    def _complete(self, answer: Answer, *, keep: bool) -> None:
        answered, self._answered, self._reader = self._answered, None, None
        # A server that responds before it has read the whole request may have stopped reading.
        if keep and self._transport is not None and not self._transport.get_write_buffer_size():
            self._pool.free(self)
        else:
            self.abort()
        if answered is not None and not answered.done():
            answered.set_result(answer)
