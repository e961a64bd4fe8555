"""How many more copies of a pod fit: where, the limiting resource, and how many nodes to add.

No pod is evicted for them, and pending pods are not scheduled first. If nodes are independent of each other, `copies`
computes the number for each; otherwise the scheduler places copies one after the other until one is rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import field

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.assumptions import assumed
from stowplan.ask.what_if.added_nodes import NodesToAdd, computed, room_on_new, tried
from stowplan.ask.what_if.answer_records import FitRecord, LimitRecord
from stowplan.ask.what_if.copies import Copies, limits_of, room_for
from stowplan.ask.what_if.hypothetical_nodes import kinds_of, kinds_per_zone, node_at, node_named, zone_of
from stowplan.ask.what_if.hypothetical_pods import MOST_REPLICAS
from stowplan.kube.api.device_claims import ResourceClaimSpec
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.ask.what_if.copies import Limit
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind

#: Maximum number of copies placed one after the other if nodes depend on each other, and if no number is requested.
MOST_PLACED, _MOST_UNASKED = 10_000, 4_000


def fit(
    cluster: Cluster,
    pod: Mapping[str, Any] | str | Pod,
    *,
    replicas: int | None = None,
    kinds: Sequence[NodeKind] | None = None,
    claim_templates: Mapping[str, ResourceClaimSpec] = MappingProxyType({}),
) -> FitRecord:
    """How many more copies of a pod fit, where, and what keeps the next one off.

    `replicas`: how many more are wanted, at most 100,000; None: as many as fit.

    `kinds` of nodes to add for those that do not fit; None: those of the cluster. Without `replicas`, a note says how
    many pods another node of each given kind would take.

    `claim_templates`: specs of ResourceClaimTemplates by `namespace/name`, in addition to those that pods of the
    cluster have claims from.

    Examples:
        >>> found = fit(cluster, "shop/web-7b748b6c55-b5rzm", replicas=20, kinds=[NodeKind("node-a1", price=0.2)])
        >>> found.fits, found.per_node, found.limited_by[0].reason
        (2, {'node-b2': 1, 'node-c1': 1}, 'Insufficient cpu')
    """
    check_replicas(replicas, MOST_REPLICAS)
    info = cluster.pod(pod)
    _check_not_of_daemon_set(info)
    copies = Copies(cluster, info.pod, claim_templates)
    for kind in kinds or ():
        kind.check(cluster)
    with cluster.transaction():
        found = _answer(cluster, copies, replicas)
    if replicas is not None and found.count < replicas and not found.more_untried:
        found.to_add = _nodes_to_add(cluster, copies, found, replicas, kinds)
    elif replicas is None and kinds is not None:
        found.notes += [_room_note(cluster, copies, found, kind) for kind in kinds]
    found.notes += assumed(copies.provisions)
    return found.record(info.key, replicas)


def _check_not_of_daemon_set(info: PodInfo) -> None:
    owner = controller_of(info.pod.metadata)
    if owner is not None and owner.kind == "DaemonSet":
        name = f"{info.namespace}/{owner.name}"
        raise ClusterError(
            f"DaemonSet {name} has one pod on each of its nodes, so there is no number that fits: "
            f"`stowplan explain daemonset/{name}` shows its pods, and "
            "`stowplan what-if --apply FILE` where those of a manifest would run"
        )


def check_replicas(replicas: int | None, most: int) -> None:
    if replicas is not None and not (isinstance(replicas, int) and replicas >= 0):
        raise ClusterError(f"replicas: want a whole number, 0 or more, got {replicas!r}")
    if replicas is not None and replicas > most:
        raise ClusterError(f"replicas: want at most {most:,}, got {replicas:,}; without a number, as many as fit")


class _Found(PlainStruct):
    """The available room."""

    per_node: Counter[str] = field(default_factory=Counter)
    limits: list[LimitRecord] = field(default_factory=list)
    to_add: NodesToAdd = field(default_factory=lambda: NodesToAdd([], []))
    notes: list[str] = field(default_factory=list)
    zones: dict[str, str] = field(default_factory=dict)
    #: Whether nodes are independent of each other for this pod.
    independent: bool = True
    #: Whether there may be room for more.
    more_untried: bool = False

    @property
    def count(self) -> int:
        return self.per_node.total()

    def record(self, key: str, wanted: int | None) -> FitRecord:
        per_zone: Counter[str] = Counter()
        for node, count in self.per_node.items():
            if self.zones[node]:
                per_zone[self.zones[node]] += count
        to_add = sorted(self.to_add.each, key=lambda add: (add.price is None, add.price or 0.0, add.count, add.like))
        return FitRecord(
            pod=key,
            wanted=wanted,
            fits=self.count,
            per_node=dict(sorted(self.per_node.items())),
            per_zone=dict(sorted(per_zone.items())),
            limited_by=tuple(self.limits),
            nodes_to_add=tuple(to_add),
            cheapest=self.to_add.cheapest,
            mix=self.to_add.mix,
            notes=(*self.notes, *self.to_add.notes),
        )


def _answer(cluster: Cluster, copies: Copies, wanted: int | None) -> _Found:
    """Evaluate the cluster as it is, within the caller's transaction."""
    found = _Found()
    group = copies.pod.spec.scheduling_group
    if group is not None and cluster.engine.schedules_groups:
        name = group.pod_group_name
        found.notes.append(f"copies join pod group {name} one by one; podgroup/{name} counts whole groups")
    first = copies.another()
    room = room_for(cluster, cluster.pod(first)) if copies.are_alike(first) else None
    found.independent = room is not None
    if room is None or (wanted is not None and int(room.copies.sum()) > wanted):
        # The scheduler chooses the nodes.
        _place(cluster, copies, found, wanted)
    else:
        names = cluster.state.table.names
        for row in np.flatnonzero(room.copies).tolist():
            found.per_node[names[row]] = int(room.copies[row])
        found.limits = _limit_records(cluster, room.limits)
    for name in found.per_node:
        found.zones[name] = zone_of(node_named(cluster, name))
    return found


