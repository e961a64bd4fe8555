"""A keyed priority queue of pods.

A binary heap with lazy deletion: removed entries stay until they reach the top or outnumber the others. An entry keeps
the sort key that the pod had when it was added, so later changes of the pod cannot break the heap order.

Upstream: pkg/scheduler/backend/heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.scheduler.queue.queued_pod import QueuedPod

    #: Sort key, arrival, number of the entry (so that pods themselves are never compared), pod.
    Entry = tuple[Any, int, int, QueuedPod]

#: Removed entries that are kept in any case.
_SLACK = 64


class PodHeap:
    """Pods by `key(pod)`, then in order of arrival; each `namespace/name` at most once."""

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._heap: list[Entry] = []
        #: The pods that are in it, by name.
        self.entries: dict[str, Entry] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[3] for entry in self.entries.values())

    def put(self, queued: QueuedPod) -> None:
        """Add the pod, or sort it in again after a change."""
        key = self._key(queued)
        name = queued.pod.key
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
            if entries.get(head[3].pod.key) is head:
                return head[3]
            heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        heap, entries = self._heap, self.entries
        while heap:
            head = heappop(heap)
            key = head[3].pod.key
            if entries.get(key) is head:
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
            if entry[3].pod.key != name:
                yield f"pod {entry[3].pod.key}: held under the name {name}"
            if id(entry) not in in_heap:
                yield f"pod {name}: has an entry, but the heap has not"
