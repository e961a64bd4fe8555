"""Work that is suspended: what it waits for, and how it ends.

A scheduling cycle (`suspended_cycles`) or a group's trial (`groups.suspended_groups`) that has to wait yields what it
needs, and is resumed with what came of it. The record of it derives from `Suspended`, which puts the questions, sleeps,
gathers the answers, and withdraws it all when the work is broken off.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from stowplan.api.types import Pod, PodStatus
from stowplan.framework.requests import Ask, Done, Wait

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.outbox import Alarm, Outbox
    from stowplan.framework.requests import Outcome, Request

_NO_STATUS = PodStatus()


class Stage(Enum):
    LINED_UP = "lined up"
    RUNNING = "running"
    ASKING = "asking"
    ASLEEP = "asleep"
    PORTIONS = "portions"
    ANEW = "anew"
    OVER = "over"


class Need:
    """A request or question that is under way, or answered."""

    __slots__ = ("number", "outcome", "work")

    def __init__(self, work: Suspended) -> None:
        self.work = work
        self.number = 0
        self.outcome: Outcome | None = None

    def __str__(self) -> str:
        return str(self.work)

    def answered(self, number: int, outcome: Outcome) -> None:
        self.outcome = outcome
        self.work.owner.answered(self.work)


class Owner(Protocol):
    """Goes on with suspended work."""

    def answered(self, work: Any, /) -> None:
        """One of its needs is answered."""

    def woken(self, work: Any, /) -> None:
        """What it slept for has come."""

    def take_portion(self, work: Any, /) -> None:
        """It is its turn to go on with work that takes long."""

    def put_back(self, work: Any, /) -> None:
        """Resume: an equal piece of work has finished."""


class Suspended:
    """One piece of work that may wait."""

    __slots__ = ("_outbox", "alarm", "asleep_since", "needs", "owner", "stage")

    def __init__(self, owner: Owner, outbox: Outbox) -> None:
        self.owner = owner
        self._outbox = outbox
        self.stage = Stage.RUNNING
        #: What it waits for, in order; answers are kept there until all have come.
        self.needs: tuple[Need, ...] = ()
        self.alarm: Alarm | None = None
        #: When it began to wait for objects or a time.
        self.asleep_since = 0.0

    def woken(self) -> None:
        self.owner.woken(self)

    def take_portion(self) -> None:
        self.owner.take_portion(self)

    def put_back(self) -> None:
        self.owner.put_back(self)

    def wait_for(self, needed: tuple[Request | Ask, ...] | Wait) -> bool:
        """Begin to wait; whether an extender is asked."""
        if isinstance(needed, Wait):
            self.stage, self.asleep_since = Stage.ASLEEP, self._outbox.now
            if needed.seconds is not None:
                self.alarm = self._outbox.wake(self._outbox.now + needed.seconds, self)
            for key in sorted(needed.keys):
                self._outbox.watch(key, self)
            return False
        self.stage = Stage.ASKING
        self.needs = tuple(Need(self) for _ in needed)
        for need, action in zip(self.needs, needed, strict=True):
            need.number = self._outbox.ask(action, need)
        return any(isinstance(action, Ask) for action in needed)

    def take_outcomes(self) -> tuple[Outcome, ...] | None:
        """What came of its needs; None while some are not answered."""
        outcomes = tuple(need.outcome for need in self.needs if need.outcome is not None)
        if len(outcomes) < len(self.needs):
            return None
        self.needs = ()
        return outcomes

    def rise(self) -> tuple[Outcome, ...]:
        """End its sleep; what came of that."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        self._outbox.unwatch(self)
        return (Done(self._outbox.now - self.asleep_since),)

    def stop_waiting(self) -> None:
        """Withdraw what it waits for; answers that come late are ignored."""
        for need in self.needs:
            self._outbox.withdraw(need.number)
        self.needs = ()
        self.rise()

    def problems(self) -> Iterator[str]:
        """What is wrong with its waiting between steps, if anything."""
        waited = [need for need in self.needs if need.outcome is None]
        if any(self._outbox.awaited.get(need.number) is not need for need in waited):
            yield f"{self}: an effect has another waiter"
        if (self.stage is Stage.ASKING) is not bool(waited):
            yield f"{self}: is {self.stage.value}, and waits for {len(waited)} answers"
        if self.stage is Stage.ASLEEP and not self._is_woken_by_something():
            yield f"{self}: nothing wakes it"

    def _is_woken_by_something(self) -> bool:
        outbox = self._outbox
        return any(alarm.sleeper is self for alarm in outbox.alarms) or any(one is self for _, one in outbox.watchers)


def closed(steps: Generator[Any, Any, Any]) -> Exception | None:
    """End steps where they wait; what they raise over that."""
    try:
        steps.close()
    except Exception as e:
        return e
    return None


def asks_the_same(old: PodInfo, new: PodInfo | None) -> bool:
    """Whether a pod has not changed in anything that a decision may depend on: not in more than its status."""
    if new is None:
        return False
    # A resize has what it takes in its status.
    return old is new or (old.shape.key == new.shape.key and _question(old.pod) == _question(new.pod))


def _question(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0)
    return msgspec.structs.replace(pod, metadata=metadata, status=_NO_STATUS)
