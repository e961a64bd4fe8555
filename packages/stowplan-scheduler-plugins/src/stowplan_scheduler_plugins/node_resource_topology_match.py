"""Place pods only where the kubelet can give them resources of one NUMA cell, and score nodes by their cells.

Only nodes with policy single-numa-node refuse pods. An agent on each node publishes its cells in a NodeResourceTopology
object; `topology_caches` says what is known of pods that were placed since, `numa_columns` has it in columns.

Upstream: pkg/noderesourcetopology in scheduler-plugins.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from stowplan.plugins import (
    ASSIGNED_POD,
    MAX_SCORE,
    NODE,
    Action,
    ClusterEventWithHint,
    CopiedAtBeginning,
    CycleState,
    EnqueueExtensions,
    Explanation,
    FilterPlugin,
    Handle,
    Inspection,
    Ints,
    Mask,
    Nodes,
    ObjectDependency,
    PodExtensions,
    PodInfo,
    PodShift,
    PostBindPlugin,
    PreFilterPlugin,
    Reads,
    Reason,
    Rejections,
    ReservePlugin,
    ScorePlugin,
    Status,
    Steps,
    TemplateSigned,
    on,
)
from stowplan_scheduler_plugins.node_resource_topology_args import LEAST_NUMA_NODES, NodeResourceTopologyMatchArgs
from stowplan_scheduler_plugins.node_topologies import POD, SINGLE, Amounts, Topology, is_exclusive
from stowplan_scheduler_plugins.numa_columns import CellColumns, Cells, wanted_by
from stowplan_scheduler_plugins.numa_fit import STALE, misaligned, simulation_failed
from stowplan_scheduler_plugins.numa_placements import EvictionError, freed
from stowplan_scheduler_plugins.numa_scores import CELL_SCORES, fewest_cells, mean, worst_cell
from stowplan_scheduler_plugins.topology_caches import ALL, Cache, DiscardReserved, OverReserve, Passthrough

_GONE = "NodeResourceTopologyMatch.gone"


class _Gone(dict[int, dict[str, PodInfo]]):
    """Pods by their keys that the node of a row is imagined without."""

    def clone(self) -> "_Gone":
        return _Gone({row: dict(pods) for row, pods in self.items()})


class NodeResourceTopologyMatch(
    PreFilterPlugin,
    PodExtensions,
    FilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PostBindPlugin,
    TemplateSigned,
    EnqueueExtensions,
):
    name = "NodeResourceTopologyMatch"
    short_name = "numa"
    args_type = NodeResourceTopologyMatchArgs
    needs_kinds = (Topology,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cache: Cache | None = None
        self._columns: CellColumns | None = None
        if not (args.discard_reserved_nodes or args.cache_resync_period_seconds > 0):
            # Otherwise, it depends on what was placed, and when.
            self.reads = Reads.NODES
        self._weights = {one.name: one.weight for one in args.scoring_strategy.resources}
        self._placed = -1
        self._synchronized = 0.0
        # Reservations are undone with the transaction in which they were made.
        handle.register_participant(self.name, CopiedAtBeginning(self._reservations, self._restore))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self.args.preemption_mode == "Enabled":
            state.write(_GONE, _Gone())
        return None

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        gone: _Gone | None = state.get(_GONE)
        if gone is not None:
            for row, other in zip(shift.rows.tolist(), shift.pods, strict=True):
                if shift.sign < 0:
                    gone.setdefault(row, {})[other.key] = other
                else:
                    gone.get(row, {}).pop(other.key, None)
        return None

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        return (ObjectDependency.of_kind(Topology),)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        wanted = wanted_by(pod)
        if wanted.qos == "BestEffort" and not wanted.with_devices:
            return None
        cells = self._cells(nodes)
        evicting, impossible = self._without_victims(state, nodes, cells)
        found = misaligned(wanted, cells, impossible)
        if found is not None and not state.asking and self.reads is Reads.ANYTHING:
            seen = found.mask & ~evicting
            if nodes.candidates is not None:
                seen &= nodes.candidates
            for entry in found.entries:
                if entry.reason is not STALE:
                    self._refused(nodes, entry.mask & seen)
        return found

    def _without_victims(self, state: CycleState, nodes: Nodes, cells: Cells) -> tuple[Mask, list[tuple[Mask, Reason]]]:
        """Give back to cells what victims would free: the nodes that have victims, and those where that is unknown."""
        evicting = np.zeros(len(nodes), np.bool_)
        impossible: list[tuple[Mask, Reason]] = []
        gone = {row: pods for row, pods in (state.get(_GONE) or {}).items() if pods}
        for i in nodes.positions() if gone else ():
            pods = gone.get(nodes.row(i))
            if pods is None:
                continue
            evicting[i], name = True, nodes.info(i).name
            placements = self._topologies.placements(name)
            if not placements or not cells.fresh[i]:
                continue
            try:
                more = freed(pods.values(), placements, self._topologies.resources(name))
                cells.give_back(i, self._topologies.known(name), more)
            except EvictionError as error:
                alone = np.zeros(len(nodes), np.bool_)
                alone[i] = True
                impossible.append((alone, simulation_failed(error)))
        return evicting, impossible

    def _refused(self, nodes: Nodes, mask: Mask) -> None:
        names = nodes.names()
        for i in np.flatnonzero(mask).tolist():
            self._topologies.refused(names[i])

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        wanted, strategy = wanted_by(pod), self.args.scoring_strategy.type
        if wanted.qos != "Guaranteed":
            return np.full(len(nodes), MAX_SCORE)
        per_container = [*(requests for requests, _ in wanted.init), *wanted.containers]
        cells = self._cells(nodes)
        scored = cells.where(lambda settings: strategy == LEAST_NUMA_NODES or settings.policy == SINGLE)
        per_pod = cells.where(lambda settings: settings.scope == POD)
        scores = np.zeros(len(nodes), np.int64)
        for mask, requests in ((scored & per_pod, [wanted.effective]), (scored & ~per_pod, per_container)):
            if mask.any():
                scores = np.where(mask, self._scores(requests, cells, wanted.qos), scores)
        return scores

    def _scores(self, requests: Sequence[Amounts], cells: Cells, qos: str) -> Ints:
        strategy = self.args.scoring_strategy.type
        if strategy == LEAST_NUMA_NODES:
            return fewest_cells(requests, cells, qos)
        return mean([worst_cell(CELL_SCORES[strategy], one, cells, self._weights) for one in requests])

    def _cells(self, nodes: Nodes) -> Cells:
        cache = self._topologies
        if isinstance(cache, OverReserve):
            self._follow(cache)
        if self._columns is None:
            self._columns = CellColumns(self.handle, cache)
        self._columns.follow()
        return Cells(self._columns, nodes)

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.numa_explanation import NumaExplanation

        return NumaExplanation(inspection, self._topologies)

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
