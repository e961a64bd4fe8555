"""Pods being evicted, and the preemptors that wait for them.

The API server's response says that a pod was deleted; only the watch says that its room is free. A pod has left when it
is no longer on a node, or when anyone is deleting it, as it then no longer blocks a preemptor. Code that changes the
state for such a reason calls `left` before it notifies the queue, so that the hints see the new state.

A listener of `ClusterState` would not do: it would also see changes that transactions only try out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class DepartureListener(Protocol):
    """Waits for pods to leave."""

    def pod_left(self, uid: str, /) -> None: ...


class LeavingPods:
    """By UID, in the order in which they are expected to leave."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[DepartureListener, None]] = {}

    def expect(self, uid: str, listener: DepartureListener) -> None:
        """Notify the listener once when the pod has left. Idempotent."""
        self._listeners.setdefault(uid, {})[listener] = None

    def left(self, uid: str) -> None:
        """Notify listeners that the pod was deleted or is being deleted; no-op without listeners."""
        # Taken out first: a listener may wait for another pod, or again for one of this UID.
        for listener in self._listeners.pop(uid, ()):
            listener.pod_left(uid)

    @property
    def listeners(self) -> Iterator[tuple[str, DepartureListener]]:
        """(uid, listener) of all pods that have not left yet."""
        return ((uid, listener) for uid, listeners in self._listeners.items() for listener in listeners)
