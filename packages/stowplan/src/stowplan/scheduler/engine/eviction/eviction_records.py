"""Records of eviction plans in progress and of their victims.

    PlanRecord    begun       the scheduling cycle is not finished yet
                  clearing    nominations of less important pods to the node are cleared, one after the other
                  others      all victims but the last are evicted, in parallel
                  last        the last victim is evicted
                  delayed     its evictions are refused repeatedly: wait before activating the preemptor
                  over        kept until the victims have left

    VictimRecord  waiting     for its turn: can still be cancelled
                  announcing  the reason is being written to the victim's status
                  deleting
                  reading     the outcome of the deletion is unknown: read the pod from the API server
                  over

`evictions.py` advances the plans, `victim_evictions.py` the victims. A record forwards what arrives for it (an answer,
the end of a patch, an alarm) to the one that advances it.

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.eviction.preemptors import Preemptor
from stowplan.scheduler.engine.outbox import Alarm
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.handle import EventRecorder
from stowplan.scheduler.framework.requests import Outcome, Refused, Unknown

if TYPE_CHECKING:
    from stowplan.scheduler.engine.eviction.evictions import Evictions
    from stowplan.scheduler.engine.eviction.victim_evictions import VictimEvictions


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
    """How the room of a victim was freed."""

    #: The pod was no longer on the node.
    GONE = auto()
    #: Another client is deleting the pod.
    LEAVING = auto()
    #: The pod was not bound yet: its binding is rejected, and it will be retried.
    BINDING_REJECTED = auto()
    DELETED = auto()


class PlanRecord(PlainStruct, eq=False, kw_only=True):
    """A plan that is being carried out, until all its victims have left."""

    owner: Evictions
    plan: EvictionPlan | GroupEvictionPlan
    preemptor: Preemptor
    #: None if the preemptor's profile records no events.
    recorder: EventRecorder | None
    #: Most important first; without those that were already being deleted at the time of the decision.
    victims: tuple[PodInfo, ...]
    #: Less important pods whose nominations to the node have yet to be cleared.
    lesser: deque[PodInfo]
    stage: PlanStage = PlanStage.BEGUN
    #: When the stage after BEGUN began, by the stopwatch.
    started: float = 0.0
    #: The pod whose nomination is being cleared.
    clearing: PodInfo | None = None
    #: Whether all nominations were cleared.
    cleared: bool = True
    #: Number of unfinished evictions in this stage.
    unfinished: int = 0
    #: UIDs of victims that were deleted in the API server, and have not left yet.
    leaving: set[str] = field(default_factory=set)
    #: The result of the last victim; None if it failed.
    last_result: Result | None = None
    #: Fires at the end of the delay.
    alarm: Alarm | None = None
    #: A more important pod was nominated to the node.
    superseded: bool = False
    #: The API server refused an eviction, or did not answer.
    refused: bool = False
    #: An eviction failed, or the room is no longer needed: no further eviction is started.
    stopped: bool = False

    @property
    def node_name(self) -> str:
        """The victims' node; not a node name if the preemptor is a group."""
        return self.preemptor.node_name

    @property
    def plugin(self) -> str:
        return self.plan.plugin

    @property
    def running(self) -> bool:
        """Whether evictions are in progress, or still to come."""
        return self.stage not in (PlanStage.DELAYED, PlanStage.OVER)

    @property
    def result(self) -> str:
        """The result of the plan, for metrics and the log."""
        return "error" if self.stopped or not self.cleared else "success"

    @property
    def purpose(self) -> str:
        return f"for {self.preemptor.type} {self.preemptor.key} on node {self.node_name}"

    def __str__(self) -> str:
        return f"preemption {self.purpose}"

    def status_written(self, failed: Exception | None) -> None:
        self.owner.nomination_written(self, failed)

    def on_wake(self) -> None:
        self.owner.go_on(self)

    def pod_left(self, uid: str) -> None:
        self.owner.victim_left(self, uid)


class VictimRecord(PlainStruct, eq=False):
    """One victim of a plan, until it is evicted or spared."""

    owner: VictimEvictions
    preemption: PlanRecord
    victim: PodInfo
    stage: EvictionStage = EvictionStage.WAITING
    #: The victim as of the time when its eviction began.
    pod: Pod | None = None
    #: Why its status could not be written.
    failed: Exception | None = None
    #: The effect that it waits for; 0 if none.
    number: int = 0
    #: The outcome of its deletion, if that leaves open whether it was deleted.
    doubt: Refused | Unknown | None = None

    @property
    def known_pod(self) -> Pod:
        assert self.pod is not None, "its turn has come"
        return self.pod

    def __str__(self) -> str:
        return f"eviction of pod {self.victim.key}"

    def status_written(self, failed: Exception | None) -> None:
        self.owner.condition_written(self, failed)

    def on_wake(self) -> None:
        self.owner.announced(self)

    def answered(self, number: int, outcome: Outcome, /) -> None:
        self.owner.answered(self, outcome)
