"""Long plugin work, in portions: one at a time, with a pause before each.

Long work must not delay other pods. So a cycle whose plugin returns that it is unfinished (`framework.unfinished`)
queues here. The driver answers a `Pause` after other pods had their turns; then the first cycle does its next portion,
and queues again if that was not enough. So all unfinished work together takes one portion per pause, however many pods
there are.

Equal pods (by their profile's signature) queue behind the first of them, as its results apply to the others. They
return to the scheduling queue when it has finished. The queues of different pods take turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from stowplan.scheduler.engine.effects import Pause
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.framework.requests import Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.suspension.suspended import SuspendableCycle


class WorkSlices:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        #: Equal pods -> their cycles, the working one first; keys in the order of their turns.
        self.queues: OrderedDict[Hashable, list[SuspendableCycle]] = OrderedDict()
        #: The cycle that is currently doing a portion.
        self._working: SuspendableCycle | None = None
        #: The effect that ends the pause; 0 if nothing is queued.
        self._pause = 0
        #: Number of pauses so far, which measures portions.
        self.taken = 0

    def __str__(self) -> str:
        return "work in portions"

    def join(self, cycle: SuspendableCycle) -> None:
        """Queue a cycle for its next portion."""
        cycles = self.queues.setdefault(cycle.queue_key, [])
        if cycle is self._working:
            # Its portion was not enough. Its equals must keep waiting for it, whoever joined meanwhile.
            cycles.insert(0, cycle)
        else:
            cycles.append(cycle)
        self._go_on_later()

    def has_equal(self, framework: Framework, queued: QueuedPod) -> bool:
        """Whether there is work for an equal pod."""
        return key_of(framework, queued) in self.queues

    def leave(self, cycle: SuspendableCycle) -> None:
        """Remove a cycle; no-op if it is not queued."""
        for key, cycles in self.queues.items():
            if cycle in cycles:
                cycles.remove(cycle)
                if not cycles:
                    del self.queues[key]
                break
        if not self.queues and self._pause:
            self._outbox.withdraw(self._pause)
            self._pause = 0

    def answered(self, number: int, outcome: Outcome) -> None:
        """The pause is over."""
        self._pause = 0
        self.taken += 1
        key, cycles = next(iter(self.queues.items()))
        working = self._working = cycles.pop(0)
        # Before its portion, because that may end with anything: it joins again, ends, or puts others in its place.
        # `_working` holds back the next pause until it is known whether any work is left.
        if cycles:
            self.queues.move_to_end(key)
        else:
            del self.queues[key]
        try:
            working.owner.take_portion(working)
        finally:
            self._working = None
        cycles = self.queues.get(key, [])
        if cycles and cycles[0] is not working:
            # It has finished. Putting a cycle back takes it out of this list, hence the copy.
            for cycle in tuple(cycles):
                cycle.owner.put_back(cycle)
        if self.queues:
            self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._pause and self._working is None:
            self._pause = self._outbox.ask(Pause(), self)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def __contains__(self, cycle: SuspendableCycle) -> bool:
        return any(cycle in cycles for cycles in self.queues.values())

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        if bool(self._pause) is not bool(self.queues):
            yield f"{self}: {len(self.queues)} queues, and pause {self._pause}"
        if self._pause and self._outbox.awaited.get(self._pause) is not self:
            yield f"{self}: pause {self._pause} has another waiter"


def key_of(framework: Framework, queued: QueuedPod) -> Hashable:
    """A key that is equal for pods that share their work."""
    signature = framework.signature(queued.pod)
    return framework.profile_name, queued.pod.uid if signature is None else signature
