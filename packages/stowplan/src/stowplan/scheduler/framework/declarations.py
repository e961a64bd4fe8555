"""What a plugin declares about itself: what it reads of the cluster, of objects and of a pod.

From these declarations follows what has to be computed again (`engine/evaluation/columns.py`), and which pods share
results. All of them are optional, and explained to authors in docs/extend/declarations.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.config.declaration import PluginDeclaration
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.declared_groups import GroupKind
from stowplan.scheduler.cluster.objects import ANY_OBJECT, ObjectDependency
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.framework.batch_state import BatchState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.sources import Source
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanations.explanation import Explanation
    from stowplan.scheduler.framework.explanations.inspection import Inspection


class Reads(Enum):
    """What Filter and Score depend on besides the pod. Determines what is recomputed after pods change.

    That holds for what PreFilter and PreScore leave for them, too: these are not called again either.
    """

    #: Node objects only.
    NODES = "nodes"
    #: Node objects, and the number of pods and the sum of requests on the node being judged.
    NODE_SUMS = "node sums"
    #: Node objects and the pods on the node being judged.
    NODE_PODS = "node pods"
    #: Pods on any node; the plugin reports whether its state is still valid (`CountsPods`).
    CLUSTER_PODS = "cluster pods"
    #: Unknown: recomputed in every cycle.
    ANYTHING = "anything"


#: Declaration -> the methods that it is about. A class that overrides one of these does not inherit the declaration.
ABOUT = {
    "aggregate_key": ("filter", "score"),
    "batch_state": ("pre_filter", "filter", "pre_score", "score", "normalize"),
    "by_priority_and_time": ("less",),
    "guaranteed_feasible_sets": ("pre_filter", "filter"),
    "ignores": ("pre_filter", "pre_score", "sign_pod", "reserve", "unreserve", "pre_bind"),
    "in_range": ("score", "normalize"),
    "normalizes_by_bounds": ("normalize",),
    "pods_only_take_room": ("pre_filter", "filter", "reserve", "permit"),
    "quorum": ("permit",),
    "repeats": ("post_filter",),
    "sign_version": ("sign_pod",),
}


class QuotaUse(PlainStruct, frozen=True, kw_only=True):
    """What a quota's pods use of one resource; CPU is in millicores, memory in bytes."""

    #: Such as the namespace that it is for.
    quota: str
    resource: str
    used: int
    #: What is guaranteed, and the most that may be used; None: no limit.
    least: int
    most: int | None = None
    #: If more is used than is guaranteed: who does not use all of theirs, a few of them.
    lenders: tuple[str, ...] = ()


