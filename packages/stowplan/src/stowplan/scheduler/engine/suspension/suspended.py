"""Suspended work: what it waits for, and how it ends.

A scheduling cycle (`suspended_cycles`) or a group's trial (`groups.suspended_groups`) that has to wait yields what it
needs, and is resumed with the outcomes. Its record derives from `Suspended`, which sends the requests, sleeps, collects
the answers, and withdraws everything if the work is aborted.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from stowplan.kube.api.types import Pod, PodStatus
from stowplan.scheduler.framework.requests import Ask, Done, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.outbox import Alarm, Outbox
    from stowplan.scheduler.framework.requests import Outcome, Request

_NO_STATUS = PodStatus()


class Stage(Enum):
    LINED_UP = "lined up"
    RUNNING = "running"
    ASKING = "asking"
    ASLEEP = "asleep"
    PORTIONS = "portions"
    RESTARTING = "restarting"
    OVER = "over"


class AwaitedRequest:
    """A request in progress, or its outcome."""

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
    """Resumes suspended work."""

    def answered(self, work: Any, /) -> None:
        """One of the work's needs is answered."""

    def woken(self, work: Any, /) -> None:
        """What the work slept for has happened."""

    def take_portion(self, work: Any, /) -> None:
        """The next portion of long work is due."""

    def put_back(self, work: Any, /) -> None:
        """An equal piece of work has finished: return the pods to the queue."""


class Suspended:
    """One piece of work that may wait."""

    __slots__ = ("_outbox", "alarm", "asleep_since", "needs", "owner", "stage")

    def __init__(self, owner: Owner, outbox: Outbox) -> None:
        self.owner = owner
        self._outbox = outbox
        self.stage = Stage.RUNNING
        #: What it waits for, in order; answers are collected until all have arrived.
        self.needs: tuple[AwaitedRequest, ...] = ()
        self.alarm: Alarm | None = None
        #: When it started to wait for objects or a time.
        self.asleep_since = 0.0

    def woken(self) -> None:
        self.owner.woken(self)

    def take_portion(self) -> None:
        self.owner.take_portion(self)

    def put_back(self) -> None:
        self.owner.put_back(self)

    def wait_for(self, needed: tuple[Request | Ask, ...] | Wait) -> bool:
        """Start waiting; return whether an extender is called."""
        if isinstance(needed, Wait):
            self.stage, self.asleep_since = Stage.ASLEEP, self._outbox.now
            if needed.seconds is not None:
                self.alarm = self._outbox.wake(self._outbox.now + needed.seconds, self)
            for key in sorted(needed.keys):
                self._outbox.watch(key, self)
            return False
        self.stage = Stage.ASKING
        self.needs = tuple(AwaitedRequest(self) for _ in needed)
        for need, action in zip(self.needs, needed, strict=True):
            need.number = self._outbox.ask(action, need)
        return any(isinstance(action, Ask) for action in needed)

    def take_outcomes(self) -> tuple[Outcome, ...] | None:
        """The outcomes of its needs; None while some are missing."""
        outcomes = tuple(need.outcome for need in self.needs if need.outcome is not None)
        if len(outcomes) < len(self.needs):
            return None
        self.needs = ()
        return outcomes

    def end_sleep(self) -> tuple[Outcome, ...]:
        """End its sleep and return the outcome."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        self._outbox.unwatch(self)
        return (Done(self._outbox.now - self.asleep_since),)

    def stop_waiting(self) -> None:
        """Withdraw its requests; late answers are ignored."""
        for need in self.needs:
            self._outbox.withdraw(need.number)
        self.needs = ()
        self.end_sleep()

    def problems(self) -> Iterator[str]:
        """Violated invariants of its waits."""
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


def has_same_requirements(old: PodInfo, new: PodInfo | None) -> bool:
    """Whether a pod has changed in nothing that a decision may depend on, that is, at most in its status."""
    if new is None:
        return False
    # For a resize, the status has the used resources.
    return old is new or (old.shape.key == new.shape.key and _question(old.pod) == _question(new.pod))


def _question(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0)
    return msgspec.structs.replace(pod, metadata=metadata, status=_NO_STATUS)
