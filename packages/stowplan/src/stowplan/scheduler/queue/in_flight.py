"""In-flight pods, and the events since each was popped.

An event that may help a pod must not be missed while the pod is in flight. Events are kept in order, with the position
in that list at which each pod in flight was popped. When a pod returns, the hints are asked about all later events.
Events before the oldest pod in flight are dropped.

Upstream: pkg/scheduler/backend/queue/active_queue.go (inFlightPods, inFlightEvents).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from stowplan.scheduler.framework.events import ClusterEvent
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod

#: Events that may stay in the list though no longer needed, so that it is not shifted each time.
_SLACK = 256

#: Label under which in-flight pods are counted among the events.
POD_POPPED = "PodPopped"


class InFlightEvent(NamedTuple):
    """An event, with the changed object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods by UID, and the events since the oldest of them."""

    def __init__(self) -> None:
        #: UID -> (number of the first event after it was popped, the pod); in order of those numbers.
        self.by_uid: dict[str, tuple[int, QueuedPod]] = {}
        self._events: list[InFlightEvent] = []
        #: Number of the list's first event.
        self._first = 0
        #: Number of the first event that is still needed.
        self._needed = 0

    def __bool__(self) -> bool:
        return bool(self.by_uid)

    def __contains__(self, uid: object) -> bool:
        return uid in self.by_uid

    def pods(self) -> list[QueuedPod]:
        """In the order in which they were popped."""
        return [queued for _, queued in self.by_uid.values()]

    def begin(self, queued: QueuedPod) -> None:
        self.by_uid[queued.pod.uid] = (self._first + len(self._events), queued)

    def record(self, happened: InFlightEvent) -> None:
        self._events.append(happened)

    def since(self, uid: str) -> Sequence[InFlightEvent] | None:
        """Events since the pod was popped; None if it is not in flight."""
        known = self.by_uid.get(uid)
        return None if known is None else self._events[known[0] - self._first :]

    def end(self, uid: str) -> QueuedPod | None:
        """Remove the pod; None if it is not in flight."""
        known = self.by_uid.pop(uid, None)
        if known is None:
            return None
        if self._events:
            self._drop()
        else:
            self._needed = self._first
        return known[1]

    def _drop(self) -> None:
        """Drop events that no pod in flight needs."""
        oldest = next(iter(self.by_uid.values()), None)
        self._needed = self._first + len(self._events) if oldest is None else oldest[0]
        dropped = self._needed - self._first
        if dropped == len(self._events) or dropped > _SLACK + len(self._events) // 2:
            del self._events[:dropped]
            self._first = self._needed

    def counts(self) -> Counter[str]:
        """Events by label, and pods; computed on demand."""
        found = Counter(happened.event.label for happened in self._events[self._needed - self._first :])
        if self.by_uid:
            found[POD_POPPED] = len(self.by_uid)
        return found

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        for uid, (_, queued) in self.by_uid.items():
            if queued.pod.uid != uid:
                yield f"pod {queued.key} ({queued.pod.uid}): in flight under the UID {uid}"
            if queued.place is not Place.IN_FLIGHT:
                yield f"pod {queued.key}: in flight, but its place is {queued.place.value}"
        yield from self._problems_of_events()

    def _problems_of_events(self) -> Iterator[str]:
        end, begins = self._first + len(self._events), [begin for begin, _ in self.by_uid.values()]
        if self._events and not begins:
            yield f"{len(self._events)} events are kept for pods in flight, and there is none"
        if any(later < earlier for earlier, later in pairwise(begins)):
            yield f"pods in flight are not in the order of their first events: {begins}"
        if begins and not self._needed == begins[0] <= begins[-1] <= end:
            yield f"events from {self._needed} to {end} are needed; pods in flight begin with {begins}"
        dropped = self._needed - self._first
        if not 0 <= dropped <= _SLACK + len(self._events) // 2:
            yield f"{dropped} of {len(self._events)} events are needed by no pod in flight, and still kept"
