"""The active queue, ordered by the profile's QueueSort plugin.

One event can requeue thousands of rejected pods at once. They were queued before the pods that are just being created,
so by the order alone every new pod would wait until all of them have failed again. So a new pod of the same priority is
popped after `rejected_in_a_row` rejected pods. Neither kind starves, and each keeps its order.

Only where the QueueSort plugin declares `by_priority_and_time`, as PrioritySort does: of another order it is unknown
which pods are equals. The reference has no such turns. Such an order is a plain tuple; any other plugin compares two
pods at a time.

Upstream: pkg/scheduler/backend/queue/active_queue.go, pkg/scheduler/backend/heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from heapq import heapify, heappop, heappush
from typing import Any

from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.interface import QueueSortPlugin
from stowplan.scheduler.framework.status import typed
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.queued_pod import QueuedPod

#: Sort key, arrival, number of the entry (so that pods themselves are never compared), pod.
Entry = tuple[Any, int, int, QueuedPod]

#: Removed entries that are kept in any case.
_SLACK = 64


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

    def __bool__(self) -> bool:
        return bool(self.pods)

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
        self.discard(queued.key)
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


class PodHeap:
    """Pods by `key(pod)`, then in order of arrival; each `namespace/name` at most once.

    A binary heap with lazy deletion: removed entries stay until they reach the top or outnumber the others. An entry
    keeps the sort key that the pod had when it was added, so later changes of the pod cannot break the heap order.
    """

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._heap: list[Entry] = []
        #: The pods that are in it, by name.
        self.entries: dict[str, Entry] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[3] for entry in self.entries.values())

    def put(self, queued: QueuedPod) -> None:
        """Add the pod, or sort it in again after a change."""
        key = self._key(queued)
        name = queued.key
        known = self.entries.get(name)
        if known is not None and known[0] == key and known[3] is queued:
            return
        self._pushed += 1
        entry = self.entries[name] = (key, queued.arrival, self._pushed, queued)
        heappush(self._heap, entry)
        if known is not None:
            self._drop_removed()

    def discard(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            self._drop_removed()

    def subset(self, which: Callable[[QueuedPod], bool]) -> PodHeap:
        """A heap of a subset, with the sort keys that they have here."""
        found = PodHeap(self._key)
        found._pushed = self._pushed
        found.entries = {name: entry for name, entry in self.entries.items() if which(entry[3])}
        found._heap = list(found.entries.values())
        heapify(found._heap)
        return found

    def peek(self) -> QueuedPod | None:
        heap, entries = self._heap, self.entries
        while heap:
            head = heap[0]
            known = entries.get(head[3].key)
            if known is not None and known[2] == head[2]:
                return head[3]
            heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        heap, entries = self._heap, self.entries
        while heap:
            head = heappop(heap)
            key = head[3].key
            known = entries.get(key)
            if known is not None and known[2] == head[2]:
                del entries[key]
                return head[3]
        return None

    def _drop_removed(self) -> None:
        if len(self._heap) > 2 * len(self.entries) + _SLACK:
            self._heap = list(self.entries.values())
            heapify(self._heap)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        in_heap = {id(entry) for entry in self._heap}
        for name, entry in self.entries.items():
            if entry[3].key != name:
                yield f"pod {entry[3].key}: held under the name {name}"
            if id(entry) not in in_heap:
                yield f"pod {name}: has an entry, but the heap has not"


# -- order ------------------------------------------------------------------------------------------------------------


def sort_key(plugin: QueueSortPlugin | None, observer: QueueObserver) -> Callable[[QueuedPod], Any]:
    """A sort key that gives the plugin's order."""
    if plugin is None or plugin.by_priority_and_time:
        return _by_priority
    order = _Order(plugin, observer)
    return lambda queued: _Ranked(copy(queued), order)


def _by_priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.pod.priority, queued.timestamp


class _Order:
    """A plugin's comparison of two pods; where it puts neither first, or raises, they keep their order of arrival."""

    def __init__(self, plugin: QueueSortPlugin, observer: QueueObserver) -> None:
        self._plugin = plugin
        self._observer = observer
        self._reported = False

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        first = call(self._plugin.less, a, b, check=bool, required=True, failed=Raised, at=("QueueSort", self._plugin))
        if isinstance(first, bool):
            return first
        if not self._reported:
            self._reported = True
            self._observer.problem(
                f'QueueSort plugin "{self._plugin.name}" failed to compare pods {a.key} and {b.key}, '
                f"pods that it cannot compare keep their order of arrival: {typed(first.cause)}"
            )
        return False


class _Ranked:
    """A pod as of the time it was queued."""

    __slots__ = ("_order", "_queued")

    def __init__(self, queued: QueuedPod, order: _Order) -> None:
        self._queued = queued
        self._order = order

    def __lt__(self, other: _Ranked) -> bool:
        mine, theirs = self._queued, other._queued
        if self._order.less(mine, theirs):
            return True
        return not self._order.less(theirs, mine) and mine.arrival < theirs.arrival
