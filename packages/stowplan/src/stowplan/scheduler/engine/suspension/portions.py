"""Long plugin work, in portions: one at a time, with a pause before each.

Long work must not delay other pods. So a cycle, or a group's trial, whose plugin returns that it is unfinished
(`framework.unfinished`) waits in line here. The driver answers a `Pause` after other pods had their turns; then the
head of the line does its next portion, and is appended again if that was not enough. So all unfinished work together
takes one portion per pause, however many pods there are.

Equal pods (by their profile's signature) wait for the first of them, as its results apply to the others. They return to
the queue when it has finished. The lines of different pods take turns.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from stowplan.scheduler.engine.effects import Pause

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from stowplan.scheduler.engine.outbox import Outbox
    from stowplan.scheduler.framework.requests import Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod


class Work(Protocol):
    """A pod's scheduling cycle, or a group's trial."""

    @property
    def line(self) -> Hashable:
        """The key of the work's line: of several with equal keys, only the first runs."""

    def take_portion(self) -> None:
        """Continue until the work ends or waits again."""

    def put_back(self) -> None:
        """Abort and return its pods to the queue, because equal work has finished."""


class Portions:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        #: Equal pods -> their cycles, the running one first; keys in the order of their turns.
        self.lines: OrderedDict[Hashable, list[Work]] = OrderedDict()
        #: The cycle that is currently running.
        self._working: Work | None = None
        #: The effect that ends the pause; 0 if nothing is in line.
        self._pause = 0
        #: Number of pauses so far, which measures portions.
        self.taken = 0

    def __str__(self) -> str:
        return "work in portions"

    def join(self, work: Work) -> None:
        """Append work for its next portion."""
        cycles = self.lines.setdefault(work.line, [])
        if work is self._working:
            cycles.insert(0, work)
        else:
            cycles.append(work)
        self._go_on_later()

    def has_equal(self, framework: Framework, queued: QueuedPod) -> bool:
        """Whether there is work for an equal pod."""
        return key_of(framework, queued) in self.lines

    def leave(self, work: Work) -> None:
        """Remove work; no-op if it is not in line."""
        for key, cycles in self.lines.items():
            if work in cycles:
                cycles.remove(work)
                if not cycles:
                    del self.lines[key]
                break
        if not self.lines and self._pause:
            self._outbox.withdraw(self._pause)
            self._pause = 0

    def answered(self, number: int, outcome: Outcome) -> None:
        """The pause is over."""
        self._pause = 0
        self.taken += 1
        key, cycles = next(iter(self.lines.items()))
        working = self._working = cycles.pop(0)
        if cycles:
            self.lines.move_to_end(key)
        else:
            del self.lines[key]
        try:
            working.take_portion()
        finally:
            self._working = None
        cycles = self.lines.get(key, [])
        if cycles and cycles[0] is not working:
            for cycle in tuple(cycles):
                cycle.put_back()
        if self.lines:
            self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._pause and self._working is None:
            self._pause = self._outbox.ask(Pause(), self)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def __contains__(self, work: Work) -> bool:
        return any(work in cycles for cycles in self.lines.values())

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        if bool(self._pause) is not bool(self.lines):
            yield f"{self}: {len(self.lines)} lines, and pause {self._pause}"
        if self._pause and self._outbox.awaited.get(self._pause) is not self:
            yield f"{self}: pause {self._pause} has another waiter"


def key_of(framework: Framework, queued: QueuedPod) -> Hashable:
    """A key that is equal for pods that share their work."""
    signature = framework.signature(queued.pod)
    return framework.profile_name, queued.pod.uid if signature is None else signature
