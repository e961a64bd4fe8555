"""The agenda of simulated time: due events, and the clock that jumps to them.

Events for the present, or for a time that has passed, are appended to a line; later ones wait in a heap. When the clock
advances, all events of the new time are appended to the line in the order in which they were added. There is one
exception: changes of one kind that are due at the same time are processed as one batch, at the position of the first.

Times at which the engine only wants to be woken are tracked separately: they alone do not keep a run going.
"""

from __future__ import annotations

import heapq
from collections import deque
from math import inf
from typing import Any

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.scheduler.engine.engine import TICK
from stowplan.scheduler.engine.inputs import Changes


class Agenda:
    __slots__ = ("_heap", "_number", "_wakes", "batches", "line", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        #: What is due now, in order; consumed from the left.
        self.line: deque[Any] = deque()
        #: (time, number, event).
        self._heap: list[tuple[float, int, Any]] = []
        self._number = 0
        #: Times in the heap at which only a tick is due.
        self._wakes: set[float] = set()
        #: Changes in the line that others of their kind may still join; consuming them closes the batch.
        self.batches: dict[type[ApiStruct], list[Change[Any]]] = {}

    def put(self, at: float, item: Any) -> None:
        if at > self.now:
            self._number = number = self._number + 1
            heapq.heappush(self._heap, (at, number, item))
        else:
            self._line_up(item)

    def wake(self, at: float) -> None:
        """Tick at this time; duplicates are ignored."""
        if at in self._wakes:
            return
        if at > self.now:
            self._wakes.add(at)
        self.put(at, TICK)

    @property
    def only_wakes(self) -> bool:
        """Whether only ticks are due."""
        return not self.line and len(self._heap) == len(self._wakes)

    @property
    def next(self) -> float:
        """The next time after this one; infinity if there is none."""
        return self._heap[0][0] if self._heap else inf

    def go_on(self, until: float, *, for_ticks: bool) -> bool:
        """Advance to the next time, if there is one up to `until`.

        Times with nothing but ticks only count `for_ticks`.
        """
        heap = self._heap
        if not heap or heap[0][0] > until or not (for_ticks or len(heap) > len(self._wakes)):
            return False
        line = self.line
        self.now = now = heap[0][0]
        self._wakes.discard(now)
        while heap and heap[0][0] == now:
            item = heapq.heappop(heap)[2]
            if type(item) is Change:
                self._line_up(item)
            else:
                line.append(item)
        return True

    def _line_up(self, item: Any) -> None:
        if type(item) is Change:
            obj: Any = item.new if item.old is None else item.old
            self.join(type(obj), item)
        else:
            self.line.append(item)

    def join(self, kind: type[ApiStruct], change: Change[Any]) -> None:
        """Add a change of the kind to the current batch."""
        batch = self.batches.get(kind)
        if batch is None:
            batch = self.batches[kind] = []
            self.line.append(Changes(kind, batch))
        batch.append(change)
