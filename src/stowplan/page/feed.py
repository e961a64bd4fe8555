"""The plan as a stream of server-sent events, one per viewer.

A viewer's stream waits until there is something to send, and sends periodic comments as a heartbeat. Snapshots are
built in another thread, part by part, and shared by all viewers that need the same version.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stowplan.page.broadcast import Broadcast
from stowplan.serving.requests.messages import NO_SNIFF, Stream
from stowplan.structs import PlainStruct
from stowplan.timing.times import REAL_TIMES, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from stowplan.page.broadcast import Viewer
    from stowplan.page.plan import Plan, PlanChange, PodRow
    from stowplan.timing.times import Times

EVENTS = "text/event-stream; charset=utf-8"
_BEAT = b": beat\n\n"
#: Interval of heartbeats in seconds.
BEAT_INTERVAL = 15.0


class Feed:
    """Owner of a broadcast and of the streams of its viewers."""

    def __init__(self, plan: Plan | None = None, *, times: Times = REAL_TIMES) -> None:
        """Without a plan, `begin` sets it later."""
        self._broadcast = Broadcast(plan)
        self._has_plan = plan is not None
        self._times = times
        #: Set, and replaced, whenever there is news.
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._snapshot: _Snapshot | None = None
        self._closed = False

    @property
    def has_viewers(self) -> bool:
        return self._broadcast.has_viewers

    async def watched(self) -> None:
        """Wait for the first viewer."""
        await self._watched.wait()

    def begin(self, plan: Plan, *, more: bool = False) -> None:
        """Set the plan, which then belongs to the feed. `more`: pods follow by `fill`, until `filled`."""
        self._broadcast.restart(plan)
        self._has_plan = True
        self._snapshot = _Snapshot([_Part(self._broadcast.opening())], is_complete=False) if more else None
        self._wake()

    def fill(self, pods: Mapping[str, PodRow]) -> None:
        """Add pods to an incomplete plan."""
        self._add(pods, more=True)

    def filled(self) -> None:
        """The plan is complete, and changes can be published."""
        self._add({}, more=False)

    def _add(self, pods: Mapping[str, PodRow], *, more: bool) -> None:
        assert self._snapshot is not None
        self._snapshot.parts.append(_Part(self._broadcast.fill(pods, more=more)))
        self._snapshot.is_complete = not more
        self._wake()

    def pause(self) -> None:
        """The plan is no longer updated: viewers wait for the next `begin`."""
        self._has_plan = False

    def publish(self, change: PlanChange) -> None:
        if self._broadcast.publish(change):
            self._snapshot = None
            self._wake()

    def close(self) -> None:
        """End all streams, including those not started yet."""
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
        snapshot, sent = None, 0
        try:
            while not self._closed:
                news = self._news
                if self._has_plan and viewer.needs_snapshot:
                    snapshot, sent = self._start(viewer), 0
                if snapshot is not None:
                    # More parts may be added meanwhile.
                    while sent < len(snapshot.parts):
                        sent += 1
                        yield await snapshot.parts[sent - 1].frame()
                    if snapshot.is_complete:
                        snapshot = None
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

    def _start(self, viewer: Viewer) -> _Snapshot:
        """The snapshot for the viewer."""
        if self._snapshot is None:
            parts = [_Part(make) for make in self._broadcast.snapshot()]
            self._snapshot = _Snapshot(parts, is_complete=True)
        viewer.start()
        return self._snapshot


class _Snapshot(PlainStruct):
    """The newest plan in parts, shared by all viewers until it changes."""

    parts: list[_Part]
    #: Whether all parts have been added.
    is_complete: bool


class _Part:
    """A frame that is built in another thread on first use."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._made: asyncio.Future[bytes] | None = None

    async def frame(self) -> bytes:
        if self._made is None:
            self._made = asyncio.get_running_loop().run_in_executor(None, self._make)
        # A cancelled waiter does not cancel it for others.
        return await asyncio.shield(self._made)
