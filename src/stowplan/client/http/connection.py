"""One connection to a server, with at most one request in flight.

It is used again only after a complete answer that leaves no doubt about it. After anything else (a time limit, garbage,
a request that was given up) it is aborted. Closed politely, TLS would wait for the other side to agree, for longer than
we may live.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from stowplan.client.http.failures import CUT_OFF, INCOMPLETE, NO_ANSWER, SILENT, broken, no_http, os_words
from stowplan.client.http.http1 import AnswerReader, CutOff
from stowplan.client.http.http1_bodies import NotHttp

if TYPE_CHECKING:
    import ssl

    from stowplan.client.http.answers import Answer
    from stowplan.client.http.connection_pool import ConnectionPool


class HttpConnection(asyncio.Protocol):
    def __init__(self, pool: ConnectionPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        #: By the event loop's clock, while no request is under way.
        self.idle_until = 0.0
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        #: Both are there while a request is under way.
        self._reader: AnswerReader | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._heard = 0.0
        self._answer_due = 0.0

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, *, answer_due: float, to_head: bool) -> Answer:
        """Send a request and return its answer; raise NotAnswered."""
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
                # Given up: the answer may still come, and must not be taken for another's.
                self._answered = self._reader = None
                self.abort()

    def check(self, now: float, silence: float) -> float | None:
        """End a request whose time is up; return when it will be if it is not yet, None if there is none."""
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
        """End the connection, and the request under way."""
        answered, self._answered, self._reader = self._answered, None, None
        self.abort()
        if answered is not None and not answered.done():
            answered.set_exception(broken(why, lasting=lasting))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- told by the event loop ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pool.made(self)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            # Nobody asked for anything.
            self.abort()
            return
        self._heard = self._loop.time()
        try:
            answer = reader.feed(data)
        except NotHttp as error:
            self.give_up(no_http(str(error)))
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
            self.give_up(os_words(error))
            return
        try:
            self._complete(reader.end(), keep=False)
        except NotHttp as wrong:
            self.give_up(no_http(str(wrong)))
        except CutOff:
            self.give_up(CUT_OFF if reader.begun else NO_ANSWER)

    def _complete(self, answer: Answer, *, keep: bool) -> None:
        answered, self._answered, self._reader = self._answered, None, None
        # A server that answers before it has heard all of the request may not listen any more.
        if keep and self._transport is not None and not self._transport.get_write_buffer_size():
            self._pool.free(self)
        else:
            self.abort()
        if answered is not None and not answered.done():
            answered.set_result(answer)