class Guard(Protocol):
    """Calls a user's plugin, and interrupts it if it does not return (`drivers.hang_guard`)."""

    def call(self, plugin: str, point: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call something of the plugin; raises if that is interrupted."""

    def limited(self, plugin: str, point: str, running: Awaitable[Any], /) -> Awaitable[Any]:
        """What a coroutine returns, whose steps are called through `call`; `boundary.Raised` if it takes too long."""


class Plugin(ABC):
    """Base class of all plugins."""

    #: That of the declaration, if there is one.
    name: ClassVar[str]
    #: What an in-tree plugin declares instead of the three attributes below. A derived plugin inherits the argument
    #: type and the kinds, and can add to them with these attributes.
    declaration: ClassVar[PluginDeclaration | None] = None
    #: Class of the arguments in the configuration, such as a dataclass or msgspec struct; None passes them undecoded.
    args_type: ClassVar[type[Any] | None] = None
    #: Kinds that the plugin requires: it is disabled while the cluster does not serve them.
    needs_kinds: ClassVar[tuple[type[ApiStruct], ...]] = ()
    #: Kinds that the plugin looks up if they are served.
    reads_kinds: ClassVar[tuple[type[ApiStruct], ...]] = ()
    #: Annotation keys that the plugin reads, of any kind. Recordings keep their values; of other annotations only the
    #: fact that they changed.
    reads_annotations: ClassVar[tuple[str, ...]] = ()
    #: Trusted only as far as the plugin's interface allows (`trusted_reads`).
    reads: Reads = Reads.ANYTHING
    #: Whether adding a pod to a node only reduces the room for equal pods, and only on that node. The number of equal
    #: pods that fit then does not depend on which nodes are filled first. Read for plugins whose PreFilter did not skip
    #: the pod.
    pods_only_take_room: ClassVar[bool] = False
    #: For users' plugins, set by the framework: who calls this one's methods (`boundary.call`).
    hang_guard: Guard | None = None
    #: Column title in score tables; "" for the plugin's name.
    short_name: ClassVar[str] = ""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        own = vars(cls)
        if own.get("declaration") is not None and "name" not in own:
            cls.name = own["declaration"].name
        for name, methods in ABOUT.items():
            if name not in own and hasattr(cls, name) and not own.keys().isdisjoint(methods):
                # The default is that of the class that introduces it.
                setattr(cls, name, next(vars(base)[name] for base in reversed(cls.__mro__) if name in vars(base)))

    def ignores(self, shape: PodShape) -> bool:
        """Whether the plugin has nothing to do for pods of the shape, so that it need not be called for them.

        That is: PreFilter returns Skip, and so does PreScore if the plugin counts pods (`CountsPods`); `sign_pod`
        returns {}; Reserve succeeds and keeps nothing outside the pod's CycleState; and PreBind does nothing. Reset in
        a subclass that overrides one of these methods.
        """
        return False

    def aggregate_key(self, pod: PodInfo) -> Hashable:
        """For `Reads.NODE_SUMS`: what the result depends on besides the node. Pods with equal values share results.

        A plugin that defines it reads nothing of the node but its allocatable resources, its number of pods and their
        sums: nodes in the same state share results, too. Reset in a subclass that overrides `filter` or `score`.
        """
        return pod.shape

    def explanation(self, inspection: Inspection) -> Explanation | None:
        """How to explain the plugin's rejections of one pod, and what would resolve them; None: by their reasons alone.

        Called by `explain` only. Import what it needs inside this method, so that scheduling does not load it. In-tree
        plugins are explained by the `explanation.py` in their folder.
        """
        owner = next(base for base in type(self).__mro__ if "declaration" in vars(base))
        module = f"{owner.__module__.rpartition('.')[0]}.explanation"
        if self.declaration is None or module == ".explanation" or find_spec(module) is None:
            return None
        found: Explanation = getattr(import_module(module), f"{owner.__name__}Explanation")(inspection, self)
        return found

    @classmethod
    def group_kind(cls, args: Any) -> GroupKind | None:
        """A custom resource whose objects are groups to be scheduled as a whole, like PodGroups of the API, if any.

        Called with the arguments of each profile, before plugins are built. Such groups are scheduled without the gate
        GenericWorkload, too.
        """
        return None

    def quota_uses(self) -> Iterable[QuotaUse]:
        """How the quotas stand that the plugin keeps, for what-if answers and the page."""
        return ()

    def sources(self) -> Collection[Source]:
        """What is measured for the plugin (`stowplan.controllers.Source`).

        Its objects are looked up like others; their kinds are in `reads_kinds`.
        """
        return ()

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        """The lookup objects that PreFilter, Filter, PreScore and Score depend on for this pod.

        Called once for all pods of a signature, and for `Reads.NODE_SUMS` once for all pods with the same question, so
        the result must be the same for these. Objects that `sign_pod` looks up and includes in its fragment can be
        omitted. Not called for plugins with `Reads.ANYTHING`, which run in every cycle anyway.
        """
        return (ANY_OBJECT,)

    def close(self) -> None:  # noqa: B027 - most plugins have nothing to close
        """Release resources; called once at shutdown, or after the profile was replaced."""


class ReadsNoObjects(Plugin):
    """A plugin that looks up no objects besides nodes and pods, or only those that it includes in its signature."""

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        return ()


class SignPlugin(Plugin):
    @abstractmethod
    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """What the plugin reads of a pod beyond its template, as hashable values by name; {} for nothing.

        The template is the pod's namespace and spec without the names of claims; labels, annotations and owner are not
        part of it. Facts that depend on a claim's name (does the claim exist?) can stand in for the name. Pods with
        equal templates and fragments share results. Return a rejection if the pod cannot share results.
        """

    def sign_version(self, pod: PodInfo) -> Hashable:
        """The version of what `sign_pod` depends on beyond the pod's shape.

        Pods of a shape keep their signature while it is equal. None: unknown, `sign_pod` is called for every pod. Reset
        in a subclass that overrides `sign_pod`.
        """
        return None


class ShapeSigned(SignPlugin):
    """A plugin that reads nothing of a pod beyond its spec, labels and controller. `sign_pod` is not called."""

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        return {}


class TemplateSigned(ShapeSigned):
    """A plugin that reads nothing of a pod beyond its template.

    Pods with different labels or claims still share results.
    """


class FeasibleSets(NamedTuple):
    """Rows that pass while pods are placed: all of at least one of these masks, if pods only take room.

    At any time: once some nodes are gone, while their pods are placed again.
    """

    sets: Sequence[Mask]
    #: Whether a row that got a pod since may be refused for another reason than its room.
    pods_matter: bool


class CountsPods(Plugin):
    """For plugins that read pods on any node (`Reads.CLUSTER_PODS`): reports whether their state is still valid."""

    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        """Whether PreFilter and Filter would return the same results again."""
        return False

    def score_holds(self, state: CycleState, pod: PodInfo, feasible_moved: bool) -> bool:
        """Whether PreScore and Score would return the same again; `feasible_moved`: the feasible nodes changed."""
        return False

    def guaranteed_feasible_sets(self, state: CycleState, pod: PodInfo, lost: int) -> FeasibleSets | None:
        """What passes Filter once `lost` nodes are gone; None: unknown. For in-tree plugins."""
        return None

    def batch_state(self, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> BatchState | None:
        """The results for pods of these shapes, equal to this one, that are placed one after the other.

        `BatchState()`: they stay as they are, whichever nodes are feasible. None: unknown. Called after the pod was
        filtered and scored. Other results are not checked, so only in-tree plugins may return them.
        """
        return None
