"""Pods that are being tried, and the events since they were popped.

An event that may help a pod must not be missed while the pod is in flight. Events are kept in order, with the position
in that list at which each pod in flight was popped. When a pod returns, the hints are asked about all later events.
Events before the oldest pod in flight are dropped.

Upstream: pkg/scheduler/backend/queue/active_queue.go (inFlightPods, inFlightEvents).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.framework.events import ClusterEvent
    from stowplan.queue.queued_pod import QueuedPod

#: Events that may stay in the list though no longer needed, so that it is not shifted each time.
_SLACK = 256

#: Label under which pods are counted among the events.
POD_POPPED = "PodPopped"


class Happened(NamedTuple):
    """An event, with the changed object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods by UID, and the events since the oldest of them."""

    def __init__(self) -> None:
        #: UID -> (number of the first event after it was popped, the pod); in order of those numbers.
        self._pods: dict[str, tuple[int, QueuedPod]] = {}
        self._events: list[Happened] = []
        #: Number of the list's first event.
        self._first = 0
        #: Number of the first event that is still needed.
        self._needed = 0

    def __bool__(self) -> bool:
        return bool(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def pods(self) -> list[QueuedPod]:
        """In the order in which they were popped."""
        return [queued for _, queued in self._pods.values()]

    def begin(self, queued: QueuedPod) -> None:
        self._pods[queued.pod.uid] = (self._first + len(self._events), queued)

    def record(self, happened: Happened) -> None:
        self._events.append(happened)

    def since(self, uid: str) -> Sequence[Happened] | None:
        """Events since the pod was popped; None if it is not in flight."""
        known = self._pods.get(uid)
        return None if known is None else self._events[known[0] - self._first :]

    def end(self, uid: str) -> QueuedPod | None:
        """Remove the pod; None if it is not in flight."""
        known = self._pods.pop(uid, None)
        if known is None:
            return None
        if not self._pods:
            self._needed = self._first + len(self._events)
        else:
            self._needed = next(iter(self._pods.values()))[0]
        self._drop()
        return known[1]

    def _drop(self) -> None:
        dropped = self._needed - self._first
        if dropped == len(self._events) or dropped > _SLACK + len(self._events) // 2:
            del self._events[:dropped]
            self._first = self._needed

    def counts(self) -> Counter[str]:
        """Events by label, and pods; worked out when asked."""
        found = Counter(happened.event.label for happened in self._events[self._needed - self._first :])
        if self._pods:
            found[POD_POPPED] = len(self._pods)
        return found
