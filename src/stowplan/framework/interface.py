"""The extension points as base classes.

A plugin is a class with a `name`, built with its typed arguments (or None) and a `Handle`; it derives from the class
of each extension point that it implements. Plugins work at one of two levels:

* column level (all in-tree plugins): `filter` and `score` see many nodes at once through a `Nodes` view and return
  arrays of its length;
* node level (`NodeFilterPlugin`, `NodeScorePlugin`): define `filter_node` or `score_node`, and the framework loops
  over the nodes that are still in question.

Everything that may wait for the outside world (permit, pre-bind, bind, post-bind) is asynchronous; the rest is not.

Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stowplan.cluster.object_dependencies import ANY_OBJECT
from stowplan.framework.rejections import Rejections, from_statuses
from stowplan.framework.requests import Done
from stowplan.framework.status import Code, Status, error, unexpected, well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence

    import numpy.typing as npt

    from stowplan.api.meta import ApiStruct
    from stowplan.api.types import Pod, PodGroup
    from stowplan.cluster.node_info import NodeInfo
    from stowplan.cluster.object_dependencies import ObjectDependency
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.cluster.view import Nodes
    from stowplan.config.declaration import PluginDeclaration
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.events import ClusterEventWithHint
    from stowplan.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
    from stowplan.framework.explanations.explanation import Explanation
    from stowplan.framework.explanations.inspection import Inspection
    from stowplan.framework.explanations.preemption import Preemption
    from stowplan.framework.handle import Handle
    from stowplan.framework.placements import Placement, PodGroupAssignments, PodGroupInfo
    from stowplan.framework.pod_shift import PodShift
    from stowplan.framework.requests import Ask, Bind, Outcome, Request, Steps, Wait

MIN_SCORE, MAX_SCORE = 0, 100
_WHOLE = (int, np.integer)


class Reads(Enum):
    """What Filter and Score depend on besides the pod; decides what is recomputed when pods change."""

    #: Node objects alone.
    NODES = "nodes"
    #: Node objects, and how many pods the node in question has and what they request in sum.
    NODE_SUMS = "node sums"
    #: Node objects and the pods of the node in question.
    NODE_PODS = "node pods"
    #: Pods anywhere; the plugin says itself whether its state still holds (`CountsPods`).
    CLUSTER_PODS = "cluster pods"
    #: Unknown: worked out anew in every cycle.
    ANYTHING = "anything"


def _not_inherited(cls: type, promise: str, default: Callable[..., Any], *, unless: tuple[str, ...]) -> None:
    """Take back what a parent promises of methods that a class now has of its own, if it does not promise it anew."""
    own = vars(cls)
    if promise not in own and any(name in own for name in unless):
        setattr(cls, promise, default)


class Plugin(ABC):
    """What every plugin has."""

    name: ClassVar[str]
    #: What an in-tree plugin declares instead of the three attributes below. A plugin that derives from it inherits the
    #: type of arguments and the kinds, and adds to them by these attributes.
    declaration: ClassVar[PluginDeclaration | None] = None
    #: Type of the arguments in the configuration, a msgspec struct or a dataclass; None leaves them as the file has
    #: them.
    args_type: ClassVar[type[Any] | None] = None
    #: Kinds without which the plugin cannot work: it is switched off while the cluster does not serve them.
    needs_kinds: ClassVar[tuple[type[ApiStruct], ...]] = ()
    #: Kinds that the plugin looks up, and goes on without.
    reads_kinds: ClassVar[tuple[type[ApiStruct], ...]] = ()
    #: Keys of the annotations that the plugin reads, of any kind: recordings keep these, of others that they changed.
    reads_annotations: ClassVar[tuple[str, ...]] = ()
    #: The framework takes the word of a plugin only as far as it can (`trusted_reads`).
    reads: Reads = Reads.ANYTHING
    #: Whether a pod on a node can only take room from equal pods without a node, and only there: these find as many
    #: nodes whichever they take first. Asked of plugins whose PreFilter did not skip the pod.
    pods_only_take_room: ClassVar[bool] = False
    #: Title of the plugin's column in tables of scores; "" for its name.
    short_name: ClassVar[str] = ""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def sums_question(self, pod: PodInfo) -> Hashable:
        """For `Reads.NODE_SUMS`: what the answers hang on besides the node; pods that agree in it share them."""
        return pod.shape

    def explanation(self, inspection: Inspection) -> Explanation | None:
        """How the plugin's refusals of one pod are explained, and what would lift them; None: by their reasons alone.

        Asked by `explain` only. What it needs should be imported here, so that scheduling does without.
        """
        return None

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        """The lookup objects that PreFilter, Filter, PreScore and Score depend on for this pod.

        Asked once for all pods of a signature, and for `Reads.NODE_SUMS` once for all with the same question, so they
        must agree in it. What `sign_pod` looks up and puts into its fragment need not be named again. Plugins that
        read `Reads.ANYTHING` are asked anew in each cycle, and not about this.
        """
        return (ANY_OBJECT,)

    def close(self) -> None:  # noqa: B027 - most plugins have nothing to close
        """Called once at shutdown."""


class ReadsNoObjects(Plugin):
    """A plugin that looks up no objects beside nodes and pods, or none beyond what it signs."""

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        return ()


class EnqueueExtensions(ABC):
    """Which cluster changes may make a pod schedulable that this plugin refused."""

    @abstractmethod
    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Anything but success keeps the pod out of the active queue. Must be cheap."""


