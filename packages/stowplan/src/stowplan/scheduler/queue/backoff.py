"""The backoff queues, and how long a failed pod backs off.

Rejected pods and pods with an error wait apart, as the former may be popped early if no pod is active. Expiries are
whole seconds then, so that all pods whose backoff ends in the same second come in the order of the active queue.

One event can bring thousands of rejected pods here and make room for a few of them. All others would be popped early,
rejected again, and brought back by the next event. So a pod is not popped early while it would certainly be rejected:
an equal pod was rejected after this one came here, and still waits for an event (`RejectedPods`).

Upstream: pkg/scheduler/backend/queue/backoff_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, inf, ldexp
from typing import Any

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.queue.active import PodHeap
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod

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

#: Whether an attempt of the second pod would end as the rejection of the first one, an earlier pod of the same shape.
IsRejectedAlike = Callable[[QueuedPod, QueuedPod], bool]


class BackoffQueue:
    """Pods in backoff."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        sort_key: Callable[[QueuedPod], Any],
        now: Callable[[], float],
        is_rejected_alike: IsRejectedAlike,
    ) -> None:
        self._settings = settings
        self._now = now
        self._in_whole_seconds = settings.pop_from_backoff

        def by_expiry_and_order(queued: QueuedPod) -> tuple[float, Any]:
            return self.expiry(queued), sort_key(queued)

        key = by_expiry_and_order if settings.pop_from_backoff else self.expiry
        self.rejected = RejectedPods(key, is_rejected_alike)
        self.errors = PodHeap(self.expiry)
        start = now()
        #: When to check next for completed backoffs.
        self.next_check = floor(start) + _INTERVAL if self._in_whole_seconds else start + _INTERVAL

    def __len__(self) -> int:
        return len(self.rejected) + len(self.errors)

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
            queued.backoff_expiration = self._aligned(queued.timestamp + self._duration(count))
        return queued.backoff_expiration

    def _duration(self, count: int) -> float:
        """1, 2, 4, 8, 10, 10, … seconds by default."""
        settings = self._settings
        if settings.initial_backoff > ldexp(settings.max_backoff, 1 - count):
            return settings.max_backoff
        return ldexp(settings.initial_backoff, count - 1)

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

    def heap_of(self, queued: QueuedPod) -> PodHeap | RejectedPods:
        return self.errors if queued.place is Place.ERROR_BACKOFF else self.rejected

    def next_look(self) -> float | None:
        """When `completed` next returns a pod; None if no pod is in backoff."""
        heads = [head for heap in (*self.rejected.heaps(), self.errors) if (head := heap.peek()) is not None]
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
        rejected = [queued for heap in self.rejected.heaps() for queued in self._free(heap, look)]
        for queued in rejected:
            self.rejected.left(queued)
        return [*sorted(rejected, key=self.rejected.order), *self._free(self.errors, look)]

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


class RejectedPods:
    """The rejected pods in backoff. Those that would only be rejected again are set aside when they are reached.

    They stay aside, by shape, until one pod of the shape leaves its place in the queue; then the first of them is
    looked at again, and the next one if that is popped.
    """

    def __init__(self, key: Callable[[QueuedPod], Any], is_rejected_alike: IsRejectedAlike) -> None:
        self._key = key
        self._is_rejected_alike = is_rejected_alike
        self.ready = PodHeap(key)
        self._aside: dict[PodShape, PodHeap] = {}
        #: `namespace/name` of the pods that are set aside -> the shape that they have there.
        self._shapes: dict[str, PodShape] = {}
        #: Shape -> the pod of it that was rejected last, while it waits for an event.
        self.last_rejected: dict[PodShape, QueuedPod] = {}

    def __len__(self) -> int:
        return len(self.ready) + len(self._shapes)

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in self.heaps():
            yield from heap

    def heaps(self) -> Iterator[PodHeap]:
        yield self.ready
        yield from self._aside.values()

    def order(self, queued: QueuedPod) -> tuple[Any, int]:
        return self._key(queued), queued.arrival

    def put(self, queued: QueuedPod) -> None:
        """Add the pod, or sort it in again after a change."""
        self._take_back(queued.pod.key)
        self.ready.put(queued)

    def discard(self, name: str) -> None:
        self._take_back(name)
        self.ready.discard(name)

    def was_rejected(self, queued: QueuedPod) -> None:
        """A pod returned from an attempt, rejected, and waits for an event."""
        self.last_rejected[queued.pod.shape] = queued
        self.look_again(queued.pod.shape)

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod that is worth an attempt."""
        while (queued := self.ready.pop()) is not None:
            shape = queued.pod.shape
            rejected = self.last_rejected.get(shape)
            if rejected is None or rejected.arrival < queued.arrival or not self._is_rejected_alike(rejected, queued):
                self.look_again(shape)
                return queued
            self._aside.setdefault(shape, PodHeap(self._key)).put(queued)
            self._shapes[queued.pod.key] = shape
        return None

    def left(self, queued: QueuedPod) -> None:
        """A pod leaves its place in the queue, or its shape: others of that shape may have a chance again."""
        shape = queued.pod.shape
        self._take_back(queued.pod.key)
        if self.last_rejected.get(shape) is queued:
            del self.last_rejected[shape]
        self.look_again(shape)

    def look_again(self, shape: PodShape) -> None:
        """Look at the first pod of a shape again: something that its being set aside depends on has changed."""
        aside = self._aside.get(shape)
        if aside is not None and (first := aside.peek()) is not None:
            self._take_back(first.pod.key)
            self.ready.put(first)

    def _take_back(self, name: str) -> None:
        shape = self._shapes.pop(name, None)
        if shape is not None and (aside := self._aside.get(shape)) is not None:
            aside.discard(name)
            if not aside:
                del self._aside[shape]

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        for heap in self.heaps():
            yield from heap.problems()
        found = {queued.key: shape for shape, aside in self._aside.items() for queued in aside}
        other_shape = any(found.get(queued.key, queued.pod.shape) is not queued.pod.shape for queued in self)
        if found != self._shapes or other_shape:
            yield f"pods {sorted(found)} are aside, {sorted(self._shapes)} are known to be"
        for shape, aside in self._aside.items():
            if shape not in self.last_rejected and all(queued.pod.shape is not shape for queued in self.ready):
                yield f"pods {sorted(queued.key for queued in aside)} are aside, and no rejected pod is why"
        for shape, rejected in self.last_rejected.items():
            if rejected.pod.shape is not shape or rejected.place is not Place.UNSCHEDULABLE:
                yield f"pod {rejected.key}: {rejected.place.value}, and the last rejected one of a shape"


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
