"""One plan, many viewers: each message is serialised once, and nobody's slowness costs memory.

A viewer holds references to the frames that it has not taken yet. Once it is `MAX_BEHIND` frames behind, they are
dropped, and it starts anew with a snapshot when it next takes something. A frame is a server-sent event, whose id is
the plan's version.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stowplan.inspection.records import encoded
from stowplan.page.messages import DeltaMessage, SnapshotMessage, delta, snapshot
from stowplan.page.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BEHIND = 32


class Broadcast:
    """Owner of the newest plan and of its viewers."""

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = Plan() if plan is None else plan
        self._version = 1
        #: Of the newest plan; made when a viewer first needs it.
        self._snapshot: bytes | None = None
        #: Ordered, so that viewers are served in the order in which they came.
        self._viewers: dict[Viewer, None] = {}

    def publish(self, plan: Plan) -> None:
        """Tell the viewers what has changed. Without any, nothing is compared or serialised."""
        if self._viewers:
            change = delta(self._plan, plan, version=self._version + 1)
            if change is None:
                return
            self._offer(_frame(change))
        self._plan, self._snapshot = plan, None
        self._version += 1

    def _offer(self, frame: bytes) -> None:
        for viewer in self._viewers:
            viewer.offer(frame)

    def snapshot(self) -> bytes:
        if self._snapshot is None:
            self._snapshot = _frame(snapshot(self._plan, version=self._version))
        return self._snapshot

    def viewer(self) -> Viewer:
        viewer = Viewer(self)
        self._viewers[viewer] = None
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """No-op if it has left."""
        self._viewers.pop(viewer, None)


class Viewer:
    """What one stream has still to send."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._frames: deque[bytes] = deque()
        self._needs_snapshot = True

    def offer(self, frame: bytes) -> None:
        if self._needs_snapshot:
            return  # the snapshot will have it
        if len(self._frames) == MAX_BEHIND:
            self._frames.clear()
            self._needs_snapshot = True
        else:
            self._frames.append(frame)

    @property
    def behind(self) -> int:
        """Frames that are held for it."""
        return len(self._frames)

    def take(self) -> Iterator[bytes]:
        """The frames to send now, oldest first; none once it is up to date."""
        if self._needs_snapshot:
            self._needs_snapshot = False
            yield self._broadcast.snapshot()
        while self._frames:
            yield self._frames.popleft()

    def leave(self) -> None:
        self._frames.clear()
        self._broadcast.leave(self)


def _frame(message: SnapshotMessage | DeltaMessage) -> bytes:
    # JSON has no line breaks of its own, so one data line is the whole event.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (message.version, message.kind.encode(), encoded(message))
