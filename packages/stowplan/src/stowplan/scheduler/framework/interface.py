"""The extension points, as base classes.

A plugin is a class with a `name`. It is built with its typed arguments (or None) and a `Handle`, and derives from the
class of each extension point that it implements. Filter and Score exist at two levels:

* column level (all in-tree plugins): `filter` and `score` get many nodes at once as a `Nodes` view and return arrays of
  the same length;
* node level (`NodeFilterPlugin`, `NodeScorePlugin`): implement `filter_node` or `score_node`, and the framework loops
  over the remaining nodes.

PreBind, Bind and PostBind may do I/O and are asynchronous (or generators of steps, see `framework.requests`); all other
points are synchronous.

Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import NodeInfo, Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods, Plugin, Reads
from stowplan.scheduler.framework.diagnosis import Diagnosis, Rejections, from_statuses
from stowplan.scheduler.framework.events import ClusterEventWithHint
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.requests import Ask, Bind, Done, Outcome, Request, Steps, Wait, is_retriable
from stowplan.scheduler.framework.status import Code, Status, error, unexpected, well_formed

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanations.preemption import Preemption


MIN_SCORE, MAX_SCORE = 0, 100
_WHOLE = (int, np.integer)


class EnqueueExtensions(ABC):
    """Registers the cluster events that may make pods schedulable that this plugin rejected."""

    @abstractmethod
    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Any status but success keeps the pod out of the active queue. Must be cheap."""


class QueueSortPlugin(Plugin):
    #: Whether `less` compares priorities (highest first), then timestamps, and nothing else. The queue can then sort
    #: pods without calling it, and knows which pods are equals. Reset in a subclass that overrides `less`.
    by_priority_and_time: ClassVar[bool] = False

    @abstractmethod
    def less(self, a: Any, b: Any) -> bool:
        """Whether queued pod `a` should be scheduled before `b`."""


class PreFilterResult(PlainStruct, frozen=True):
    """The names of the nodes to consider; None for all nodes."""

    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        """Prepare the attempt. Skip disables the plugin's Filter for this pod; a rejection ends the attempt."""


class PodExtensions(ABC):
    """For PreFilter plugins whose state depends on the pods of the node being judged."""

    @abstractmethod
    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        """Adjust the (cloned) state as if pods were added to, or removed from, some nodes."""


class NodePodExtensions(ABC):
    """Pod extensions for one pod and one node at a time (upstream's AddPod and RemovePod)."""

    @abstractmethod
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None: ...

    @abstractmethod
    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None: ...


class FilterPlugin(Plugin):
    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        """The nodes of the view that do not fit the pod; None if all fit; an Error status ends the attempt."""