def _place(cluster: Cluster, copies: Copies, found: _Found, wanted: int | None) -> None:
    most = _MOST_UNASKED if wanted is None else wanted if found.independent else min(wanted, MOST_PLACED)
    placed = copies.place(most)
    found.per_node.update(placed.nodes)
    decision = placed.rejected
    if decision is None:
        found.more_untried = most != wanted
        if found.more_untried:
            found.notes.append(f"after {most:,} copies no more were tried: there may be room for others")
    elif decision.diagnosis is not None:
        found.limits = _limit_records(cluster, limits_of(decision.diagnosis))
    elif decision.status is not None:
        found.limits = [LimitRecord(plugin=decision.status.plugin, reason=decision.message, nodes=0)]


def _limit_records(cluster: Cluster, limits: Sequence[Limit]) -> list[LimitRecord]:
    rows: dict[tuple[str, str], list[int]] = {}
    for limit in limits:
        rows.setdefault((limit.plugin, limit.reason), []).extend(limit.rows.tolist())
    records = []
    for (plugin, reason), of_reason in rows.items():
        zones = Counter(zone_of(node_at(cluster, row)) for row in of_reason)
        del zones[""]
        records.append(LimitRecord(plugin=plugin, reason=reason, nodes=len(of_reason), zones=dict(zones)))
    return sorted(records, key=lambda limit: (-limit.nodes, limit.plugin, limit.reason))


def _nodes_to_add(
    cluster: Cluster, copies: Copies, found: _Found, wanted: int, kinds: Sequence[NodeKind] | None
) -> NodesToAdd:
    if found.independent:
        to_add = computed(cluster, copies, wanted - found.count, kinds_of(cluster) if kinds is None else kinds)
    else:
        to_add = tried(cluster, copies, wanted, found.count, kinds_per_zone(cluster) if kinds is None else kinds)
    if kinds is None and (to_add.each or to_add.mix):
        # Nobody asked about the others.
        to_add.notes.clear()
    return to_add


def _room_note(cluster: Cluster, copies: Copies, found: _Found, kind: NodeKind) -> str:
    """The note about a node kind if no number is requested."""
    if not found.independent:
        return f"how many nodes like {kind.name} to add depends on the number of pods: set replicas"
    return f"another node like {kind.name} would take {room_on_new(cluster, copies, kind):,} more"