class QueueSortPlugin(Plugin):
    #: Whether `less` compares priorities, highest first, then timestamps, and nothing else. Then the queue sorts pods
    #: without asking, and knows which of them are equals. Not inherited by a class with a `less` of its own.
    by_priority_and_time: ClassVar[bool] = False

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        if "less" in vars(cls) and "by_priority_and_time" not in vars(cls):
            cls.by_priority_and_time = False

    @abstractmethod
    def less(self, a: Any, b: Any) -> bool:
        """Whether queued pod `a` is scheduled before `b`."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The nodes that remain in question by name; None stands for all."""

    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        """Prepare the attempt. Skip leaves the plugin's Filter out, a rejection ends the attempt."""

    def skips(self, shape: PodShape) -> bool:
        """Whether `pre_filter` says Skip of every pod of the shape, whatever happens.

        Not inherited by a class with a `pre_filter` of its own.
        """
        return False

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        _not_inherited(cls, "skips", PreFilterPlugin.skips, unless=("pre_filter",))


class CountsPods(ABC):
    """For plugins that read pods anywhere (`Reads.CLUSTER_PODS`): whether what they wrote still holds."""

    @abstractmethod
    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        """Whether PreFilter and Filter would say the same again."""

    @abstractmethod
    def score_holds(self, state: CycleState, pod: PodInfo, feasible_moved: bool) -> bool:
        """Whether PreScore and Score would say the same again; `feasible_moved`: the feasible nodes are others."""

    def untouched_by(self, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> bool:
        """Whether all this holds however many pods of these shapes come, wherever, and whichever nodes stay feasible.

        Asked when it holds now. Answer False where that is not certain.
        """
        return False


class PodExtensions(ABC):
    """For PreFilter plugins whose state depends on pods of the node in question."""

    @abstractmethod
    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        """Adjust the (cloned) state as if pods had come to, or left, some nodes."""


class NodePodExtensions(ABC):
    """The same, one pod and one node at a time (upstream's AddPod and RemovePod)."""

    @abstractmethod
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None: ...

    @abstractmethod
    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None: ...


class FilterPlugin(Plugin):
    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        """Which nodes of the view do not take the pod; None when all do, an Error status to end the attempt."""


class NodeFilterPlugin(FilterPlugin):
    """A Filter that looks at one node at a time."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        refused: dict[int, Status] = {}
        for i in nodes.positions():
            status = well_formed(self.filter_node(state, pod, nodes.info(i)))
            if status is None or status.code == Code.Success:
                continue
            if not status.rejected:
                return status if status.code == Code.Error else error(status.message)
            refused[i] = status
        return from_statuses(refused, len(nodes)) if refused else None

    @abstractmethod
    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None: ...


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter decided: a status, which node the pod is nominated to, and which pods are to be evicted.

    `nominated_node_name` None leaves the pod's nomination as it is, "" clears it.
    """

    status: Status
    nominated_node_name: str | None = None
    #: For `PostFilterPlugin.preemption`, which explains the answer.
    detail: Any = None
    #: Carried out by the live scheduler after the decision; only with status Success.
    plan: EvictionPlan | None = None


#: What a PostFilter plugin waits for step by step, and its answer at the end.
PostFilterSteps = Generator["Request | Wait | Ask", "Outcome", PostFilterResult]


class PostFilterPlugin(Plugin):
    #: Whether `post_filter` only computes its answer. Plugins with effects are not called for questions such as
    #: `stowplan explain`, whose answer then names them.
    effect_free = False

    @abstractmethod
    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult | PostFilterSteps:
        """Try to help a pod that fits nowhere; or a generator of steps (`framework.requests`).

        With steps, state and diagnosis are the attempt's own, and the diagnosis is of when the steps began; questions
        are not put to such a plugin.
        """

    def repeats(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> bool:
        """Whether pods that are equal to the one that got this answer, and asked right after it, would get it as well.

        Then they are not asked. Not inherited by a class with a `post_filter` of its own.
        """
        return False

    def repeated(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> None:
        """These pods have got the answer again; for plugins that count or log their answers."""

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        _not_inherited(cls, "repeats", PostFilterPlugin.repeats, unless=("post_filter",))

    def preemption(self, result: PostFilterResult) -> Preemption | None:
        """How the plugin came to its answer: the candidates, or why evicting pods would not help; None: no more to say.

        Asked by `explain` only, while the cluster is as the plugin saw it. What it needs should be imported here, so
        that scheduling does without.
        """
        return None


@dataclass(frozen=True, slots=True)
class PodGroupPostFilterResult:
    """What was decided for a pod group that fits nowhere: Success if it will fit once the plan is carried out."""

    status: Status
    #: Only with status Success.
    plan: GroupEvictionPlan | None = None


PodGroupPostFilterSteps = Generator["Sequence[PodInfo]", Status, PodGroupPostFilterResult]


class PodGroupPostFilterPlugin(Plugin):
    """Asked for a pod group as a whole, behind the gate WorkloadAwarePreemption; DefaultPreemption is the only one."""

    @abstractmethod
    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[PodInfo], *, pods_only_take_room: bool
    ) -> PodGroupPostFilterSteps:
        """Find pods whose eviction lets the group fit; a generator.

        It yields pods on nodes, and is sent the result of a trial of the group with exactly those pods removed. A trial
        may wait for extenders, so the cluster may have changed in between. `pods_only_take_room` says whether a group
        that fits next to some pods also fits next to fewer of them.
        """


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Prepare scoring; `nodes.candidates` marks the feasible ones. Skip leaves the plugin's Score out."""


class ScorePlugin(Plugin):
    #: Whether `normalize` does anything; without it raw scores must lie in 0…100.
    normalizes: ClassVar[bool] = False
    #: Whether scores are in range by construction, so that they need no check.
    in_range: ClassVar[bool] = False

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64] | Status:
        """A score for every node of the view; what it says of nodes that are no candidates is not looked at."""

    def normalize(
        self, state: CycleState, pod: PodInfo, scores: npt.NDArray[np.int64], feasible: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64] | Status:
        """The scores brought into 0…100, judged over the feasible nodes."""
        return scores


class NodeScorePlugin(ScorePlugin):
    """A Score that looks at one node at a time."""

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64] | Status:
        scores = np.zeros(len(nodes), np.int64)
        for i in nodes.positions():
            score = self.score_node(state, pod, nodes.info(i))
            if isinstance(score, Status):
                return score
            if not isinstance(score, _WHOLE):
                raise unexpected("a whole number or a Status", score)
            scores[i] = score
        return scores

    @abstractmethod
    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status: ...


