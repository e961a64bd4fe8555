"""Compare the cluster before and after changes, with all pods scheduled.

Pending pods are scheduled on both sides, so that what would have happened anyway is not attributed to the changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.assumptions import Provision, assumed
from stowplan.ask.offline.cluster_tables import HeatMap
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.what_if.answer_records import SideRecord, WhatIfRecord, partial_of
from stowplan.ask.what_if.budgets import AllowedDisruptions
from stowplan.ask.what_if.hypothetical_changes import Change, Reconfigure
from stowplan.ask.what_if.hypothetical_nodes import DaemonSets
from stowplan.ask.what_if.settling import Settling
from stowplan.kube.api.eviction_outcomes import belongs_to_node
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.inspection.queue_state import quota_records
from stowplan.scheduler.inspection.records import QuotaRecord

Look = Callable[[Cluster], None]


def _ignored(cluster: Cluster) -> None:
    pass


def what_if(
    cluster: Cluster, *changes: Change | Iterable[Change], look: Look = _ignored, stop: Stop = never
) -> WhatIfRecord:
    """Compare the cluster with and without the changes, which are made in order; a list of them will do, too.

    `look` gets the cluster before and after, each with pending pods scheduled; it must not keep any references. Once
    `stop`, which is asked between pods, returns True, the answer is what is known by then.

    Examples:
        >>> what_if(cluster, AddNodes(1, "gpu-a1"), Taint("gpu-a1-like-1", "nvidia.com/gpu", effect="")).placed
        {'ml/notebook': 'gpu-a1-like-1'}
    """
    made = list(_flattened(changes))
    homes = _homes(cluster)
    before = _side(cluster, (), look, stop)
    other = cluster
    for change in made:
        if isinstance(change, Reconfigure):
            other = cluster.reconfigured(change.config)
    after = _side(other, made, look, stop)
    return _compared(homes, before, after, [change.text for change in made])


class HeatMaps(PlainStruct, frozen=True):
    """The same picture before and after changes, side by side in notebooks."""

    before: HeatMap
    after: HeatMap

    def __repr__(self) -> str:
        return f"<HeatMaps: before {self.before}, after {self.after}>"

    def _repr_html_(self) -> str:
        sides = (("Before", self.before), ("After", self.after))
        boxes = "".join(f"<div><b>{name}</b>{side._repr_html_()}</div>" for name, side in sides)
        return f"<div style='display:flex;flex-wrap:wrap;gap:24px'>{boxes}</div>"


def heatmaps(
    cluster: Cluster, *changes: Change | Iterable[Change], resource: str = "cpu", by: str | None = None
) -> HeatMaps:
    """`cluster.heatmap` without and with the changes, each with pending pods scheduled.

    Examples:
        >>> heatmaps(cluster, Remove("node-c3"), by="").after
        <HeatMap: 9500m of 40 cpu free>
    """
    found: list[HeatMap] = []
    what_if(cluster, *changes, look=lambda side: found.append(side.heatmap(resource, by)))
    return HeatMaps(*found)


def _flattened(changes: Iterable[Change | Iterable[Change]]) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, Change):
            yield change
        elif isinstance(change, Iterable) and not isinstance(change, str | Mapping):
            yield from _flattened(change)
        else:
            raise ClusterError(f'want changes such as Remove("node-1"), got {change!r}')


class _Side(PlainStruct, frozen=True):
    nodes: int
    #: Number of pods with a node.
    pods: int
    #: Pod -> its node, except for pods that belong to their node.
    homes: dict[str, str]
    #: Pod -> why it is pending.
    pending: dict[str, str]
    #: Volumes that provisioners have to create.
    provisions: set[Provision]
    notes: list[str]
    quotas: tuple[QuotaRecord, ...]
    #: Pods that were decided, and those that were not, because the question was stopped.
    decided: int
    undecided: Collection[str]

    def record(self) -> SideRecord:
        reasons = Counter(self.pending.values())
        return SideRecord(
            nodes=self.nodes,
            pods=self.pods,
            pending=tuple(self.pending),
            reasons=dict(reasons.most_common()),
            quotas=self.quotas,
        )


def _side(cluster: Cluster, changes: Sequence[Change], look: Look, stop: Stop) -> _Side:
    with cluster.transaction():
        waited, budgets = set(cluster.pending()), AllowedDisruptions(cluster)
        if changes:
            daemon_sets = DaemonSets(cluster)
            for change in changes:
                change.apply(cluster)
            daemon_sets.follow()
        settling = Settling(cluster, budgets, stop)
        settling.settle_all(made=[key for key in cluster.pending() if key not in waited])
        look(cluster)
        state = cluster.state
        placed = len(state.placed_pods())
        quotas = quota_records(cluster.engine.frameworks.values())
        return _Side(
            state.table.count,
            placed,
            _homes(cluster),
            settling.stranded,
            settling.provisions,
            settling.notes,
            quotas,
            len(settling.found) + len(settling.stranded),
            settling.undecided,
        )


def _homes(cluster: Cluster) -> dict[str, str]:
    """The nodes of pods, except for those that belong to their node."""
    infos = cluster.state.placed_pods()
    return {info.key: info.node_name for info in infos if not belongs_to_node(info.pod)}


def _compared(homes: dict[str, str], before: _Side, after: _Side, changes: list[str]) -> WhatIfRecord:
    placed = {key: node for key, node in after.homes.items() if key not in before.homes and key not in before.undecided}
    unknown = {*before.undecided, *after.undecided}
    displaced = {
        key: after.homes.get(key, "")
        for key, node in homes.items()
        if after.homes.get(key) != node and key not in unknown
    }
    lost_room = {key: "" for key in before.homes if key not in homes and key not in after.homes and key not in unknown}
    partial = partial_of(before.decided + after.decided, len(before.undecided) + len(after.undecided))
    elsewhere = {
        key: (node, after.homes[key])
        for key, node in before.homes.items()
        if key not in homes and after.homes.get(key, node) != node
    }
    return WhatIfRecord(
        changes=tuple(changes),
        before=before.record(),
        after=after.record(),
        placed=placed,
        displaced=displaced | lost_room,
        elsewhere=elsewhere,
        notes=(*assumed(before.provisions | after.provisions), *after.notes, *([partial.note] if partial else [])),
        partial=partial,
    )
