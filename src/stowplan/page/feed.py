"""The plan as a stream of server-sent events, one for each viewer.

A viewer's stream waits until there is something to take, and sends a comment now and then, by which both ends see that
the other one is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stowplan.page.broadcast import Broadcast
from stowplan.serving.requests.messages import NO_SNIFF, Stream
from stowplan.timing.times import REAL_TIMES, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from stowplan.page.plan import Plan
    from stowplan.timing.times import Times

EVENTS = "text/event-stream; charset=utf-8"
_BEAT = b": beat\n\n"
#: Seconds between two signs of life.
BEAT_INTERVAL = 15.0


class Feed:
    """Owner of a broadcast and of the streams of its viewers."""

    def __init__(self, plan: Plan, *, times: Times = REAL_TIMES) -> None:
        self._broadcast = Broadcast(plan)
        self._times = times
        #: Set, and replaced by another one, whenever there is news.
        self._news = asyncio.Event()
        self._closed = False

    def publish(self, plan: Plan) -> None:
        self._broadcast.publish(plan)
        self._wake()

    def close(self) -> None:
        """End all streams, and those that are yet to begin."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def stream(self) -> Stream:
        return Stream(self._events(), EVENTS, headers=NO_SNIFF)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        viewer = self._broadcast.viewer()
        try:
            while not self._closed:
                news = self._news
                for frame in viewer.take():
                    yield frame
                try:
                    await within(BEAT_INTERVAL, news.wait(), sleep=self._times.sleep)
                except TimeoutError:
                    yield _BEAT
        finally:
            viewer.leave()
