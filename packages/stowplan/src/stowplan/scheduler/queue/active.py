"""The active queue, ordered by the profile's QueueSort plugin.

One event can requeue thousands of rejected pods at once. They were queued before the pods that are just being created,
so by the order alone every new pod would wait until all of them have failed again. So a new pod of the same priority is
popped after `rejected_in_a_row` rejected pods. Neither kind starves, and each keeps its order.

Only where the QueueSort plugin declares `by_priority_and_time`: of another order it is unknown which pods are equals.
The reference has no such turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.scheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.scheduler.queue.queued_pod import QueuedPod


class ActiveQueue:
    def __init__(self, key: Callable[[QueuedPod], Any], *, rejected_in_a_row: int) -> None:
        #: How many rejected pods are popped before a new one of their priority; 0: no limit.
        self._limit = rejected_in_a_row
        self.pods = PodHeap(key)
        #: The never-rejected pods, maintained from the first time that one of them was popped out of order; else None.
        self._new: PodHeap | None = None
        #: Rejected pods that were popped since the last new one.
        self.in_a_row = 0

    def __len__(self) -> int:
        return len(self.pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self.pods)

    def put(self, queued: QueuedPod) -> None:
        self.pods.put(queued)
        if self._new is not None and not queued.unschedulable_count:
            self._new.put(queued)

    def discard(self, name: str) -> None:
        self.pods.discard(name)
        if self._new is not None:
            self._new.discard(name)

    def pop(self) -> QueuedPod | None:
        # Without rejected pods, new pods need no reserved turns.
        turns = self._new is not None or self.in_a_row >= self._limit > 0
        queued = self._next_in_turn() if turns else self.pods.pop()
        if queued is not None:
            self.in_a_row = self.in_a_row + 1 if queued.unschedulable_count else 0
        return queued

    def _next_in_turn(self) -> QueuedPod | None:
        queued = self.pods.peek()
        if queued is None:
            self._new = None
            return None
        if queued.unschedulable_count and self.in_a_row >= self._limit > 0:
            if self._new is None:
                self._new = self.pods.subset(_is_new)
            new = self._new.peek()
            if new is not None and new.pod.priority == queued.pod.priority:
                queued = new
        self.discard(queued.pod.key)
        return queued

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        yield from self.pods.problems()
        if self._new is None:
            return
        yield from self._new.problems()
        new = {queued.key for queued in self.pods if _is_new(queued)}
        found = {queued.key for queued in self._new}
        for key in sorted(new - found):
            yield f"pod {key}: never rejected, but not among the new pods"
        for key in sorted(found - new):
            yield f"pod {key}: among the new ones, but it was rejected before, or is not active"


def _is_new(queued: QueuedPod) -> bool:
    return not queued.unschedulable_count
