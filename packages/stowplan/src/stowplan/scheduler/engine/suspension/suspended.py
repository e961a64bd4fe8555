"""The record of a scheduling cycle that may be suspended: what it waits for, and how that ends.

A cycle is that of a pod or of a pod group: one entity of the queue, which may have several members. It has steps
(`decision.cycle_steps`); `SuspendedCycles` drives them. The record sends the requests that they need, sleeps, collects
the answers, and withdraws everything if the cycle is aborted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stowplan.kube.api.types import Pod, PodStatus
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps
from stowplan.scheduler.engine.outbox import Outbox, Sleep
from stowplan.scheduler.framework.requests import Ask, Outcome, Request, Wait
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import Part, PluginTimes
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles

_NO_STATUS = PodStatus()


class Stage(Enum):
    LINED_UP = "lined up"
    RUNNING = "running"
    REQUESTING = "requesting"
    ASLEEP = "asleep"
    PORTIONS = "portions"
    RESTARTING = "restarting"
    OVER = "over"


class AwaitedRequest:
    """A request in progress, or its outcome."""

    __slots__ = ("action", "asked", "cycle", "number", "outcome")

    def __init__(self, cycle: SuspendableCycle, action: Request | Ask, asked: float) -> None:
        self.cycle = cycle
        self.action = action
        #: When, by the stopwatch; 0.0 if the attempt is not traced.
        self.asked = asked
        self.number = 0
        self.outcome: Outcome | None = None

    def __str__(self) -> str:
        return str(self.cycle)

    def answered(self, number: int, outcome: Outcome) -> None:
        self.outcome = outcome
        cycle = self.cycle
        if cycle.parts is not None:
            cycle.parts += ((self.action, self.asked, cycle.owner.outbox.now - self.asked, outcome),)
        cycle.owner.answered(cycle)


class CycleHandler(Protocol):
    """Handles how a cycle ends."""

    def finish(self, cycle: SuspendableCycle, result: Any, /) -> None:
        """The steps returned this."""

    def fail(self, cycle: SuspendableCycle, cause: BaseException, /) -> None:
        """The steps raised an unexpected exception; only this attempt fails."""


class SuspendableCycle(PlainStruct, eq=False):
    """The scheduling cycle of a pod or group, from its start to its result."""

    owner: "SuspendedCycles"  # noqa: UP037
    handler: CycleHandler
    framework: Framework
    #: The pod, or the pods of the group that are tried.
    members: tuple[QueuedPod, ...]
    #: When the attempt began, by the stopwatch.
    started: float
    #: "" for a single pod.
    group: str = ""
    #: None until it starts.
    steps: CycleSteps[Any] | None = None
    #: As of the step in which it started, as far as it is known when it first waits: the time, the number of portions
    #: taken by any work, and the plugins that were switched off.
    began: float = 0.0
    portions_before: int = 0
    switched_off: frozenset[str] = frozenset()
    stage: Stage = Stage.RUNNING
    #: What it waits for, in order; answers are collected until all have arrived.
    needs: tuple[AwaitedRequest, ...] = ()
    #: While it waits for objects or a time.
    sleep: Sleep | None = None
    #: Times the plugin calls of a sampled cycle, also after a wait.
    sample: PluginTimes | None = None
    #: The parts of the traced attempt; None if it is not traced.
    parts: list[Part] | None = None
    #: The extenders that it has a slot of, so that it may call them.
    slots: tuple[str, ...] = ()
    #: Its place in the line for these; 0 if it is in none.
    turn: int = 0
    #: Nodes that were reserved for the pod while it waited; None: no reservations.
    held: set[str] | None = None

    @property
    def queued(self) -> QueuedPod:
        """The single pod."""
        return self.members[0]

    @property
    def uid(self) -> str:
        return self.members[0].pod.uid

    @property
    def queue_key(self) -> Hashable:
        """The key of the queue for long work: of several cycles with equal keys, only the first works."""
        return ("pod group", self.group) if self.group else key_of(self.framework, self.queued)

    def __str__(self) -> str:
        if self.group:
            return f"trial of pod group {self.group}"
        return f"suspended cycle of pod {self.queued.key} ({self.uid})"

    def on_wake(self) -> None:
        self.owner.on_wake(self)

    # -- waits --------------------------------------------------------------------------------------------------------

    @property
    def _outbox(self) -> Outbox:
        return self.owner.outbox

    def wait_for(self, needed: tuple[Request | Ask, ...] | Wait) -> bool:
        """Start waiting; return whether an extender is called.

        There is no time limit here: the driver must answer every request, an extender's with an error if it times out.
        """
        if isinstance(needed, Wait):
            self.stage, self.sleep = Stage.ASLEEP, Sleep(self._outbox, needed, self)
            return False
        self.stage = Stage.REQUESTING
        asked = 0.0 if self.parts is None else self.owner.stopwatch.now()
        self.needs = tuple(AwaitedRequest(self, action, asked) for action in needed)
        for need in self.needs:
            need.number = self._outbox.ask(need.action, need)
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
        sleep, self.sleep = self.sleep, None
        return () if sleep is None else (sleep.end(),)

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
        if (self.stage is Stage.REQUESTING) is not bool(waited):
            yield f"{self}: is {self.stage.value}, and waits for {len(waited)} answers"
        if self.stage is Stage.ASLEEP and not self._is_woken_by_something():
            yield f"{self}: nothing wakes it"

    def _is_woken_by_something(self) -> bool:
        outbox = self._outbox
        return any(alarm.target is self for alarm in outbox.alarms) or any(one is self for _, one in outbox.watchers)


def has_same_requirements(old: PodInfo, new: PodInfo | None) -> bool:
    """Whether a pod has changed in nothing that a decision may depend on, that is, at most in its status."""
    if new is None:
        return False
    # For a resize, the status has the used resources.
    return old is new or (old.shape.key == new.shape.key and _question(old.pod) == _question(new.pod))


def _question(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0)
    return msgspec.structs.replace(pod, metadata=metadata, status=_NO_STATUS)


def key_of(framework: Framework, queued: QueuedPod) -> Hashable:
    """A key that is equal for pods that share their work."""
    signature = framework.signature(queued.pod)
    return framework.profile_name, queued.pod.uid if signature is None else signature
