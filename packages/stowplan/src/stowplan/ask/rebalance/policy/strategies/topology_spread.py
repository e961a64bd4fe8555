"""Pods in domains that have too many of them, by the pods' own spread constraints.

Domains give to each other until none has more than its constraint allows, as if the scheduler filled the smallest ones.

Upstream: descheduler's pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from operator import itemgetter

from stowplan.ask.rebalance.policy.arguments import RemovePodsViolatingTopologySpreadConstraint
from stowplan.ask.rebalance.policy.evictor import Eviction, Evictor
from stowplan.ask.rebalance.policy.node_fit import fits_a_node
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.affinity import Toleration, TopologySpreadConstraint
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.taints import untolerated
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct

_HONOR = "Honor"


class _Constraint(PlainStruct, frozen=True):
    max_skew: int
    key: str
    selector: Selector
    #: If nodes have to match them to be counted.
    affinity: RequiredNodeAffinity | None
    tolerations: tuple[Toleration, ...] | None

    def counts(self, node: Node) -> bool:
        if self.affinity is not None and not self.affinity.matches(node.metadata.labels, node.metadata.name):
            return False
        if self.tolerations is None:
            return True
        return untolerated(node.spec.taints, self.tolerations, comparison_operators=True) is None


def topology_spread(
    snapshot: Snapshot,
    nodes: Sequence[Node],
    evictor: Evictor,
    arguments: RemovePodsViolatingTopologySpreadConstraint,
) -> None:
    by_namespace: dict[str, list[PolicyPod]] = {}
    for node in nodes:
        for pod in snapshot.pods_on(node.metadata.name):
            if arguments.takes(pod.namespace, pod.labels) and evictor.takes(pod):
                by_namespace.setdefault(pod.namespace, []).append(pod)
    leaving: dict[str, tuple[PolicyPod, str]] = {}
    eligible = _Eligible(nodes)
    for pods in by_namespace.values():
        labelled = _Labelled(pods)
        for constraint in dict.fromkeys(_constraints(pods, arguments.constraints)):
            domains = _Domains(snapshot, eligible, constraint, labelled.selected_by(constraint))
            for pod in domains.leaving(evictor, arguments):
                why = f"RemovePodsViolatingTopologySpreadConstraint: {constraint.key}"
                leaving.setdefault(pod.key, (pod, why))
    full: set[str] = set()
    for pod, why in leaving.values():
        if pod.node not in full and evictor.takes_at_last(pod):
            outcome = evictor.evict(pod, why)
            if outcome is Eviction.TOTAL_LIMIT:
                return
            if outcome is Eviction.NODE_LIMIT:
                full.add(pod.node)


def _constraints(pods: Sequence[PolicyPod], actions: Sequence[str]) -> Iterator[_Constraint]:
    for pod in pods:
        for given in pod.pod.spec.topology_spread_constraints:
            if given.when_unsatisfiable in actions:
                try:
                    yield _constraint(given, pod)
                except SelectorError:
                    continue


def _constraint(given: TopologySpreadConstraint, pod: PolicyPod) -> _Constraint:
    selector = compile_label_selector(given.label_selector)
    own = {key: pod.labels[key] for key in given.match_label_keys if key in pod.labels}
    return _Constraint(
        max_skew=given.max_skew,
        key=given.topology_key,
        selector=selector.with_equalities(own) if own else selector,
        affinity=RequiredNodeAffinity.from_pod(pod.pod) if (given.node_affinity_policy or _HONOR) == _HONOR else None,
        tolerations=pod.pod.spec.tolerations if given.node_taints_policy == _HONOR else None,
    )


class _Eligible:
    """The nodes that constraints count; many constraints count the same."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._known: dict[object, list[Node]] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._domains: dict[object, list[str]] = {}

    def of(self, constraint: _Constraint) -> list[Node]:
        key = constraint.affinity, constraint.tolerations
        if key not in self._known:
            self._known[key] = [node for node in self._nodes if constraint.counts(node)]
        return self._known[key]

    def values(self, key: str) -> dict[str, str]:
        """Every node's value of a label, if it has one."""
        if key not in self._values:
            labels = ((node.metadata.name, node.metadata.labels) for node in self._nodes)
            self._values[key] = {name: found[key] for name, found in labels if key in found}
        return self._values[key]

    def domains(self, constraint: _Constraint) -> list[str]:
        """Those of the nodes that it counts."""
        key = constraint.affinity, constraint.tolerations, constraint.key
        if key not in self._domains:
            labels = (node.metadata.labels for node in self.of(constraint))
            self._domains[key] = list(
                dict.fromkeys(found[constraint.key] for found in labels if constraint.key in found)
            )
        return self._domains[key]