class ReservePlugin(Plugin):
    #: Whether pods are assumed as `assumed` says.
    changes_assumed_pods = False

    def assumed(self, state: CycleState, pod: PodInfo, node_name: str) -> Pod:
        """The pod as it is counted on its node, before Reserve; asked for with `changes_assumed_pods` only."""
        return pod.pod

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo `reserve`; must be idempotent and may come without it."""

    def reserves_nothing(self, shape: PodShape) -> bool:
        """Whether `reserve` always lets pods of the shape have their node, and sets nothing aside but in their state.

        A plugin that has a `pre_bind` as well has nothing to do there for them, either. Not inherited by a class with a
        `reserve` or `unreserve` of its own.
        """
        return False

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        _not_inherited(cls, "reserves_nothing", ReservePlugin.reserves_nothing, unless=("reserve", "unreserve"))


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """Let the pod pass, refuse it, or answer Wait with a timeout in seconds."""

    def quorum(self, pod: PodInfo) -> int | None:
        """How many pods of the pod's group must have nodes for `permit` to let the group's pods pass; None: not said.

        With fewer, `permit` always answers Wait in the same words, and to ask it once is as good as to ask it for each
        pod. With so many it does nothing but let them pass. Not inherited by a class with a `permit` of its own.
        """
        return None

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        _not_inherited(cls, "quorum", PermitPlugin.quorum, unless=("permit",))


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    allow_parallel: bool = False


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Whether `pre_bind` has anything to do (Skip if not), and may do it beside others; no side effects."""
        return PreBindPreFlightResult()

    @abstractmethod
    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, Status | None] | Steps:
        """Prepare the binding: `async def`, or a generator of steps (`framework.requests`)."""