class NodeFilterPlugin(FilterPlugin):
    """A Filter plugin that judges one node at a time."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        refused: dict[int, Status] = {}
        judge = self.filter_node
        for i in nodes.positions():
            status = well_formed(judge(state, pod, nodes.info(i)), by=judge)
            if status is None or status.code == Code.Success:
                continue
            if not status.rejected:
                return status if status.code == Code.Error else error(status.message)
            refused[i] = status
        return from_statuses(refused, len(nodes)) if refused else None

    @abstractmethod
    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None: ...


class PostFilterResult(PlainStruct, frozen=True):
    """The result of a PostFilter plugin: a status, the nominated node, and the pods to evict.

    A `nominated_node_name` of None keeps the pod's nomination, "" clears it.
    """

    status: Status
    nominated_node_name: str | None = None
    #: Passed to `PostFilterPlugin.preemption`, which explains the result.
    detail: Any = None
    #: Carried out by the live scheduler after the decision; only valid with status Success.
    plan: EvictionPlan | None = None


#: A generator of what a PostFilter plugin waits for; its return value is the result.
PostFilterSteps = Generator["Request | Wait | Ask", "Outcome", PostFilterResult]


class PostFilterPlugin(Plugin):
    #: Whether `post_filter` has no side effects. Other plugins are not called for questions such as `stowplan explain`;
    #: the answer lists them.
    effect_free = False

    @abstractmethod
    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult | PostFilterSteps:
        """Try to make an unschedulable pod schedulable. May return a generator of steps (`framework.requests`).

        With steps, state and diagnosis belong to the attempt, and the diagnosis is of the time when the steps began.
        Such a plugin is not called for questions.
        """

    def repeats(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> bool:
        """Whether pods equal to the one with this result would get it, too, if called right after it.

        They are then not called. Reset in a subclass that overrides `post_filter`.
        """
        return False

    def repeated(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> None:
        """Notifies that these pods got the same result; for plugins that count or log their results."""

    def preemption(self, result: PostFilterResult) -> Preemption | None:
        """Explain the result: the candidates, or why preemption does not help; None: nothing to add.

        Called by `explain` only, while the cluster is as it was in the call. Import what it needs inside this method,
        so that scheduling does not load it.
        """
        return None


class PlacementFeasiblePlugin(Plugin):
    """Asked before the first and after each pod of a group on trial, since 1.37. GangScheduling is the only one."""

    @abstractmethod
    def placement_feasible(self, group: str, scheduled: int, remaining: int) -> Status | None:
        """Whether a group with so many scheduled pods can be scheduled; Wait: not yet, but with the remaining ones."""


class ResizeVerdict(PlainStruct, frozen=True):
    """Why a pod that is to grow on its node is not scheduled: it never is. Perhaps others are evicted for it."""

    status: Status
    plan: EvictionPlan | None = None


class ResizeJudge(Plugin):
    """Judges pods whose resize is deferred, since 1.37. DeferredPodScheduling is the only one."""

    @abstractmethod
    def judge_resize(self, pod: PodInfo, *, asking: bool = False) -> ResizeVerdict:
        """`asking`: for a question, which is not counted."""


class PodGroupPostFilterResult(PlainStruct, frozen=True):
    """The result for an unschedulable pod group: Success if the group will fit once the plan has been carried out."""

    status: Status
    #: Only with status Success.
    plan: GroupEvictionPlan | None = None
    #: With status Success, from 1.37 on: UID of a pod -> its nominated node; None: where the trial without the first
    #: pods proposed placed them.
    nominations: Mapping[str, str] | None = None


PodGroupPostFilterSteps = Generator["Sequence[PodInfo]", Status, PodGroupPostFilterResult]


class PodGroupPostFilterPlugin(Plugin):
    """Called for a pod group that cannot be scheduled, as a whole.

    Until 1.36, behind the gate WorkloadAwarePreemption, there is one, wherever a profile enables it. Since 1.37, those
    of the profile's podGroupPostFilter are called in order, until one does not return Unschedulable.
    """

    @abstractmethod
    def pod_group_post_filter(
        self, group: AnyGroup, pods: Sequence[PodInfo], *, pods_only_take_room: bool
    ) -> PodGroupPostFilterResult | PodGroupPostFilterSteps:
        """Find pods whose eviction lets the group fit; may be a generator, which returns the result.

        It yields pods on nodes, and receives the result of trying the group with exactly those pods removed. From 1.37
        on, only the first trial decides on nodes; the others are whether its pods still fit there. A trial may wait
        for extenders, so the cluster may have changed in between. `pods_only_take_room`: whether a group that fits next
        to some pods also fits next to fewer of them.
        """


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Prepare scoring. `nodes.candidates` marks the feasible nodes.

        Skip disables the plugin's Score for this pod.
        """


class ScorePlugin(Plugin):
    #: Whether the class defines `normalize`; if not, raw scores must be within 0…100. Set by the framework.
    normalizes: bool = False
    #: Whether scores are always in range, so that they are not checked.
    in_range: ClassVar[bool] = False
    #: Whether `normalize` depends on the feasible nodes only through their lowest and highest score.
    normalizes_by_bounds: ClassVar[bool] = False

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        """Score every node of the view. Scores of nodes that are not candidates are ignored."""

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        """Bring the scores into 0…100, based on the feasible nodes."""
        return scores


class NodeScorePlugin(ScorePlugin):
    """A Score plugin that scores one node at a time."""

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        scores = np.zeros(len(nodes), np.int64)
        for i in nodes.positions():
            score = self.score_node(state, pod, nodes.info(i))
            if isinstance(score, Status):
                return score
            if not isinstance(score, _WHOLE):
                raise unexpected("a whole number or a Status", score, self.score_node)
            scores[i] = score
        return scores

    @abstractmethod
    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status: ...


class ReservePlugin(Plugin):
    #: Whether `assumed` is called before Reserve.
    changes_assumed_pods = False

    def assumed(self, state: CycleState, pod: PodInfo, node_name: str) -> Pod:
        """The pod as it should be accounted on its node, before Reserve. Only called with `changes_assumed_pods`."""
        return pod.pod

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent, and may be called without a prior `reserve`."""


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """Approve the pod, reject it, or return Wait with a timeout in seconds."""

    def quorum(self, pod: PodInfo) -> int | None:
        """The number of the group's pods that need nodes before `permit` approves the group; None: unknown.

        Below that number `permit` always returns the same Wait, so one call is enough for all pods of the group. From
        that number on it only approves. Reset in a subclass that overrides `permit`.
        """
        return None


class PreBindPreFlightResult(PlainStruct, frozen=True):
    allow_parallel: bool = False


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Whether `pre_bind` has anything to do (Skip if not), and may run in parallel with others. No side effects."""
        return PreBindPreFlightResult()

    @abstractmethod
    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, Status | None] | Steps:
        """Prepare the binding: `async def`, or a generator of steps (`framework.requests`)."""


