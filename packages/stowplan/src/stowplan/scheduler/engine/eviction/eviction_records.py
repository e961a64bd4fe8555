"""Records of eviction plans in progress, of their victims and of whom they are for; and their metrics.

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

Upstream: pkg/scheduler/framework/preemption/executor.go (preemptors: ExecutorPreemptor).
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_groups import is_composite, key_of_group, qualified_name
from stowplan.scheduler.cluster.pod_info import PodInfo, resize_is_deferred
from stowplan.scheduler.cluster.state import ClusterState
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

    owner: "Evictions"  # noqa: UP037
    plan: EvictionPlan | GroupEvictionPlan
    preemptor: "Preemptor"  # noqa: UP037
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

    owner: "VictimEvictions"  # noqa: UP037
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


class EvictionMetrics:
    def __init__(self, metrics: SchedulerMetrics | None, *, version: KubernetesVersion) -> None:
        """None: nothing is counted."""
        self._metrics = metrics
        self._groups_apart = version >= V1_37

    def planned(self, plan: EvictionPlan | GroupEvictionPlan, preemptor: str, disrupted: int) -> None:
        """`disrupted`: the number of units of groups among the victims."""
        if self._metrics is None:
            return
        if disrupted:
            self._metrics.preemption_workload_disruptions.with_label_values(preemptor).observe(disrupted)
        self._metrics.preemption_pdb_violations_total.with_label_values(preemptor).inc(plan.pdb_violations)
        of_group = self._groups_apart and isinstance(plan, GroupEvictionPlan)
        victims = self._metrics.workload_preemption_victims if of_group else self._metrics.preemption_victims
        victims.observe(len(plan.victims))

    def ended(self, result: str, seconds: float, preemptor: str) -> None:
        """A plan was carried out or abandoned."""
        if self._metrics is not None:
            self._metrics.preemption_goroutines_duration_seconds.with_label_values(result).observe(seconds)
            self._metrics.preemption_goroutines_execution_total.with_label_values(result).inc()
            durations = self._metrics.preemption_execution_duration_seconds
            durations.with_label_values(preemptor, result).observe(seconds)

    def eviction_began(self, plugin: str) -> None:
        if self._metrics is not None:
            self._metrics.goroutines.with_label_values(plugin).inc()

    def eviction_ended(self, plugin: str) -> None:
        if self._metrics is not None:
            self._metrics.goroutines.with_label_values(plugin).dec()


#: Stands in for the node name in messages about a group's victims, which may be on any node.
CLUSTER = "cluster"


class Preemptor(Protocol):
    """A pod or pod group that preempts."""

    #: The type in messages.
    type: str

    @property
    def uid(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def metadata(self) -> ObjectMeta:
        """Reference for log lines."""

    @property
    def object(self) -> ApiStruct: ...

    @property
    def priority(self) -> int: ...

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods that need the room; at least one."""

    @property
    def node_name(self) -> str:
        """The node of the victims."""

    def takes_from(self, node_name: str, /) -> bool:
        """Whether pods on that node are among its possible victims."""

    def needs_room(self, state: ClusterState, /) -> bool:
        """Whether the victims' room is still needed."""


class PreemptingPod:
    type = "pod"

    def __init__(self, plan: EvictionPlan) -> None:
        pod = plan.preemptor
        self.pods, self.node_name = (pod,), plan.node_name
        self.uid, self.key, self.priority = pod.uid, pod.key, pod.priority
        self.object = pod.pod
        self.metadata = self.object.metadata
        #: Pods of a group may be evicted from other nodes, too.
        self._nodes = {plan.node_name, *(victim.node_name for victim in plan.victims)}

    def takes_from(self, node_name: str) -> bool:
        return node_name in self._nodes

    def needs_room(self, state: ClusterState) -> bool:
        return self.node_name in state.table.row_of and (_is_pending(state, self.uid) or _is_to_grow(state, self.uid))


class PreemptingGroup:
    def __init__(self, plan: GroupEvictionPlan) -> None:
        self.node_name = CLUSTER
        self.object, self.pods = plan.group, plan.pods
        self.metadata = plan.group.metadata
        self.uid = self.metadata.uid
        self._tree = key_of_group(plan.group)
        self.type = "compositepodgroup" if is_composite(self._tree) else "podgroup"
        self.key = qualified_name(self._tree)
        self.priority = plan.group.spec.priority or 0

    def takes_from(self, node_name: str) -> bool:
        return True

    def needs_room(self, state: ClusterState) -> bool:
        """A gang below its minimum size would not be scheduled, and needs no room."""
        group = state.group_trees.get(self._tree)
        if group is None or group.metadata.uid != self.uid:
            return False
        gang = group.spec.scheduling_policy.gang
        enough = gang is None or state.group_trees.is_ready(self._tree, state.pod_groups.pods)
        return enough and any(_is_pending(state, pod.uid) for pod in self.pods)


def preemptor_of(plan: EvictionPlan | GroupEvictionPlan) -> Preemptor:
    return PreemptingPod(plan) if isinstance(plan, EvictionPlan) else PreemptingGroup(plan)


def _is_to_grow(state: ClusterState, uid: str) -> bool:
    """Whether the pod is on a node that lacks room for its resize."""
    placed = state.placed(uid)
    return placed is not None and not placed.terminating and resize_is_deferred(placed.pod)


def _is_pending(state: ClusterState, uid: str) -> bool:
    """Whether the pod exists, has no node, and is not being deleted."""
    pod = state.newest(uid)
    return pod is not None and pod.metadata.deletion_timestamp is None and state.placed(uid) is None