class _Labelled:
    """Pods by their labels: of many pods, few have others."""

    def __init__(self, pods: Sequence[PolicyPod]) -> None:
        self._groups: dict[tuple[tuple[str, str], ...], list[tuple[int, PolicyPod]]] = {}
        for number, pod in enumerate(pods):
            self._groups.setdefault(tuple(sorted(pod.labels.items())), []).append((number, pod))

    def selected_by(self, constraint: _Constraint) -> list[PolicyPod]:
        """In the order in which they were listed."""
        groups = (group for labels, group in self._groups.items() if constraint.selector.matches(dict(labels)))
        return [pod for _, pod in sorted((one for group in groups for one in group), key=itemgetter(0))]


class _Domains:
    """The domains of a constraint, with the pods that it selects."""

    def __init__(
        self,
        snapshot: Snapshot,
        eligible: _Eligible,
        constraint: _Constraint,
        pods: Sequence[PolicyPod],
    ) -> None:
        self._snapshot = snapshot
        self._constraint = constraint
        self._eligible = eligible.of(constraint)
        of_node = eligible.values(constraint.key)
        domains: dict[str, list[PolicyPod]] = {value: [] for value in eligible.domains(constraint)}
        for pod in pods:
            value = of_node.get(pod.node)
            if value is not None:
                domains.setdefault(value, []).append(pod)
        self._domains = domains

    def leaving(self, evictor: Evictor, arguments: RemovePodsViolatingTopologySpreadConstraint) -> Iterator[PolicyPod]:
        """Pods that leave the largest domains, as many as it takes."""
        sizes = [len(pods) for pods in self._domains.values()]
        skew = self._constraint.max_skew
        if not sizes or max(sizes) - min(sizes) <= skew:
            return
        mean = sum(sizes) / len(sizes)
        below = self._nodes_below(mean)
        domains = [sorted(_listed(pods), key=_last_to_leave_first) for pods in sorted(self._domains.values(), key=len)]
        low, high = 0, len(domains) - 1
        while low < high:
            if len(domains[high]) <= mean:
                high -= 1
            difference = len(domains[high]) - len(domains[low])
            if difference <= skew:
                low += 1
                continue
            spare, lacking = ceil(len(domains[high]) - mean), ceil(mean - len(domains[low]))
            moved = min(spare, lacking, ceil((difference - skew) / 2))
            if moved <= 0:
                low += 1
                continue
            fits = {pod.key: fits_a_node(self._snapshot, pod, below, elsewhere=True) for pod in domains[high]}
            domains[high].sort(key=lambda pod: fits[pod.key])
            going = domains[high][-moved:]
            # Those that stay count as moved, so that an end is reached.
            for pod in going:
                if fits[pod.key] or not arguments.topology_balance_node_fit or not evictor.judges_fit:
                    yield pod
            domains[high] = domains[high][:-moved]
            domains[low] = [*domains[low], *going]

    def _nodes_below(self, mean: float) -> list[Node]:
        key = self._constraint.key
        small = {value for value, pods in self._domains.items() if len(pods) < mean}
        return [node for node in self._eligible if node.metadata.labels.get(key) in small]


def _listed(pods: Sequence[PolicyPod]) -> list[PolicyPod]:
    """Parity: of equal pods with a priority, those that were listed first leave; of those without, the last."""
    return [
        *(pod for pod in pods if pod.priority is None),
        *(pod for pod in reversed(pods) if pod.priority is not None),
    ]


def _last_to_leave_first(pod: PolicyPod) -> tuple[bool, bool, int]:
    """Parity: of pods without selectors, those of the highest priority leave first."""
    affinity = pod.pod.spec.affinity
    tied = bool(pod.pod.spec.node_selector) or (affinity is not None and affinity.node_affinity is not None)
    return not tied, pod.priority is not None, pod.priority or 0
