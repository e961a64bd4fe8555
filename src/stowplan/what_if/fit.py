"""How many more copies of a pod fit: where, the limiting resource, and how many nodes to add.

No pod is evicted for them, and pending pods are not scheduled first. If nodes are independent of each other, `room`
computes the number for each; otherwise the scheduler places copies one after the other until one is rejected.

The number of nodes to add is found by trial, too: copies of an existing node (or a template) are added, with their
DaemonSet pods.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from stowplan.offline import ClusterError
from stowplan.what_if.claims import with_own_claims
from stowplan.what_if.nodes import NodeTemplate, fewest_nodes, node_at, node_named, nodes_of, zone_of
from stowplan.what_if.pods import copy_of
from stowplan.what_if.records import FitRecord, LimitRecord, MixRecord, NodesToAddRecord
from stowplan.what_if.room import limits_of, room_for

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from typing import Any

    from stowplan.api.device_claims import ResourceClaimSpec
    from stowplan.api.types import Node, Pod
    from stowplan.offline import Cluster
    from stowplan.what_if.room import Limit

#: Maximum number of copies placed one after the other, if no number is requested.
MOST_PLACED = 10_000
#: Maximum number of nodes of a kind that are tried.
MOST_NODES = 10_000
#: Number of kinds of nodes that are tried by default.
_KINDS = 5


@dataclass(frozen=True)
class NodeKind:
    """A kind of node that can be added.

    Examples:
        >>> NodeKind("node-a1", price=0.2).name
        'node-a1'
    """

    #: The name of an existing node, or a Node.
    like: str | Node
    price: float | None = None

    @property
    def name(self) -> str:
        return self.like if isinstance(self.like, str) else self.like.metadata.name


def fit(
    cluster: Cluster,
    pod: Mapping[str, Any] | str | Pod,
    *,
    replicas: int | None = None,
    kinds: Sequence[NodeKind] | None = None,
    claim_templates: Mapping[str, ResourceClaimSpec] = MappingProxyType({}),
) -> FitRecord:
    """How many more copies of a pod fit, where, and what keeps the next one off.

    `replicas`: how many are wanted; None: as many as fit.

    `kinds` of nodes to add for those that do not fit; None: those of the cluster. Without `replicas`, a note says how
    many pods another node of each given kind would take.

    `claim_templates`: specs of ResourceClaimTemplates by `namespace/name`, in addition to those that pods of the
    cluster have claims from.

    Examples:
        >>> found = fit(cluster, "shop/web-7b748b6c55-b5rzm", replicas=20, kinds=[NodeKind("node-a1", price=0.2)])
        >>> found.fits, found.per_node, found.limited_by[0].reason
        (2, {'node-b2': 1, 'node-c1': 1}, 'Insufficient cpu')
    """
    if replicas is not None and replicas < 0:
        raise ClusterError(f"replicas: want 0 or more, got {replicas}")
    info = cluster.pod(pod)
    question = _Question(cluster, info.pod, replicas, claim_templates)
    with cluster.transaction():
        found = question.answer()
    missing = 0 if replicas is None else replicas - found.count
    if missing > 0:
        _add_nodes(cluster, question, found, missing, kinds)
    elif replicas is None and kinds is not None:
        found.notes += [_room_note(cluster, question, found, kind) for kind in kinds]
    return found.record(info.key, replicas)


class _Found:
    """The available room."""

    def __init__(self) -> None:
        self.per_node: Counter[str] = Counter()
        self.zones: dict[str, str] = {}
        self.limits: list[LimitRecord] = []
        self.nodes_to_add: list[NodesToAddRecord] = []
        self.cheapest: MixRecord | None = None
        self.notes: list[str] = []
        #: Whether nodes are independent of each other for this pod.
        self.independent = True

    @property
    def count(self) -> int:
        return self.per_node.total()

    def record(self, key: str, wanted: int | None) -> FitRecord:
        per_zone: Counter[str] = Counter()
        for node, count in self.per_node.items():
            if self.zones[node]:
                per_zone[self.zones[node]] += count
        return FitRecord(
            pod=key,
            wanted=wanted,
            fits=self.count,
            per_node=dict(sorted(self.per_node.items())),
            per_zone=dict(sorted(per_zone.items())),
            limited_by=tuple(self.limits),
            nodes_to_add=tuple(self.nodes_to_add),
            cheapest=self.cheapest,
            notes=tuple(self.notes),
        )


class _Question:
    """Evaluates the cluster as it is, within the caller's transaction."""

    def __init__(
        self, cluster: Cluster, pod: Pod, wanted: int | None, claim_templates: Mapping[str, ResourceClaimSpec]
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._wanted = wanted
        self._claim_templates = claim_templates
        self._made = 0

    def copy(self) -> Pod:
        self._made += 1
        fresh = copy_of(self._pod, f"{self._pod.metadata.name}-copy-{self._made}")
        return with_own_claims(self._cluster, fresh, self._pod, self._claim_templates)

    def answer(self) -> _Found:
        cluster, found = self._cluster, _Found()
        room = room_for(cluster, cluster.pod(self.copy()))
        names = cluster.state.table.names
        if room is None or (self._wanted is not None and int(room.copies.sum()) > self._wanted):
            # The scheduler chooses the nodes.
            found.independent = room is not None
            self._place(found)
        else:
            for row in np.flatnonzero(room.copies).tolist():
                found.per_node[names[row]] = int(room.copies[row])
            found.limits = self._told(room.limits)
        for name in found.per_node:
            found.zones[name] = zone_of(node_named(cluster, name))
        return found

    def _place(self, found: _Found) -> None:
        """Place copies one after the other until one is rejected."""
        cluster = self._cluster
        most = MOST_PLACED if self._wanted is None else self._wanted
        for _ in range(most):
            (decision,) = cluster.schedule([self.copy()])
            if not decision.node_name:
                if decision.diagnosis is not None:
                    found.limits = self._told(limits_of(decision.diagnosis))
                elif decision.status is not None:
                    found.limits = [LimitRecord(plugin=decision.status.plugin, reason=decision.message, nodes=0)]
                return
            found.per_node[decision.node_name] += 1
        if self._wanted is None:
            found.notes.append(f"after {most:,} copies no more were tried: there may be room for others")

    def _told(self, limits: Sequence[Limit]) -> list[LimitRecord]:
        rows: dict[tuple[str, str], list[int]] = {}
        for limit in limits:
            rows.setdefault((limit.plugin, limit.reason), []).extend(limit.rows.tolist())
        told = []
        for (plugin, reason), of_reason in rows.items():
            zones = Counter(zone_of(node_at(self._cluster, row)) for row in of_reason)
            del zones[""]
            told.append(LimitRecord(plugin=plugin, reason=reason, nodes=len(of_reason), zones=dict(zones)))
        return sorted(told, key=lambda limit: (-limit.nodes, limit.plugin, limit.reason))


# -- nodes to add -----------------------------------------------------------------------------------------------------


def _add_nodes(
    cluster: Cluster, question: _Question, found: _Found, missing: int, kinds: Sequence[NodeKind] | None
) -> None:
    asked = kinds_of(cluster) if kinds is None else kinds
    each: dict[str, int] = {}
    for kind in asked:
        template = NodeTemplate.of(cluster, kind.like)
        if found.independent:
            each[kind.name] = taken = _room_on_new(cluster, question, template)
            count = -(-missing // taken) if taken else None
        else:
            count = _count_to_add(cluster, question, template, missing + found.count)
        if count is not None:
            price = None if kind.price is None else count * kind.price
            found.nodes_to_add.append(
                NodesToAddRecord(like=kind.name, count=count, each=each.get(kind.name), price=price)
            )
        elif kinds is not None:
            found.notes.append(f"nodes like {kind.name} would not help")
    found.nodes_to_add.sort(key=lambda add: (add.price is None, add.price or 0.0, add.count, add.like))
    prices = {kind.name: kind.price for kind in asked if kind.price is not None}
    if len(prices) > 1:
        if found.independent:
            found.cheapest = _cheapest(missing, each, prices)
        else:
            found.notes.append("no mix of kinds was computed: which nodes take the pod depends on the other nodes")


def kinds_of(cluster: Cluster) -> list[NodeKind]:
    """A node of each existing size, the most frequent first."""
    return kinds_among(nodes_of(cluster))


def kinds_among(nodes: Iterable[Node]) -> list[NodeKind]:
    """A node of each size among some nodes, the most frequent first."""
    sizes: dict[Hashable, list[str]] = {}
    for node in nodes:
        size = tuple(sorted((resource, str(amount)) for resource, amount in node.status.allocatable.items()))
        sizes.setdefault((size, node.spec.taints), []).append(node.metadata.name)
    frequent = sorted(sizes.values(), key=len, reverse=True)
    return [NodeKind(names[0]) for names in frequent[:_KINDS]]


def _room_note(cluster: Cluster, question: _Question, found: _Found, kind: NodeKind) -> str:
    """The note about a node kind if no number is requested."""
    template = NodeTemplate.of(cluster, kind.like)
    if not found.independent:
        return f"how many nodes like {kind.name} to add depends on the number of pods: set replicas"
    taken = _room_on_new(cluster, question, template)
    return f"another node like {kind.name} would take {taken:,} more"


def _room_on_new(cluster: Cluster, question: _Question, template: NodeTemplate) -> int:
    with cluster.transaction():
        (name,) = template.add_to(cluster, 1)
        room = room_for(cluster, cluster.pod(question.copy()))
        return 0 if room is None else int(room.copies[cluster.state.table.row_of[name]])


def _count_to_add(cluster: Cluster, question: _Question, template: NodeTemplate, wanted: int) -> int | None:
    """The lowest number of new nodes with which all fit; each number is tried."""

    def all_fit(count: int) -> bool:
        with cluster.transaction():
            template.add_to(cluster, count)
            return all(cluster.schedule([question.copy()])[0].node_name for _ in range(wanted))

    # With more than that, each new node would have one of them.
    return fewest_nodes(all_fit, min(wanted, MOST_NODES - 1))


def _cheapest(missing: int, each: Mapping[str, int], prices: Mapping[str, float]) -> MixRecord | None:
    """Cover `missing` pods with whole nodes at the lowest price, by dynamic programming over 1, 2, … pods."""
    useful = [(name, each[name], price) for name, price in prices.items() if each.get(name)]
    if not useful:
        return None
    best: list[tuple[float, int, str]] = [(0.0, 0, "")]
    for pods in range(1, missing + 1):
        ways = ((best[max(0, pods - taken)], name, price) for name, taken, price in useful)
        best.append(min((before[0] + price, before[1] + 1, name) for before, name, price in ways))
    nodes: Counter[str] = Counter()
    left = missing
    while left > 0:
        name = best[left][2]
        nodes[name] += 1
        left -= each[name]
    return MixRecord(nodes=dict(sorted(nodes.items())), price=best[missing][0])
