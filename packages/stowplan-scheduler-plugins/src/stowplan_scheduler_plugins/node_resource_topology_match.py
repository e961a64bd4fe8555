"""Place pods only where the kubelet can give them resources of one NUMA cell, and score nodes by their cells.

Only nodes with policy single-numa-node refuse pods. An agent on each node publishes its cells in a NodeResourceTopology
object; `topology_caches` says what is known of pods that were placed since.

Upstream: pkg/noderesourcetopology in scheduler-plugins.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from stowplan.plugins import (
    ASSIGNED_POD,
    MAX_SCORE,
    NODE,
    Action,
    ClusterEventWithHint,
    CopiedAtBeginning,
    CycleState,
    EnqueueExtensions,
    Handle,
    NodeFilterPlugin,
    NodeInfo,
    Nodes,
    NodeScorePlugin,
    PodInfo,
    PostBindPlugin,
    PreFilterPlugin,
    Reason,
    ReservePlugin,
    Status,
    Steps,
    TemplateSigned,
    on,
    unschedulable,
)
from stowplan.plugins.arguments import (
    BOOL,
    INT64,
    Args,
    FeatureGates,
    Pointer,
    Slice,
    Struct,
    documented,
    invalid,
    kind,
    named_string,
    not_omitted,
    struct,
)
from stowplan.plugins.objects import qos_class
from stowplan_scheduler_plugins.node_resources_allocatable import RESOURCE, WeightedResource
from stowplan_scheduler_plugins.node_topologies import (
    POD,
    SINGLE,
    Settings,
    Topology,
    effective_request,
    is_exclusive,
    requests_devices,
    requests_of,
    settings_of,
)
from stowplan_scheduler_plugins.numa_fit import fitting_cell, take
from stowplan_scheduler_plugins.numa_scores import CELL_SCORES, fewest_cells, mean, worst_cell
from stowplan_scheduler_plugins.topology_caches import (
    ALL,
    AUTODETECT,
    ONLY_EXCLUSIVE,
    ONLY_RESOURCES,
    Cache,
    DiscardReserved,
    Known,
    OverReserve,
    Passthrough,
)

LEAST_NUMA_NODES = "LeastNUMANodes"
_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated", LEAST_NUMA_NODES)

STALE = Reason("StaleTopology", "invalid node topology data")
POD_NOT_ALIGNED = Reason("PodNotAligned", "cannot align pod")
NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align container")
INIT_NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align init container")
SIDECAR_NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align sidecar container")


class ScoringStrategy(msgspec.Struct, frozen=True):
    type: str = ""
    resources: tuple[WeightedResource, ...] = ()


class CacheSettings(msgspec.Struct, frozen=True, rename="camel"):
    foreign_pods_detect: str = ALL
    resync_method: str = AUTODETECT
    informer_mode: str = "Dedicated"
    resync_scope: str | None = None


_SCORING = struct(
    "ScoringStrategy",
    type=documented(named_string("v1.ScoringStrategyType"), "How cells are scored.", choices=_STRATEGIES),
    resources=documented(Slice(RESOURCE), "Weights of resources."),
)
_CACHE = struct(
    "NodeResourceTopologyCache",
    foreignPodsDetect=documented(
        Pointer(named_string("v1.ForeignPodsDetectMode")),
        "Which pods of other schedulers make a node unknown.",
        choices=("None", ALL, ONLY_EXCLUSIVE),
    ),
    resyncMethod=documented(
        Pointer(named_string("v1.CacheResyncMethod")),
        "Which pods a fingerprint is made of.",
        choices=(AUTODETECT, ALL, ONLY_EXCLUSIVE),
    ),
    informerMode=documented(
        Pointer(named_string("v1.CacheInformerMode")),
        "Whether pods count that are not running.",
        choices=("Shared", "Dedicated"),
    ),
    resyncScope=documented(
        Pointer(named_string("v1.CacheResyncScope")),
        "Whether changed settings of a kubelet are followed.",
        choices=(ALL, ONLY_RESOURCES),
    ),
)


class NodeResourceTopologyMatchArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeResourceTopologyMatchArgs",
        scoringStrategy=documented(Pointer(_SCORING), "Which nodes are better."),
        cacheResyncPeriodSeconds=documented(
            not_omitted(Pointer(INT64)), "How often what was placed is compared with what agents publish; 0: never."
        ),
        discardReservedNodes=documented(BOOL, "Do not use nodes with pods that are about to be bound."),
        cache=documented(Pointer(_CACHE), "Details of the comparison."),
        preemptionMode=documented(
            Pointer(named_string("v1.PreemptionMode")), "Without effect.", choices=("Enabled", "Disabled")
        ),
    )

    scoring_strategy: ScoringStrategy | None = None
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: CacheSettings = CacheSettings()
    preemption_mode: str = "Disabled"

    def completed(self, features: FeatureGates) -> "NodeResourceTopologyMatchArgs":
        given = ScoringStrategy("LeastAllocated") if self.scoring_strategy is None else self.scoring_strategy
        resources = given.resources or (WeightedResource("cpu", 1), WeightedResource("memory", 1))
        weighted = tuple(WeightedResource(one.name, one.weight or 1) for one in resources)
        return msgspec.structs.replace(self, scoring_strategy=ScoringStrategy(given.type, weighted))

    def validate_at_build(self) -> Iterator[str]:
        strategy = self.scoring_strategy
        if strategy is not None and strategy.type not in _STRATEGIES:
            yield invalid("scoringStrategy.type", strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in ("Enabled", "Disabled"):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")


class NodeResourceTopologyMatch(
    PreFilterPlugin, NodeFilterPlugin, NodeScorePlugin, ReservePlugin, PostBindPlugin, TemplateSigned, EnqueueExtensions
):
    name = "NodeResourceTopologyMatch"
    short_name = "numa"
    args_type = NodeResourceTopologyMatchArgs
    needs_kinds = (Topology,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cache: Cache | None = None
        self._weights = {one.name: one.weight for one in args.scoring_strategy.resources}
        self._placed = -1
        self._synchronized = 0.0
        # Reservations are undone with the transaction in which they were made.
        handle.register_participant(self.name, CopiedAtBeginning(self._reservations, self._restore))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        # A point of the reference, for its preemptionMode alone.
        return None

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        qos = qos_class(pod)
        if qos == "BestEffort" and not requests_devices(pod):
            return None
        known = self._known(node.name)
        if not known.fresh:
            return unschedulable(STALE)
        if known.topology is None:
            return None
        settings = settings_of(known.topology)
        if settings.policy != SINGLE:
            return None
        reason = _misaligned(known, settings, pod, node, qos)
        if reason is None:
            return None
        if not state.asking:
            self._topologies.refused(node.name)
        return unschedulable(reason)

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        qos = qos_class(pod)
        if qos != "Guaranteed":
            return MAX_SCORE
        known = self._known(node.name)
        if known.topology is None:
            return 0
        settings, cells = settings_of(known.topology), known.cells()
        spec, strategy = pod.pod.spec, self.args.scoring_strategy.type
        if settings.scope == POD:
            requests = [effective_request(pod)]
        else:
            requests = [requests_of(container) for container in (*spec.init_containers, *spec.containers)]
        if strategy == LEAST_NUMA_NODES:
            return fewest_cells(requests, cells, qos, settings.max_cells)
        if settings.policy != SINGLE:
            return 0
        return mean([worst_cell(CELL_SCORES[strategy], wanted, cells, self._weights) for wanted in requests])

    # --- what is known of nodes

    @property
    def _topologies(self) -> Cache:
        """Made at the first use, when the objects are there."""
        if self._cache is None:
            objects, settings = self.handle.cluster.objects, self.args.cache

            def lookup(node: str) -> Any:
                return objects.get(Topology, node)

            if self.args.discard_reserved_nodes:
                self._cache = DiscardReserved(lookup)
            elif self.args.cache_resync_period_seconds > 0:
                known, scope = objects.all(Topology), settings.resync_scope or ALL
                self._cache = OverReserve(known, lookup, method=settings.resync_method, scope=scope)
            else:
                self._cache = Passthrough(lookup)
        return self._cache

    def _reservations(self) -> Any:
        return None if self._cache is None else self._cache.reservations()

    def _restore(self, reservations: Any) -> None:
        if self._cache is not None or reservations is not None:
            self._topologies.restore(reservations)

    def _known(self, node: str) -> Known:
        cache = self._topologies
        if isinstance(cache, OverReserve):
            self._follow(cache)
        return cache.known(node)

    def _follow(self, cache: OverReserve) -> None:
        """Mark nodes with new pods of other schedulers, and synchronize when the time has come."""
        cluster, detect = self.handle.cluster, self.args.cache.foreign_pods_detect
        rows = cluster.changes.since(self._placed) if self._placed >= 0 else None
        self._placed = cluster.changes.position
        if detect != "None":
            for row in range(cluster.table.n) if rows is None else rows:
                for pod in cluster.row_pods[row] if cluster.table.valid[row] else ():
                    node = cluster.table.names[row]
                    if pod.shape.scheduler_name != self.handle.profile_name and (
                        detect == ALL or is_exclusive(pod, cache.resources(node))
                    ):
                        cache.has_foreign_pod(node)
        now = self.handle.wall_clock()
        if now - self._synchronized >= self.args.cache_resync_period_seconds:
            first, self._synchronized = self._synchronized == 0.0, now
            if not first:
                for topology in cluster.objects.all(Topology):
                    cache.updated(topology)
                cache.resync(self._pods_that_count())

    def _pods_that_count(self) -> dict[str, list[PodInfo]]:
        found: dict[str, list[PodInfo]] = {}
        shared = self.args.cache.informer_mode == "Shared"
        for pod in self.handle.cluster.placed_pods():
            if pod.pod.status.phase == "Running" or not (shared or pod.pod.status.phase == "Pending"):
                found.setdefault(pod.pod.spec.node_name, []).append(pod)
        return found

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self._topologies.reserve(node_name, pod)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._topologies.unreserve(node_name, pod)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        self._topologies.bound(node_name, pod)
        return None
        yield

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(ASSIGNED_POD, Action.Delete),
            on(NODE, Action.Add | Action.UpdateNodeAllocatable),
            on(Topology.resource, Action.Add | Action.Update),
        )


def _misaligned(known: Known, settings: Settings, pod: PodInfo, node: NodeInfo, qos: str) -> Reason | None:
    """Why the kubelet could not align the pod; None if it could."""
    cells, allocatable = known.cells(), node.node.status.allocatable
    if settings.scope == POD:
        fits = fitting_cell(effective_request(pod), cells, allocatable, qos) is not None
        return None if fits else POD_NOT_ALIGNED
    for container in pod.pod.spec.init_containers:
        # They run one after the other.
        if fitting_cell(requests_of(container), cells, allocatable, qos) is None:
            return SIDECAR_NOT_ALIGNED if container.restart_policy == "Always" else INIT_NOT_ALIGNED
    for container in pod.pod.spec.containers:
        requests = requests_of(container)
        cell = fitting_cell(requests, cells, allocatable, qos)
        if cell is None:
            return NOT_ALIGNED
        take(requests, cells, cell, qos)
    return None
