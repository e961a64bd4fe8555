"""Proxy a running scheduler's page to a local browser.

A browser cannot use a scheduler's secure port: it has neither the kubeconfig's credentials nor a reason to trust the
certificate. So the page's requests are forwarded to the scheduler with those credentials only; the browser's own
headers are dropped. Only a scheduler's routes are forwarded, and only read requests; the page's files are served
locally.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.running_scheduler import AUTO, SchedulerEndpoint, transport_to
from stowplan.kube.api.api_errors import MethodNotAllowed, ServiceUnavailable
from stowplan.kube.api.port import Unreachable
from stowplan.net.client.http.responses import Subject
from stowplan.net.client.http.transport import Request as Question
from stowplan.net.client.http.transport import Transport
from stowplan.net.serving.requests.messages import JSON, NO_SNIFF, Answer, Page, Request, Response, Stream
from stowplan.ui.assets import asset_pages
from stowplan.ui.event_stream import BEAT_INTERVAL
from stowplan.ui.page_routes import PREFIX

_ROUTES = ("source", "configuration", "pending", "decisions", "explain/", "stories/", "nodes/", "podgroups/")
_EVENTS, _PURPOSE = "text/event-stream", "ui"
#: Seconds without a heartbeat after which a stream is considered dead.
_SILENCE = 3 * BEAT_INTERVAL


class ForwardedPage:
    """The pages of one scheduler. If it was discovered and cannot be reached anymore, the next request looks for its
    successor: a restarted scheduler has another socket.
    """

    def __init__(self, endpoint: SchedulerEndpoint, transport: Transport) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._lost = False
        self._ended = asyncio.Event()

    @property
    def server(self) -> str:
        """The scheduler's address, for people."""
        return self._transport.server

    def pages(self) -> dict[str, Page]:
        routes: dict[str, Page] = {f"{PREFIX}{route}": self._ask for route in _ROUTES}
        return {**asset_pages(PREFIX), **routes, f"{PREFIX}plan": self._follow}

    def close(self) -> None:
        """End all streams."""
        self._ended.set()

    async def disconnect(self) -> None:
        await self._transport.close()

    async def _ask(self, request: Request) -> Answer:
        if request.method != "GET":
            raise MethodNotAllowed(f"{request.path} can be read only")
        question = _question(request)
        async with self._connected() as transport:
            answer = await transport.send(question)
        if not answer.ok:
            raise transport.error_of(answer, question.subject)
        return Response(answer.body, content_type=JSON, headers=NO_SNIFF)

    async def _follow(self, request: Request) -> Answer:
        async with self._connected() as transport:
            chunks = transport.chunks(_question(request, _EVENTS), silence=_SILENCE)
            # A refusal must be known before the response starts.
            first = await anext(chunks)
        return Stream(self._pieces(first, chunks), _EVENTS, headers=NO_SNIFF)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Transport]:
        if self._lost:
            await self._reconnect()
        transport = self._transport
        try:
            yield transport
        except Unreachable as error:
            # Another request may have reconnected meanwhile.
            self._lost = self._lost or (self._endpoint.url == AUTO and transport is self._transport)
            raise ServiceUnavailable(str(error)) from error

    async def _reconnect(self) -> None:
        try:
            found = await transport_to(self._endpoint, purpose=_PURPOSE)
        except InputError as error:
            raise ServiceUnavailable(str(error)) from error
        previous, self._transport, self._lost = self._transport, found, False
        await previous.close()

    async def _pieces(self, first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Until the scheduler or this command ends it."""
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            async with aclosing(chunks):
                yield first
                while not ended.done():
                    piece = await _unless(ended, anext(chunks, b""))
                    if not piece:
                        return
                    yield piece
        except Unreachable:
            # The page reconnects, and gets the reason then.
            return
        finally:
            ended.cancel()


async def _unless(ended: asyncio.Future[Any], awaited: Awaitable[bytes]) -> bytes:
    """Its result; b"" if `ended` comes first. Never leaves it running, even if cancelled because the browser is gone:
    a generator that is waiting cannot be closed.
    """
    running = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else b""
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _question(request: Request, answers: str = "application/json") -> Question:
    query = {name: values[0] for name, values in request.query.items()}
    return Question(method="GET", path=request.path, subject=Subject("GET"), query=query, answers=answers)


@asynccontextmanager
async def forwarded_page(endpoint: SchedulerEndpoint) -> AsyncIterator[ForwardedPage]:
    """Raises InputError for an invalid address or credentials."""
    passed = ForwardedPage(endpoint, await transport_to(endpoint, purpose=_PURPOSE))
    try:
        yield passed
    finally:
        passed.close()
        await passed.disconnect()
