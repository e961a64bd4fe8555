"""Reject nodes without room for the pod's requests; score by allocation strategy.

Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go and its scoring strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from stowplan.kube.api.pod_requests import pod_requests
from stowplan.kube.api.resource_names import DEVICE_CLASS_PREFIX, is_extended, is_scalar
from stowplan.kube.api.types import DeviceClass, Node, Pod
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.node_table import allocatable_amounts
from stowplan.scheduler.cluster.objects import ObjectDependency
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.events import (
    DEVICE_CLASS,
    NODE,
    Action,
    ClusterEventWithHint,
    Hint,
    on,
    pod_events,
    queue_if,
)
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    MAX_SCORE,
    EnqueueExtensions,
    FilterPlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupInfo,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.status import Code, Reason, Status, error
from stowplan.scheduler.in_tree.common.device_classes import device_class_of, device_classes_read
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated, same_pod
from stowplan.scheduler.in_tree.common.resource_scoring import ResourceCapacity, ResourceDemands, capacity
from stowplan.scheduler.in_tree.common.shape_score import ShapePoints, mean_of_positive
from stowplan.scheduler.in_tree.node_resources_fit.declaration import DECLARATION, NodeResourcesFitArgs

PRE_FILTER_KEY = "PreFilterNodeResourcesFit"
PRE_SCORE_KEY = "PreScoreNodeResourcesFit"

TOO_MANY_PODS = Reason("TooManyPods", "Too many pods")
INSUFFICIENT = Reason("InsufficientResource", "Insufficient {resource}")

#: Checked before scalar resources, in this order.
_BASE = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin, EnqueueExtensions, TemplateSigned
):
    declaration = DECLARATION
    short_name = "fit"
    reads = Reads.NODE_SUMS
    pods_only_take_room = True
    in_range = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._resources = tuple((r.name, r.weight) for r in strategy.resources)
        self._score = {
            "LeastAllocated": least_allocated,
            "MostAllocated": most_allocated,
            "RequestedToCapacityRatio": self._requested_to_capacity_ratio,
        }[strategy.type]
        ratio = strategy.requested_to_capacity_ratio
        self._curve = ShapePoints.scaled(ratio.shape) if ratio is not None and ratio.shape else None

    def aggregate_key(self, pod: PodInfo) -> Hashable:
        found: Hashable = pod.shape.template.memo("fit question", 0)
        if found is None:
            shape = pod.shape
            asked = (tuple(shape.requests.items()), tuple(shape.scoring_requests.items()))
            found = shape.template.remember("fit question", 0, asked)
        return found

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        if not self.handle.features.enabled("DRAExtendedResource"):
            return ()
        return device_classes_read(pod.shape)

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(PRE_FILTER_KEY, self._asked(pod))

    def _asked(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        """The requests that Filter compares, in the order of its reasons; empty if only the number of pods matters."""
        requests = pod.shape.requests
        asked = [(name, requests[name]) for name in _BASE if requests.get(name, 0) > 0]
        scalars = [name for name in requests if name not in _BASE]
        asked += [(name, requests[name]) for name in sorted(scalars) if requests[name] > 0 and not self._ignores(name)]
        return tuple(asked)

    def _ignores(self, name: str) -> bool:
        return is_extended(name) and (name in self._ignored or name.split("/", 1)[0] in self._ignored_groups)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        asked: tuple[tuple[str, int], ...] | None = state.get(PRE_FILTER_KEY)
        if asked is None:
            return error(f'error reading "{PRE_FILTER_KEY}" from cycleState: not found')
        full = nodes.pod_count() >= nodes.take(nodes.table.allowed_pods)
        refused = full
        for name, amount in asked:
            refused = refused | self._short(nodes, name, amount)
        return Rejections(refused, lambda: self._entries(nodes, full, asked)) if refused.any() else None

    def _short(self, nodes: Nodes, name: str, amount: int) -> Mask:
        """Nodes on which a resource is insufficient."""
        index = nodes.table.resources.get(name)
        allocatable = nodes.allocatable(index) if index is not None else np.zeros(len(nodes), np.int64)
        requested = nodes.requested(index) if index is not None else allocatable
        short: Mask = allocatable - requested < amount
        if name not in _BASE and self._delegated(name):
            # Devices of a class are handled by DynamicResources if the node itself has none.
            short &= allocatable > 0
        return short

    def _delegated(self, name: str) -> bool:
        return (
            self.handle.features.enabled("DRAExtendedResource")
            and device_class_of(name, self.handle.cluster) is not None
        )

    def judge_resize(self, pod: PodInfo, row: int, without: Sequence[PodInfo]) -> Status | None:
        """Why a node lacks room for a pod that is counted there already; `without` these other pods."""
        table, reasons, code = self.handle.cluster.table, [], Code.Unschedulable
        # Parity: the pod is counted twice here.
        if table.pod_count[row] - len(without) + 1 > table.allowed_pods[row]:
            reasons.append(TOO_MANY_PODS)
        for name, amount in self._asked(pod):
            index = table.resources.get(name)
            there = 0 if index is None else int(table.allocatable[index, row])
            taken = 0 if index is None else int(table.requested[index, row])
            taken -= sum(info.shape.used.get(name, 0) for info in without)
            if taken <= there or (not there and name not in _BASE and self._delegated(name)):
                continue
            reasons.append(INSUFFICIENT.of(resource=name, requested=amount))
            if amount > there:
                code = Code.UnschedulableAndUnresolvable
        return Status(code, tuple(map(str, reasons)), records=tuple(reasons)) if reasons else None

    def _entries(self, nodes: Nodes, full: Mask, asked: Sequence[tuple[str, int]]) -> list[Entry]:
        entries = [Entry(full, Code.Unschedulable, TOO_MANY_PODS)]
        for name, amount in asked:
            short = self._short(nodes, name, amount)
            index = nodes.table.resources.get(name)
            never = short & (nodes.allocatable(index) < amount) if index is not None else short
            reason = INSUFFICIENT.of(resource=name, requested=amount)
            entries.append(Entry(never, Code.UnschedulableAndUnresolvable, reason))
            entries.append(Entry(short & ~never, Code.Unschedulable, reason))
        return entries

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(PRE_SCORE_KEY, self._demands(pod))

    def _demands(self, pod: PodInfo) -> ResourceDemands:
        found: ResourceDemands | None = pod.shape.template.memo(PRE_SCORE_KEY, self._resources)
        if found is None:
            found = ResourceDemands(self._resources, pod.shape.scoring_requests)
            pod.shape.template.remember(PRE_SCORE_KEY, self._resources, found)
        return found

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        if not self._resources:
            return error("resources not found")
        asked: ResourceDemands | None = state.get(PRE_SCORE_KEY)
        return self._score(nodes, self._demands(pod) if asked is None else asked)

    def _requested_to_capacity_ratio(self, nodes: Nodes, asked: ResourceDemands) -> Ints:
        assert self._curve is not None
        of = capacity(nodes, asked.names)
        taken = of.used_with(nodes, asked)
        np.minimum(taken, nodes.take(of.exact), out=taken)
        scores = self._curve(of.percent(nodes, taken))
        if of.present is not None:
            scores = scores * nodes.take(of.present)
        weights = np.array(asked.weights, np.int64)[:, None]
        return mean_of_positive(scores, weights)

    # -- placements of pod groups -------------------------------------------------------------------------------------

    def score_placement(
        self, group_state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int | Status:
        """The utilization of the placement as a whole; higher is better, whatever the strategy."""
        nodes = assignments.placement.nodes
        demands = [pod.pod.shape.scoring_requests for pod in assignments.proposed]
        total = weights = 0
        for name, weight in self._resources:
            wanted = sum(demand.get(name, 0) for demand in demands)
            if is_scalar(name) and not wanted:
                continue
            there, taken = self._summed(nodes, name)
            if there:
                used = min(taken + wanted, there)
                total += weight * (used * MAX_SCORE // there)
                weights += weight
        return total // weights if weights else 0

    @staticmethod
    def _summed(nodes: Nodes, name: str) -> tuple[int, int]:
        """Allocatable and requested totals of a resource; nodes without it do not count."""
        index = nodes.table.resources.get(name)
        if index is None:
            return 0, 0
        there = nodes.allocatable(index)
        base = {"cpu": 0, "memory": 1}.get(name)
        taken = nodes.requested(index) if base is None else nodes.non_zero_requested(base)
        # Sums of the memory of large nodes may exceed 64 bits.
        return sum(there.tolist()), sum(taken[there > 0].tolist())

    # -- events -------------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods, scaled_down = pod_events(self.handle.features.emulated_version), Action.UpdatePodScaleDown
        resizes = self.handle.features.enabled("InPlacePodVerticalScalingSchedulerPreemption")
        # The node of a pod that is to grow there is not part of its shape.
        shared = not resizes
        events = [
            on(pods.assigned, Action.Delete, self._after_pod_deleted, by_shape=shared),
            *(on(resource, scaled_down, self._after_pod_scaled_down, by_shape=shared) for resource in pods.either),
            on(NODE, Action.Add | Action.UpdateNodeAllocatable, self._after_node_change, by_shape=shared),
        ]
        if resizes:
            scaled_up = Action.UpdatePodScaleUp
            events += (on(resource, scaled_up, self._after_pod_scaled_up) for resource in pods.either)
        if self.handle.features.enabled("DRAExtendedResource"):
            events.append(on(DEVICE_CLASS, Action.Add | Action.Update, _after_device_class_change, by_shape=True))
        return events

    def _after_pod_deleted(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        return queue_if(is_placed_or_nominated(old) and _may_matter(pod, old.spec.node_name))

    def _after_pod_scaled_down(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        if same_pod(pod, new):
            return Hint.QUEUE
        if not new.spec.node_name or not _may_matter(pod, new.spec.node_name):
            return Hint.SKIP
        before, after = self.handle.pod_info(old).shape.used, self.handle.pod_info(new).shape.used
        return queue_if(any(wanted and before.get(n, 0) > after.get(n, 0) for n, wanted in pod.shape.used.items()))

    def _after_pod_scaled_up(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(same_pod(pod, new))

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        if not _may_matter(pod, new.metadata.name):
            return Hint.SKIP
        now = allocatable_amounts(new)
        requests = pod.shape.requests
        wanted = {name: amount for name, amount in requests.items() if amount > 0}
        delegated = {n for n in wanted if n not in _BASE and now.get(n, 0) <= 0 and self._delegated(n)}
        if now.get("pods", 0) < 1 or any(now.get(n, 0) < a for n, a in wanted.items() if n not in delegated):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before = allocatable_amounts(old)
        if now.get("pods", 0) > before.get("pods", 0):
            return Hint.QUEUE
        return queue_if(bool(delegated) or any(now.get(n, 0) > before.get(n, 0) for n in wanted))


def _may_matter(pod: PodInfo, node_name: str) -> bool:
    """Whether the pod may get room on that node: one that is to grow on its own only there."""
    return pod.pod.spec.node_name in ("", node_name)


def _after_device_class_change(pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
    # A request of zero counts as a request.
    wanted = pod_requests(pod.pod)
    extended = new.spec.extended_resource_name or ""
    if old is None:
        return queue_if(DEVICE_CLASS_PREFIX + new.metadata.name in wanted or extended in wanted)
    return queue_if(extended in wanted and extended != (old.spec.extended_resource_name or ""))


def least_allocated(nodes: Nodes, asked: ResourceDemands) -> Ints:
    """Lower utilization scores higher."""
    of = capacity(nodes, asked.names)
    free = of.used_with(nodes, asked)
    np.subtract(nodes.take(of.exact), free, out=free)
    np.maximum(free, 0, out=free)
    return _weighted_mean(nodes, asked, of, of.percent(nodes, free))


def most_allocated(nodes: Nodes, asked: ResourceDemands) -> Ints:
    """Higher utilization scores higher."""
    of = capacity(nodes, asked.names)
    taken = of.used_with(nodes, asked)
    np.minimum(taken, nodes.take(of.exact), out=taken)
    return _weighted_mean(nodes, asked, of, of.percent(nodes, taken))


def _weighted_mean(nodes: Nodes, asked: ResourceDemands, of: ResourceCapacity, scores: Ints) -> Ints:
    """Mean over the resources that a node has, truncated to an integer."""
    if asked.weights == (1, 1) and of.present is None:
        halved: Ints = scores[0] + scores[1]
        halved >>= 1
        return halved
    weights = np.array(asked.weights, np.int64)[:, None]
    if of.present is not None:
        weights = weights * nodes.take(of.present)
    total = (scores * weights).sum(axis=0)
    mean: Ints = total // np.maximum(weights.sum(axis=0), 1)
    return mean
