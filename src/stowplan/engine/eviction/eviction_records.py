"""Records of eviction plans under way and of their victims.

    Preemption   begun       the scheduling cycle is still at it
                 clearing    nominations of less important pods to the node are cleared, one after the other
                 others      all victims but the last are evicted, side by side
                 last        the last one is
                 delayed     its evictions are refused again and again: time passes before the preemptor is activated
                 over        kept until the victims are seen to leave

    Eviction     waiting     for its turn: until then it can be called off
                 announcing  the victim's status says why it goes
                 deleting
                 reading     whether the deletion went through is not known: the API server is asked for the pod
                 over

`evictions.py` moves the plans from stage to stage, `victim_evictions.py` the victims. A record hands on what comes for
it (an answer, the end of a patch, an alarm) to the one of the two that moves it.

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections import deque

    from stowplan.api.types import Pod
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.eviction.preemptors import Preemptor
    from stowplan.engine.outbox import Alarm
    from stowplan.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
    from stowplan.framework.handle import EventRecorder
    from stowplan.framework.requests import Outcome, Refused, Unknown


class PlanStage(Enum):
    BEGUN = "begun"
    CLEARING = "clearing"
    OTHERS = "others"
    LAST = "last"
    DELAYED = "delayed"
    OVER = "over"


class EvictionStage(Enum):
    WAITING = "waiting"
    ANNOUNCING = "announcing"
    DELETING = "deleting"
    READING = "reading"
    OVER = "over"


class Result(Enum):
    """How a victim made room."""

    #: It was not on the node any more.
    GONE = auto()
    #: Somebody else is deleting it.
    LEAVING = auto()
    #: It was not bound yet: its binding ends, and it will be tried again.
    BINDING_REJECTED = auto()
    DELETED = auto()


class PlanMover(Protocol):
    """Takes plans from stage to stage."""

    def go_on(self, preemption: Preemption, /) -> None: ...

    def nomination_written(self, preemption: Preemption, failed: Exception | None, /) -> None: ...

    def victim_left(self, preemption: Preemption, uid: str, /) -> None: ...


class EvictionMover(Protocol):
    """Takes evictions from stage to stage."""

    def condition_written(self, eviction: Eviction, failed: Exception | None, /) -> None: ...

    def announced(self, eviction: Eviction, /) -> None: ...

    def answered(self, eviction: Eviction, outcome: Outcome, /) -> None: ...


@dataclass(eq=False, slots=True, kw_only=True)
class Preemption:
    """A plan that is being carried out, until all its victims are seen to leave."""

    owner: PlanMover
    plan: EvictionPlan | GroupEvictionPlan
    preemptor: Preemptor
    #: None where the preemptor's profile records no events.
    recorder: EventRecorder | None
    #: Most important first; without those whose deletion had begun when it was decided.
    victims: tuple[PodInfo, ...]
    #: Less important pods whose nominations to the node are still to be cleared.
    lesser: deque[PodInfo]
    stage: PlanStage = PlanStage.BEGUN
    #: When the stage after BEGUN began, by the stopwatch.
    started: float = 0.0
    #: The pod whose nomination is being cleared.
    clearing: PodInfo | None = None
    #: Whether all nominations could be cleared.
    cleared: bool = True
    #: How many evictions of this stage are not over.
    unfinished: int = 0
    #: UIDs of victims that the API server was told to delete, and that are not seen to leave yet.
    leaving: set[str] = field(default_factory=set)
    #: How the last one made room; None if it did not.
    last_result: Result | None = None
    #: Rings when the delay is over.
    alarm: Alarm | None = None
    #: A more important pod is nominated to the node.
    superseded: bool = False
    #: The API server refused an eviction, or did not answer.
    refused: bool = False
    #: Something failed, or the room is not needed any more: no further eviction begins.
    stopped: bool = False

    @property
    def node_name(self) -> str:
        """Where the victims are; not the name of a node if the preemptor is a group."""
        return self.preemptor.node_name

    @property
    def plugin(self) -> str:
        return self.plan.plugin

    @property
    def running(self) -> bool:
        """Whether evictions are under way, or still to come."""
        return self.stage not in (PlanStage.DELAYED, PlanStage.OVER)

    @property
    def result(self) -> str:
        """How it ended, for metrics and the log."""
        return "error" if self.stopped or not self.cleared else "success"

    @property
    def purpose(self) -> str:
        return f"for {self.preemptor.type} {self.preemptor.key} on node {self.node_name}"

    def __str__(self) -> str:
        return f"preemption {self.purpose}"

    def status_written(self, failed: Exception | None) -> None:
        self.owner.nomination_written(self, failed)

    def woken(self) -> None:
        self.owner.go_on(self)

    def pod_left(self, uid: str) -> None:
        self.owner.victim_left(self, uid)


@dataclass(eq=False, slots=True)
class Eviction:
    """One victim of a plan, until it is evicted or spared."""

    owner: EvictionMover
    preemption: Preemption
    victim: PodInfo
    stage: EvictionStage = EvictionStage.WAITING
    #: The victim as it was known when its turn came.
    pod: Pod | None = None
    #: Why its status could not be written.
    failed: Exception | None = None
    #: The effect that it waits for; 0 while it waits for none.
    number: int = 0
    #: How its deletion ended, while that does not say whether it is gone.
    doubt: Refused | Unknown | None = None

    @property
    def known_pod(self) -> Pod:
        assert self.pod is not None, "its turn has come"
        return self.pod

    def __str__(self) -> str:
        return f"eviction of pod {self.victim.key}"

    def status_written(self, failed: Exception | None) -> None:
        self.owner.condition_written(self, failed)

    def woken(self) -> None:
        self.owner.announced(self)

    def answered(self, number: int, outcome: Outcome, /) -> None:
        self.owner.answered(self, outcome)
