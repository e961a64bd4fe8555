"""One plan, many viewers: each message is serialized once, and slow viewers cost no memory.

A viewer holds references to the frames that it has not sent yet. When it is `MAX_BEHIND` frames behind, these are
dropped, and it restarts with a snapshot. A frame is a server-sent event, whose id is the plan's version.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from stowplan.inspection.records import encoded
from stowplan.page.messages import (
    DeltaMessage,
    PartMessage,
    SnapshotMessage,
    delta,
    opening,
    part,
    positions_of,
    snapshot_in_parts,
)
from stowplan.page.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stowplan.page.plan import PlanChange, PodRow

MAX_BEHIND = 32


class Broadcast:
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

    def opening(self) -> Callable[[], bytes]:
        """A function that builds the first part of the current plan, without pods, which `fill` adds."""
        self._known = positions_of(self._plan.nodes)
        return partial(_made, partial(opening, list(self._plan.nodes.values()), version=self.version))

    def fill(self, pods: Mapping[str, PodRow], *, more: bool) -> Callable[[], bytes]:
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

    def __init__(self, broadcast: Broadcast) -> None:
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