class BindPlugin(Plugin):
    @abstractmethod
    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, Status | None] | Steps:
        """Bind the pod, or answer Skip to leave it to the next plugin; `async def`, or a generator of steps."""


class RequestBinder(BindPlugin):
    """Binds by one request and nothing else: who calls it needs no generator to wait in. Not for users' plugins."""

    @abstractmethod
    def bind_request(self, pod: PodInfo, node_name: str) -> Bind:
        """What is asked of the API server."""

    @staticmethod
    def bind_answer(outcome: Outcome) -> Status | None:
        """What its outcome means."""
        return None if isinstance(outcome, Done) else error(outcome.error)

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        return self.bind_answer((yield self.bind_request(pod, node_name)))


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Coroutine[Any, Any, None] | Steps:
        """Hear that the pod is bound; `async def`, or a generator of steps."""


class SignPlugin(Plugin):
    @abstractmethod
    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """What the plugin reads of a pod beyond its template, as hashable values by name; {} for nothing.

        The template is the pod's namespace and spec without the names of claims; not its labels, annotations and owner.
        What depends on such a name (does the claim exist?) is as good as the name. Pods that agree in the template and
        in all fragments share results. A rejection makes the pod unshareable.
        """

    def signs_nothing(self, shape: PodShape) -> bool:
        """Whether `sign_pod` says {} of every pod of the shape, whatever happens: then it is not asked about them.

        Not inherited by a class with a `sign_pod` of its own.
        """
        return False

    def sign_version(self, pod: PodInfo) -> Hashable:
        """What `sign_pod` depends on beyond the pod's shape: while it is equal, pods of the shape are signed alike.

        None: the plugin does not say, and signs every pod. Not inherited by a class with a `sign_pod` of its own.
        """
        return None

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        _not_inherited(cls, "signs_nothing", SignPlugin.signs_nothing, unless=("sign_pod",))
        _not_inherited(cls, "sign_version", SignPlugin.sign_version, unless=("sign_pod",))


class ShapeSigned(SignPlugin):
    """A plugin that reads nothing of a pod beyond its spec, labels and controller; it need not be asked."""

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        return {}


class TemplateSigned(ShapeSigned):
    """A plugin that reads nothing of a pod beyond its template: pods that differ in labels or claims still share."""


class PlacementGeneratePlugin(Plugin):
    @abstractmethod
    def generate_placements(
        self, group_state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """The sets of nodes within `parent` on which the group may be tried, in that order."""


class PlacementScorePlugin(Plugin):
    @abstractmethod
    def score_placement(
        self, group_state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int | Status:
        """What it is worth to have the group's pods where they were put on trial."""

    def normalize_placements(
        self, group_state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> Sequence[int] | Status:
        """The scores of all placements brought into 0…100, in the same order."""
        return scores


async def awaited(method: Callable[..., Any], *args: Any) -> Any:
    """The answer of a method that is to be `async def`; raise for one that is not."""
    found = method(*args)
    if not isawaitable(found):
        raise unexpected(f"{method.__name__} to be `async def` or a generator of steps", found)
    return await found


def trusted_reads(plugin: Plugin) -> Reads:
    """What a plugin reads, where its word is enough to keep its answers.

    A node-level plugin is only asked about nodes that are in question, so what it said tells nothing of the others. A
    plugin that counts pods anywhere must say when its state no longer holds, and have a step that renews it.
    """
    if isinstance(plugin, NodeFilterPlugin | NodeScorePlugin):
        return Reads.ANYTHING
    if plugin.reads is not Reads.CLUSTER_PODS:
        return plugin.reads
    renews_filter = isinstance(plugin, PreFilterPlugin) or not isinstance(plugin, FilterPlugin)
    renews_score = isinstance(plugin, PreScorePlugin) or not isinstance(plugin, ScorePlugin)
    return plugin.reads if isinstance(plugin, CountsPods) and renews_filter and renews_score else Reads.ANYTHING


#: Extension point (its key in the configuration) -> class that implements it.
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
}


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """The points that a plugin class implements."""
    return frozenset(point for point, base in EXTENSION_POINTS.items() if issubclass(plugin, base))
