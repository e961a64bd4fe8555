"""Pods that leave nodes that are used too much, or so little that they could be empty.

A node's use is what its pods request, or what was measured. The pods of the one kind of node leave for as long as the
other kind has room below its threshold.

Upstream: descheduler's pkg/framework/plugins/nodeutilization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stowplan.ask.rebalance.policy.arguments import METRIC_RESOURCE, HighNodeUtilization, LowNodeUtilization
from stowplan.ask.rebalance.policy.evictor import Eviction, Evictor
from stowplan.ask.rebalance.policy.node_fit import amounts
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.resource_names import CPU, MEMORY, PODS
from stowplan.kube.api.taints import tolerates
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct

Amounts = Mapping[str, int]
Percents = Mapping[str, float]

#: By METRIC_RESOURCE, of which each node has this much.
_OF_METRIC = 100


class _NodeUse(PlainStruct):
    node: Node
    used: dict[str, int]
    capacity: dict[str, int]
    pods: list[PolicyPod]
    #: Up to which it may be used.
    target: dict[str, int]

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def percents(self) -> dict[str, float]:
        of = {name: self.capacity[name] for name in self.used if name in self.capacity}
        return {name: 100 * self.used[name] / amount if amount > 0 else 0.0 for name, amount in of.items()}

    def with_target(self, thresholds: Percents) -> _NodeUse:
        for name in self.used:
            capacity = self.capacity.get(name, 0)
            self.target[name] = int(thresholds[name] * 0.01 * capacity) if name in thresholds else capacity
        return self


def low_node_utilization(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: LowNodeUtilization
) -> None:
    metrics = arguments.metrics_utilization
    by_query = metrics is not None and metrics.is_prometheus
    names = set(arguments.thresholds) | (set() if by_query else {CPU, MEMORY, PODS})
    uses = _uses(snapshot, nodes, names, None if metrics is None else snapshot.measured)
    low: Percents = arguments.thresholds
    high: Percents = arguments.target_thresholds
    if arguments.use_deviation_thresholds:
        low, high = _around_the_mean(uses, low, high)
    under = [one for one in uses if not one.node.spec.unschedulable and _is_below(one.percents(), low)]
    over = [one for one in uses if one not in under and _is_above(one.percents(), high)]
    if not over or not _are_enough(under, nodes, arguments.number_of_nodes):
        return
    over.sort(key=lambda one: -sum(one.used.values()))
    moving = _Moving(snapshot, evictor, arguments.evictable_namespaces.takes, by_metric=metrics is not None)
    moving.limit = arguments.eviction_limits.node
    moving.alone = by_query and moving.limit is None
    moving.named = "LowNodeUtilization"
    moving.stops = lambda one: not any(one.used[name] > one.target[name] for name in one.used)
    for one in (*under, *over):
        one.with_target(high)
    moving.move(over, under, evictor.takes)


def high_node_utilization(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: HighNodeUtilization
) -> None:
    uses = _uses(snapshot, nodes, {*arguments.thresholds, CPU, MEMORY, PODS}, None)
    under = [one for one in uses if _is_below(one.percents(), arguments.thresholds)]
    targets = [one for one in uses if one not in under and not one.node.spec.unschedulable]
    if not targets or not _are_enough(under, nodes, arguments.number_of_nodes):
        return

    def takes(pod: PolicyPod) -> bool:
        containers = (*pod.pod.spec.containers, *pod.pod.spec.init_containers)
        requested = {name for one in containers for name in one.resources.requests}
        return evictor.takes(pod) and (not arguments.eviction_modes or bool(requested & set(arguments.thresholds)))

    under.sort(key=lambda one: sum(one.used.values()))
    moving = _Moving(snapshot, evictor, arguments.evictable_namespaces.takes, by_metric=False)
    moving.named = "HighNodeUtilization"
    for one in (*under, *targets):
        one.with_target({})
    moving.move(under, targets, takes)


def _are_enough(under: Sequence[_NodeUse], nodes: Sequence[Node], least: int) -> bool:
    """Whether the nodes below the threshold are some, more than `least`, and not all."""
    return bool(under) and least < len(under) < len(nodes)


def _uses(
    snapshot: Snapshot, nodes: Sequence[Node], names: set[str], measured: Mapping[str, Amounts] | None
) -> list[_NodeUse]:
    found = []
    for node in nodes:
        name, pods = node.metadata.name, snapshot.pods_on(node.metadata.name)
        if measured is None:
            used = {one: sum(pod.requests.get(one, 0) for pod in pods) for one in names}
        else:
            used = {one: measured[name][one] for one in names if one in measured.get(name, {})}
        if PODS in names:
            used[PODS] = len(pods)
        if set(used) != names:
            # What was not measured is neither full nor empty.
            continue
        capacity = amounts(node.status.allocatable or node.status.capacity) | {METRIC_RESOURCE: _OF_METRIC}
        found.append(_NodeUse(node, used, capacity, pods, {}))
    return found


def _around_the_mean(uses: Sequence[_NodeUse], low: Percents, high: Percents) -> tuple[Percents, Percents]:
    """Thresholds that are given as distances from the mean."""
    percents = [one.percents() for one in uses]
    means = {name: _mean([one[name] for one in percents if name in one]) for name in low}
    below = {name: max(0.0, min(100.0, mean - low[name])) for name, mean in means.items()}
    above = {name: max(0.0, min(100.0, mean + high[name])) for name, mean in means.items()}
    return below, above


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _is_below(percents: Percents, thresholds: Percents) -> bool:
    return all(percents.get(name, 0.0) <= threshold for name, threshold in thresholds.items())


def _is_above(percents: Percents, thresholds: Percents) -> bool:
    return any(percents.get(name, 0.0) > threshold for name, threshold in thresholds.items())


class _Moving:
    """Evicts pods from nodes while others have room for them."""

    limit: int | None = None
    #: Whether only one pod of a node leaves, as nobody knows how much it uses.
    alone = False
    named = ""

    def __init__(
        self, snapshot: Snapshot, evictor: Evictor, evictable: Callable[[str], bool], *, by_metric: bool
    ) -> None:
        self._snapshot = snapshot
        self._evictor = evictor
        self._evictable = evictable
        self._by_metric = by_metric
        #: Whether enough pods have left a node.
        self.stops: Callable[[_NodeUse], bool] = lambda one: False

    def move(
        self, sources: Sequence[_NodeUse], targets: Sequence[_NodeUse], takes: Callable[[PolicyPod], bool]
    ) -> None:
        room = {name: sum(one.target[name] - one.used[name] for one in targets) for name in targets[0].used}
        avoiding = frozenset(one.name for one in sources)
        taints = [one.node.spec.taints for one in targets]
        for source in sources:
            pods = sorted(filter(takes, source.pods), key=lambda pod: pod.least_important_first)
            tolerating = [pod for pod in pods if any(_tolerates_all(pod, one) for one in taints)]
            if self._leave(source, tolerating, room, avoiding) is Eviction.TOTAL_LIMIT:
                return

    def _leave(
        self, source: _NodeUse, pods: Sequence[PolicyPod], room: dict[str, int], avoiding: frozenset[str]
    ) -> Eviction:
        evicted = 0
        for pod in pods:
            if self.stops(source) or any(amount <= 0 for amount in room.values()):
                break
            if self.limit is not None and evicted >= self.limit:
                break
            use = self._use_of(pod, room)
            if use is None or not self._evictable(pod.namespace) or not self._evictor.takes_at_last(pod):
                continue
            percents = ", ".join(f"{name} {percent:.0f} %" for name, percent in sorted(source.percents().items()))
            outcome = self._evictor.evict(pod, f"{self.named}: {source.name} has {percents}", avoiding)
            if outcome in (Eviction.NODE_LIMIT, Eviction.TOTAL_LIMIT):
                return outcome
            if outcome is Eviction.REFUSED:
                continue
            evicted += 1
            for name, amount in use.items():
                source.used[name] -= amount
                room[name] -= amount
            if self.alone:
                break
        return Eviction.DONE

    def _use_of(self, pod: PolicyPod, room: Mapping[str, int]) -> dict[str, int] | None:
        """What a pod uses; None if that should be known and is not."""
        if METRIC_RESOURCE in room:
            return {}
        of = self._snapshot.measured_pods.get(pod.key) if self._by_metric else pod.requests
        if of is None or (self._by_metric and not set(room) - {PODS} <= set(of)):
            return None
        return {name: 1 if name == PODS else of.get(name, 0) for name in room}


def _tolerates_all(pod: PolicyPod, taints: Sequence[Taint]) -> bool:
    """Parity: of any effect, and with fewer tolerations than taints never."""
    tolerations = pod.pod.spec.tolerations
    if len(tolerations) < len(taints):
        return False
    return all(any(tolerates(one, taint, True) for one in tolerations) for taint in taints)
