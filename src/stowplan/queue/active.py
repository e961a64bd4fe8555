"""The active queue, ordered by the profile's QueueSort plugin.

One event can requeue thousands of rejected pods at once. They were queued before the pods that are just being created,
so by the order alone every new pod would wait until all of them have failed again. So a new pod of the same priority is
popped after `rejected_in_a_row` rejected pods. Neither kind starves, and each keeps its order.

Only where the QueueSort plugin declares `by_priority_and_time`: of another order it is unknown which pods are equals.
The reference has no such turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.queue.queued_pod import QueuedPod


class ActiveQueue:
    def __init__(self, key: Callable[[QueuedPod], Any], *, rejected_in_a_row: int) -> None:
        #: How many rejected pods are popped before a new one of their priority; 0: no limit.
        self._limit = rejected_in_a_row
        self._pods = PodHeap(key)
        #: Those of them that were never rejected.
        self._new = PodHeap(key)
        #: Rejected pods that were popped since the last new one.
        self.in_a_row = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods)

    def put(self, queued: QueuedPod) -> None:
        self._pods.put(queued)
        if self._limit and not queued.unschedulable_count:
            self._new.put(queued)

    def discard(self, name: str) -> None:
        self._pods.discard(name)
        self._new.discard(name)

    def pop(self) -> QueuedPod | None:
        queued = self._pods.peek()
        if queued is None:
            return None
        if self.in_a_row >= self._limit > 0:
            new = self._new.peek()
            if new is not None and new.pod.priority == queued.pod.priority:
                queued = new
        self.in_a_row = self.in_a_row + 1 if queued.unschedulable_count else 0
        self.discard(queued.pod.key)
        return queued

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        yield from self._pods.problems()
        yield from self._new.problems()
        new = {queued.key for queued in self._pods if self._limit and not queued.unschedulable_count}
        found = {queued.key for queued in self._new}
        for key in sorted(new - found):
            yield f"pod {key}: nobody has rejected it so far, but it is not among the new ones"
        for key in sorted(found - new):
            yield f"pod {key}: among the new ones, but it was rejected before, or is not active"
