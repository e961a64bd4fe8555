"""The plan as server-sent events: one plan, many viewers.

Each message is serialized once, and slow viewers cost no memory: a viewer holds references to the frames that it has
not sent yet. When it is `MAX_BEHIND` frames behind, these are dropped, and it restarts with a snapshot. A frame is an
event whose id is the plan's version.

A viewer's stream waits until there is something to send, and sends periodic comments as a heartbeat. Snapshots are
built in another thread, part by part, and shared by all viewers that need the same version.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial

from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES, Times, within
from stowplan.net.serving.requests.messages import NO_SNIFF, Stream
from stowplan.scheduler.inspection.records import encoded
from stowplan.ui.plan import Plan, PlanChange, PodRow
from stowplan.ui.plan_messages import (
    DeltaMessage,
    PartMessage,
    SnapshotMessage,
    delta,
    first_part,
    part,
    positions_of,
    snapshot_in_parts,
)

EVENTS = "text/event-stream; charset=utf-8"
_BEAT = b": beat\n\n"
#: Interval of heartbeats in seconds.
BEAT_INTERVAL = 15.0
MAX_BEHIND = 32


class PlanStreams:
    """Owner of a broadcast and of the streams of its viewers."""

    def __init__(self, plan: Plan | None = None, *, times: Times = REAL_TIMES) -> None:
        """Without a plan, `begin` sets it later."""
        self._broadcast = Broadcaster(plan)
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
        """Set the plan, which then belongs to the streams. `more`: pods follow by `add_pods`, until `complete`."""
        self._broadcast.restart(plan)
        self._has_plan = True
        self._snapshot = _Snapshot([_Part(self._broadcast.first_part())], is_complete=False) if more else None
        self._wake()

    def add_pods(self, pods: Mapping[str, PodRow]) -> None:
        """Add pods to an incomplete plan."""
        self._add(pods, more=True)

    def complete(self) -> None:
        """The plan is complete, and changes can be published."""
        self._add({}, more=False)

    def _add(self, pods: Mapping[str, PodRow], *, more: bool) -> None:
        assert self._snapshot is not None
        self._snapshot.parts.append(_Part(self._broadcast.add_pods(pods, more=more)))
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


class Broadcaster:
    """Owner of the newest plan and of its viewers."""

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = Plan() if plan is None else plan
        self.version = 1
        #: Positions of node names for the parts of an incomplete plan.
        self._known: Mapping[str, int] = {}
        #: Ordered, so that viewers are served in order of arrival.
        self._viewers: dict[Viewer, None] = {}

    @property
    def has_viewers(self) -> bool:
        return bool(self._viewers)

    def restart(self, plan: Plan) -> None:
        """Switch to another plan; all viewers get a snapshot."""
        self._plan = plan
        self.version += 1
        for viewer in self._viewers:
            viewer.restart()

    def first_part(self) -> Callable[[], bytes]:
        """A function that builds the first part of the current plan, without pods, which `add_pods` adds."""
        self._known = positions_of(self._plan.nodes)
        return partial(_made, partial(first_part, list(self._plan.nodes.values()), version=self.version))

    def add_pods(self, pods: Mapping[str, PodRow], *, more: bool) -> Callable[[], bytes]:
        """Add pods to an incomplete plan; return a function that builds the part of its snapshot."""
        self._plan.pods.update(pods)
        return partial(_made, partial(part, list(pods.values()), self._known, version=self.version, more=more))

    def publish(self, change: PlanChange) -> bool:
        """Apply a change and notify the viewers; return whether there are any.

        Without viewers, nothing is serialized.
        """
        if not change:
            return False
        self._plan.apply(change)
        self.version += 1
        if self._viewers:
            frame = _frame(delta(change, version=self.version))
            for viewer in self._viewers:
                viewer.offer(frame)
        return True

    def snapshot(self) -> list[Callable[[], bytes]]:
        """A function that builds the frames of the current plan; slow, and can run in another thread."""
        return [partial(_made, make) for make in snapshot_in_parts(self._plan.copy(), version=self.version)]

    def viewer(self) -> Viewer:
        viewer = Viewer(self)
        self._viewers[viewer] = None
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove the viewer. Idempotent."""
        self._viewers.pop(viewer, None)


class Viewer:
    """What one stream has yet to send."""

    def __init__(self, broadcast: Broadcaster) -> None:
        self._broadcast = broadcast
        self._frames: deque[bytes] = deque()
        #: Whether it still needs a snapshot before frames can be applied.
        self.needs_snapshot = True

    def restart(self) -> None:
        self._frames.clear()
        self.needs_snapshot = True

    def start(self) -> None:
        """It gets a snapshot of the current plan: later frames are kept for it."""
        self.needs_snapshot = False

    def offer(self, frame: bytes) -> None:
        if self.needs_snapshot:
            return  # included in the snapshot
        if len(self._frames) == MAX_BEHIND:
            self.restart()
        else:
            self._frames.append(frame)

    @property
    def behind(self) -> int:
        """Number of frames waiting for it."""
        return len(self._frames)

    def take(self) -> Iterator[bytes]:
        """Return and remove the waiting frames, oldest first; none if it is up to date, or needs a snapshot."""
        while self._frames:
            yield self._frames.popleft()

    def leave(self) -> None:
        self._frames.clear()
        self._broadcast.leave(self)


def _made(make: Callable[[], SnapshotMessage | PartMessage]) -> bytes:
    return _frame(make())


def _frame(message: SnapshotMessage | PartMessage | DeltaMessage) -> bytes:
    # JSON contains no line breaks, so one data line is the whole event.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (message.version, message.kind.encode(), encoded(message))
