"""Proxy a running scheduler's page to a local browser.

A browser cannot use a scheduler's secure port: it has neither the kubeconfig's credentials nor a reason to trust the
certificate. So the page's requests are forwarded to the scheduler with those credentials only; the browser's own
headers are dropped. Only a scheduler's routes are forwarded, and only read requests; the page's files are served
locally.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from stowplan.api.api_errors import MethodNotAllowed, ServiceUnavailable
from stowplan.api.port import Unreachable
from stowplan.client.http.answers import Subject
from stowplan.client.http.transport import Request as Question
from stowplan.page.assets import asset_pages
from stowplan.page.feed import BEAT_INTERVAL
from stowplan.page.site import PREFIX
from stowplan.serving.requests.messages import JSON, NO_SNIFF, Response, Stream
from stowplan.sources.running_scheduler import transport_to

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from stowplan.client.http.transport import Transport
    from stowplan.serving.requests.messages import Answer, Page, Request
    from stowplan.sources.running_scheduler import SchedulerEndpoint

_ROUTES = ("source", "configuration", "pending", "decisions", "explain/", "stories/", "nodes/", "podgroups/")
_EVENTS = "text/event-stream"
#: Seconds without a heartbeat after which a stream is considered dead.
_SILENCE = 3 * BEAT_INTERVAL


class ForwardedPage:
    """The pages of one scheduler."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._ended = asyncio.Event()

    def pages(self) -> dict[str, Page]:
        routes: dict[str, Page] = {f"{PREFIX}{route}": self._ask for route in _ROUTES}
        return {**asset_pages(PREFIX), **routes, f"{PREFIX}plan": self._follow}

    def close(self) -> None:
        """Close all streams."""
        self._ended.set()

    async def _ask(self, request: Request) -> Answer:
        if request.method != "GET":
            raise MethodNotAllowed(f"{request.path} can be read only")
        question = _question(request)
        try:
            answer = await self._transport.send(question)
        except Unreachable as error:
            raise ServiceUnavailable(str(error)) from error
        if not answer.ok:
            raise self._transport.error_of(answer, question.subject)
        return Response(answer.body, content_type=JSON, headers=NO_SNIFF)

    async def _follow(self, request: Request) -> Answer:
        chunks = self._transport.chunks(_question(request, _EVENTS), silence=_SILENCE)
        try:
            # A refusal must be known before the response starts.
            first = await anext(chunks)
        except Unreachable as error:
            raise ServiceUnavailable(str(error)) from error
        return Stream(self._pieces(first, chunks), _EVENTS, headers=NO_SNIFF)

    async def _pieces(self, first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Until the scheduler or this command ends it."""
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            async with aclosing(chunks):
                yield first
                while not ended.done():
                    following = asyncio.ensure_future(anext(chunks, b""))
                    await asyncio.wait((following, ended), return_when=asyncio.FIRST_COMPLETED)
                    if not following.done():
                        following.cancel()
                        await asyncio.gather(following, return_exceptions=True)
                        return
                    piece = following.result()
                    if not piece:
                        return
                    yield piece
        except Unreachable:
            # The page reconnects, and gets the reason then.
            return
        finally:
            ended.cancel()


def _question(request: Request, answers: str = "application/json") -> Question:
    query = {name: values[0] for name, values in request.query.items()}
    return Question(method="GET", path=request.path, subject=Subject("GET"), query=query, answers=answers)


@asynccontextmanager
async def forwarded_page(endpoint: SchedulerEndpoint) -> AsyncIterator[ForwardedPage]:
    """Raises InputError for an invalid address or credentials."""
    transport = await transport_to(endpoint, purpose="ui")
    passed = ForwardedPage(transport)
    try:
        yield passed
    finally:
        passed.close()
        await transport.close()