class BindPlugin(Plugin):
    @abstractmethod
    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, Status | None] | Steps:
        """Bind the pod, or return Skip to leave it to the next plugin; `async def`, or a generator of steps."""


class RequestBinder(BindPlugin):
    """A Bind plugin that sends one request: no generator is needed to wait for it, unless it has to be retried."""

    #: Seconds before each retry of a request that the API server could not carry out.
    retry_delays: tuple[float, ...] = ()

    @abstractmethod
    def bind_request(self, pod: PodInfo, node_name: str) -> Bind:
        """The request that binds the pod."""

    def bind_answer(self, outcome: Outcome) -> Status | None:
        """The status for the request's outcome."""
        return None if isinstance(outcome, Done) else error(outcome.error)

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        return (yield from self.bind_again((yield self.bind_request(pod, node_name)), pod, node_name))

    def bind_again(self, outcome: Outcome, pod: PodInfo, node_name: str) -> Steps:
        """Continue after the outcome of the first request."""
        for delay in self.retry_delays:
            if not is_retriable(outcome):
                break
            yield Wait(seconds=delay)
            outcome = yield self.bind_request(pod, node_name)
        return self.bind_answer(outcome)


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, None] | Steps:
        """Called after the pod is bound; `async def`, or a generator of steps."""


class PodGroupInfo(PlainStruct, frozen=True):
    """A group of pods that are scheduled together."""

    namespace: str
    name: str
    #: Members without a node, in the order in which they are tried; of a group of groups, those of its whole tree.
    unscheduled_pods: tuple[PodInfo, ...] = ()
    #: The group's key (`cluster.group_trees`); "": it is a PodGroup.
    tree: str = ""

    @property
    def key(self) -> str:
        return self.tree or f"{self.namespace}/{self.name}"


class Placement(PlainStruct, frozen=True, eq=False):
    """The nodes on which a group is tried."""

    nodes: Nodes
    name: str = ""

    def restricted(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]], name: str) -> Placement:
        """The subset of this placement that a mask over its nodes marks."""
        positions = np.flatnonzero(mask)
        rows = positions if self.nodes.rows is None else self.nodes.rows[positions]
        return Placement(self.nodes.restricted(rows), name)


class ProposedAssignment(PlainStruct, frozen=True):
    """A pod and the node that it would get."""

    pod: PodInfo
    node_name: str


class PodGroupAssignments(PlainStruct, frozen=True):
    """Where a group's pods would go within a placement."""

    placement: Placement
    proposed: tuple[ProposedAssignment, ...] = ()


class PlacementGeneratePlugin(Plugin):
    @abstractmethod
    def generate_placements(
        self, group_state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """The sets of nodes within `parent` to try the group on, in order."""


class PlacementScorePlugin(Plugin):
    @abstractmethod
    def score_placement(
        self, group_state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int | Status:
        """Score a placement, given the nodes that the group's pods got in the trial."""

    def normalize_placements(
        self, group_state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> Sequence[int] | Status:
        """Bring the scores of all placements into 0…100, in the same order."""
        return scores


def trusted_reads(plugin: Plugin) -> Reads:
    """What a plugin reads, as far as its declaration is sufficient to keep its results.

    A node-level plugin is only called for remaining nodes, so it has no results for the others. A plugin that counts
    pods on any node must report when its state becomes invalid, and have an extension point that renews it.
    """
    if isinstance(plugin, NodeFilterPlugin | NodeScorePlugin):
        return Reads.ANYTHING
    if plugin.reads is not Reads.CLUSTER_PODS:
        return plugin.reads
    renews_filter = isinstance(plugin, PreFilterPlugin) or not isinstance(plugin, FilterPlugin)
    renews_score = isinstance(plugin, PreScorePlugin) or not isinstance(plugin, ScorePlugin)
    return plugin.reads if isinstance(plugin, CountsPods) and renews_filter and renews_score else Reads.ANYTHING


#: Extension point (the key in the configuration) -> class that implements it.
EXTENSION_POINTS: dict[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
    "podGroupPostFilter": PodGroupPostFilterPlugin,
}


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements."""
    bases = plugin.__mro__
    return frozenset(point for point, base in EXTENSION_POINTS.items() if base in bases)
