"""The plan as a stream of server-sent events, one for each viewer.

A viewer's stream waits until there is something to take, and sends a comment now and then, by which both ends see that
the other one is there. Snapshots are made in another thread, part by part, one for all who want one of the same
version.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stowplan.page.broadcast import Broadcast
from stowplan.serving.requests.messages import NO_SNIFF, Stream
from stowplan.timing.times import REAL_TIMES, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from stowplan.page.broadcast import Viewer
    from stowplan.page.plan import Plan, PlanChange
    from stowplan.timing.times import Times

EVENTS = "text/event-stream; charset=utf-8"
_BEAT = b": beat\n\n"
#: Seconds between two signs of life.
BEAT_INTERVAL = 15.0


class Feed:
    """Owner of a broadcast and of the streams of its viewers."""

    def __init__(self, plan: Plan | None = None, *, times: Times = REAL_TIMES) -> None:
        """None: the plan comes later, by `begin`."""
        self._broadcast = Broadcast(plan)
        self._has_plan = plan is not None
        self._times = times
        #: Set, and replaced by another one, whenever there is news.
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._snapshot: tuple[int, list[_Part]] | None = None
        self._closed = False

    @property
    def has_viewers(self) -> bool:
        return self._broadcast.has_viewers

    async def watched(self) -> None:
        """Until somebody looks."""
        await self._watched.wait()

    def begin(self, plan: Plan) -> None:
        """There is a plan; it belongs to the feed."""
        self._broadcast.restart(plan)
        self._has_plan = True
        self._wake()

    def pause(self) -> None:
        """Nobody keeps the plan up to date any more: viewers wait for the next `begin`."""
        self._has_plan = False

    def publish(self, change: PlanChange) -> None:
        self._broadcast.publish(change)
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
        self._watched.set()
        try:
            while not self._closed:
                news = self._news
                if self._has_plan:
                    if viewer.needs_snapshot:
                        for part in self._start(viewer):
                            yield await part.frame()
                    for frame in viewer.take():
                        yield frame
                try:
                    await within(BEAT_INTERVAL, news.wait(), sleep=self._times.sleep)
                except TimeoutError:
                    yield _BEAT
        finally:
            viewer.leave()
            if not self.has_viewers:
                self._watched.clear()

    def _start(self, viewer: Viewer) -> list[_Part]:
        """The parts of the snapshot that it gets."""
        version = self._broadcast.version
        if self._snapshot is None or self._snapshot[0] != version:
            self._snapshot = version, [_Part(make) for make in self._broadcast.snapshot()]
        viewer.start()
        return self._snapshot[1]


class _Part:
    """A frame that is made in another thread, once somebody wants it."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._made: asyncio.Future[bytes] | None = None

    async def frame(self) -> bytes:
        if self._made is None:
            self._made = asyncio.get_running_loop().run_in_executor(None, self._make)
        # Whoever gives up waiting does not take it from the others.
        return await asyncio.shield(self._made)
