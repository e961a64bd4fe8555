"""The backoff queues, and how long a failed pod backs off.

Rejected pods and pods with an error wait apart, as the former may be popped early if no pod is active. Expiries are
whole seconds then, so that all pods whose backoff ends in the same second come in the order of the active queue.

Upstream: pkg/scheduler/backend/queue/backoff_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, inf, ldexp, sqrt
from typing import Any

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.queue.active import PodHeap
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, QueuedPod

#: Seconds between two checks for completed backoffs.
_INTERVAL = 1.0


class QueueSettings(PlainStruct, frozen=True, kw_only=True):
    """Times in seconds."""

    initial_backoff: float = 1.0
    #: 0 turns backoff off.
    max_backoff: float = 10.0
    #: A pod that was unschedulable for so long is requeued without an event.
    max_in_unschedulable: float = 300.0
    #: After so many rejected pods a new one of the same priority is popped; 0: strictly in order.
    rejected_in_a_row: int = 8
    #: Whether rejected pods are tried before their backoff is over when no other pod is ready.
    pop_from_backoff: bool = True


DEFAULT_SETTINGS = QueueSettings()


class BackoffQueue:
    """Pods in backoff."""

    def __init__(
        self, settings: QueueSettings, *, sort_key: Callable[[QueuedPod], Any], now: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._now = now
        self._in_whole_seconds = settings.pop_from_backoff

        def by_expiry_and_order(queued: QueuedPod) -> tuple[float, Any]:
            return self.expiry(queued), sort_key(queued)

        self.rejected = PodHeap(by_expiry_and_order if settings.pop_from_backoff else self.expiry)
        self.errors = PodHeap(self.expiry)
        start = now()
        #: When to check next for completed backoffs.
        self.next_check = floor(start) + _INTERVAL if self._in_whole_seconds else start + _INTERVAL

    def __len__(self) -> int:
        return len(self.rejected) + len(self.errors)

    def __bool__(self) -> bool:
        return bool(self.rejected or self.errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.rejected
        yield from self.errors

    # -- times --------------------------------------------------------------------------------------------------------

    def expiry(self, queued: QueuedPod) -> float:
        """When the pod's backoff ends; -inf if it has none."""
        if queued.backoff_expiration is None:
            count = queued.consecutive_errors_count or queued.unschedulable_count
            if not count or not self._settings.max_backoff:
                return -inf
            queued.backoff_expiration = self._aligned(queued.timestamp + self._duration(count, queued))
        return queued.backoff_expiration

    def _duration(self, count: int, queued: QueuedPod) -> float:
        """1, 2, 4, 8, 10, 10, … seconds by default; a group's grows on with the root of its size."""
        most = self._settings.max_backoff
        if isinstance(queued, QueuedGroup):
            most *= sqrt(len(queued.members))
        if self._settings.initial_backoff > ldexp(most, 1 - count):
            return most
        return ldexp(self._settings.initial_backoff, count - 1)

    def _aligned(self, moment: float) -> float:
        return float(floor(moment)) if self._in_whole_seconds else moment

    def is_backing_off(self, queued: QueuedPod) -> bool:
        return self._backs_off(queued, self._now())

    def _backs_off(self, queued: QueuedPod, moment: float) -> bool:
        expiry = self.expiry(queued)
        # Parity: at its expiry (the whole second, or the exact time) a pod still backs off.
        return expiry > -inf and expiry >= self._aligned(moment)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def put(self, queued: QueuedPod) -> Place:
        """Add the pod; the heap that it was added to."""
        if queued.waits_out:
            self.errors.put(queued)
            return Place.ERROR_BACKOFF
        self.rejected.put(queued)
        return Place.BACKOFF

    def heap_of(self, queued: QueuedPod) -> PodHeap:
        return self.errors if queued.place is Place.ERROR_BACKOFF else self.rejected

    def next_look(self) -> float | None:
        """When `completed` next returns a pod; None if no pod is in backoff."""
        heads = [head for head in (self.rejected.peek(), self.errors.peek()) if head is not None]
        if not heads:
            return None
        expiry = min(self.expiry(head) for head in heads)
        return self.next_check if expiry < self.next_check else surrounding_ticks(expiry, self.next_check, _INTERVAL)[1]

    def completed(self) -> list[QueuedPod]:
        """Remove and return the pods whose backoff was over at the last due check; rejected pods first."""
        now = self._now()
        if now < self.next_check:
            return []
        look, self.next_check = surrounding_ticks(now, self.next_check, _INTERVAL)
        return [queued for heap in (self.rejected, self.errors) for queued in self._free(heap, look)]

    def _free(self, heap: PodHeap, moment: float) -> Iterator[QueuedPod]:
        while (head := heap.peek()) is not None and not self._backs_off(head, moment):
            heap.pop()
            yield head

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        yield from self.rejected.problems()
        yield from self.errors.problems()
        for queued in self:
            if self.expiry(queued) == -inf:
                yield f"pod {queued.key}: backs off, but it has no backoff"


def surrounding_ticks(moment: float, tick: float, interval: float) -> tuple[float, float]:
    """Of the moments `tick`, `tick` + `interval`, … the last up to the given one, and the first after it.

    When `tick` itself is later, it is the first, and the last is one that never was.
    """
    tick += floor((moment - tick) / interval) * interval
    while tick + interval <= moment:
        tick += interval
    while tick > moment:
        tick -= interval
    return tick, tick + interval
