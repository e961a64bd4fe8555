"""Wake the queue: once a second, and when a backoff ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.engine.dumped import DumpedTimer

if TYPE_CHECKING:
    from stowplan.scheduler.engine.outbox import Alarm
    from stowplan.scheduler.engine.parts import Parts


class QueueTimer:
    def __init__(self, parts: Parts, *, second: float) -> None:
        """`second`: the phase of the interval. Backoffs in whole seconds end at the same time for all pods."""
        self._parts = parts
        self._second = second
        self._alarm: Alarm | None = None

    def __str__(self) -> str:
        return "queue's timer"

    @property
    def is_set(self) -> bool:
        """Whether it will fire, or has not been set for the first time yet."""
        return self._alarm is None or self._alarm.sleeper is self

    def woken(self) -> None:
        outbox, queue = self._parts.outbox, self._parts.queue
        queue.flush()
        at = outbox.now + 1.0 - (outbox.now - self._second) % 1.0
        due = queue.next_flush()
        self._alarm = outbox.wake(at if due is None or due <= outbox.now else min(at, due), self)

    def start(self) -> None:
        if self._alarm is None:
            self.woken()

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # -- dump and load ------------------------------------------------------------------------------------------------

    def dump(self) -> DumpedTimer:
        return DumpedTimer(second=self._second, at=None if self._alarm is None else self._alarm.at)

    def load(self, dumped: DumpedTimer) -> None:
        self._second = dumped.second
        if dumped.at is not None:
            self._alarm = self._parts.outbox.wake(dumped.at, self)
