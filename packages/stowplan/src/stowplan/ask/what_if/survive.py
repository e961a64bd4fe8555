"""Predict the loss of nodes, zones or racks, one at a time.

A loss is immediate and ignores budgets: the nodes are removed, and their pods are recreated and scheduled elsewhere.
Each loss is tried on the unchanged cluster.

Some pods certainly find another node, whichever it is. If a filter judges each node by itself, a node that fits a pod
keeps fitting it until some pod is added to it. So of ten pods, each finds a node if more than nine others fit it now.
Filters that count pods on other nodes can often name sets of nodes, one of which they always accept: of the zones over
which a pod must spread, the one with the fewest pods. To predict the loss of a node this is often all that has to be
known, and it is the same for all pods of a shape, whichever node is lost.

For the loss of a zone, nodes count as often as they have room for the largest of the pods, if nothing but its room
decides whether a node takes one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

import numpy as np

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.assumptions import Provision, assumed
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.what_if.answer_records import LossRecord, StrandedRecord, SurviveRecord, partial_of
from stowplan.ask.what_if.budgets import AllowedDisruptions
from stowplan.ask.what_if.copies import RoomForAny
from stowplan.ask.what_if.hypothetical_claims import release_claims, uses_claims
from stowplan.ask.what_if.hypothetical_nodes import nodes_of, pods_on, zone_of
from stowplan.ask.what_if.hypothetical_pods import compiled_copies
from stowplan.ask.what_if.settling import FirstWaiting, Settling
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape, uid_of
from stowplan.scheduler.framework.explanations.formatting import count, listed


class _Fitting(PlainStruct, frozen=True):
    """`Cluster.guaranteed_feasible_sets` of a shape."""

    #: A pod of it, without a node.
    pod: PodInfo
    #: Each with its number of rows.
    sets: list[tuple[Mask, int]]
    pods_matter: bool


class CertainPods:
    """Valid while the cluster does not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting = FirstWaiting(cluster)
        #: By shape of the placed pod and number of lost nodes; None: unknown.
        self._fitting: dict[tuple[PodShape, int], _Fitting | None] = {}

    def find_nodes(self, pods: Sequence[PodInfo], lost: Sequence[str]) -> bool:
        """Whether all of these pods certainly find a node, without preemption, once those on the lost nodes are gone.

        `pods` are on lost nodes, and will be recreated. False: it is unknown.
        """
        rows = [self._cluster.state.table.row_of[name] for name in lost]
        for info in pods:
            if info.pod.spec.scheduling_group is not None or uses_claims(info.pod) or self._waiting.before(info):
                return False
        fitting: list[_Fitting] = []
        for shape, info in {info.shape: info for info in pods}.items():
            key = shape, len(rows)
            if key not in self._fitting:
                self._fitting[key] = self._fitting_of(info, len(rows))
            found = self._fitting[key]
            if found is None:
                return False
            fitting.append(found)
        few = [
            one
            for one in fitting
            if any(size - int(np.count_nonzero(mask[rows])) < len(pods) for mask, size in one.sets)
        ]
        if not few or any(one.pods_matter for one in few):
            return not few
        room = RoomForAny(self._cluster, {one.pod.shape for one in fitting})
        for one in few:
            copies = room.beside_others(one.pod)
            copies[rows] = 0
            if any(int(copies[mask].sum()) < len(pods) for mask, _ in one.sets):
                return False
        return True

    def _fitting_of(self, info: PodInfo, lost: int) -> _Fitting | None:
        (fresh,) = compiled_copies(self._cluster.state, [info])
        found = self._cluster.guaranteed_feasible_sets(fresh, lost)
        if found is None:
            return None
        return _Fitting(fresh, [(one, int(np.count_nonzero(one))) for one in found.sets], found.pods_matter)


NODE = "node"
ZONE = "topology.kubernetes.io/zone"


def survive(
    cluster: Cluster,
    by: str | None = None,
    *,
    only: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    stop: Stop = never,
) -> SurviveRecord:
    """Lose each node or zone in turn: which pods would find no other node. The worst loss comes first.

    `by`: "node", or a node label; None: zones if there are several, otherwise nodes.

    `only`: a single value of it. `progress` is called with the number of losses tried, and their total. Once `stop`,
    which is asked between pods, returns True, the answer is what is known by then.

    Examples:
        >>> worst = survive(cluster).losses[0]
        >>> worst.lost, worst.moved, worst.stranded[0].pod
        ('b', 5, 'shop/db-1')
    """
    by = by or _usual(cluster)
    groups, without = _groups(cluster, by)
    if only is not None:
        if only not in groups:
            known = f"; there are {listed(sorted(groups), 5)}"
            raise ClusterError(f'no node has {by} "{only}"{known}' if by != NODE else f'node "{only}" not found')
        groups = {only: groups[only]}
    losses, certain, provisions = [], CertainPods(cluster), set[Provision]()
    budgets = AllowedDisruptions(cluster)
    for number, (lost, names) in enumerate(groups.items(), start=1):
        losses.append(_loss(cluster, certain, Settling(cluster, budgets, stop), lost, names, provisions))
        if progress is not None:
            progress(number, len(groups))
    notes = [f"not tried: the loss of {count(without, 'node')} without the label {by}"] if without else []
    notes += assumed(provisions)
    decided = sum(loss.moved + len(loss.stranded) for loss in losses)
    partial = partial_of(decided, sum(loss.undecided for loss in losses))
    notes += [partial.note] if partial is not None else []
    losses.sort(key=lambda loss: (-len(loss.stranded) - len(loss.gone), -len(loss.displaced), -loss.pods, loss.lost))
    return SurviveRecord(by=by, losses=tuple(losses), notes=tuple(notes), partial=partial)


def _usual(cluster: Cluster) -> str:
    zones = {zone_of(node) for node in nodes_of(cluster)}
    return ZONE if len(zones - {""}) > 1 else NODE


def _groups(cluster: Cluster, by: str) -> tuple[dict[str, list[str]], int]:
    """Group -> its nodes; and the number of nodes in no group."""
    groups: dict[str, list[str]] = {}
    without = 0
    for node in nodes_of(cluster):
        name = node.metadata.name
        value = name if by == NODE else node.metadata.labels.get(by)
        if value is None:
            without += 1
        else:
            groups.setdefault(value, []).append(name)
    if not groups and by != NODE:
        labels = {label for node in nodes_of(cluster) for label in node.metadata.labels}
        near = sorted(label for label in labels if label.endswith(f"/{by}")) or get_close_matches(by, labels, n=1)
        raise ClusterError(f'no node has the label "{by}"' + (f"; did you mean {near[0]}?" if near else ""))
    return groups, without


def _loss(
    cluster: Cluster,
    certain: CertainPods,
    settling: Settling,
    lost: str,
    names: list[str],
    provisions: set[Provision],
) -> LossRecord:
    pods = [info for name in names for info in pods_on(cluster, name)]
    homes = {info.key: info.node_name for info in pods}
    outcomes = {info.key: eviction_outcome(info.pod) for info in pods}
    back = [info for info in pods if outcomes[info.key] is EvictionOutcome.RECREATED]
    moved = 0
    if settling.is_stopped_before(back):
        pass
    elif certain.find_nodes(back, names):
        moved = len(back)
    else:
        _settle(cluster, settling, names, pods, back)
        moved = sum(key in homes for key in settling.found)
        provisions |= settling.provisions
    return LossRecord(
        lost=lost,
        nodes=len(names),
        pods=sum(outcome is not EvictionOutcome.BELONGS_TO_NODE for outcome in outcomes.values()),
        moved=moved,
        stranded=tuple(
            StrandedRecord(pod=key, from_=homes.get(key, ""), reason=why) for key, why in settling.stranded.items()
        ),
        gone=tuple(key for key, outcome in outcomes.items() if outcome is EvictionOutcome.LOST),
        displaced=tuple(settling.displaced),
        survived=not (settling.stranded or settling.undecided) and EvictionOutcome.LOST not in outcomes.values(),
        undecided=len(settling.undecided),
    )


def _settle(cluster: Cluster, settling: Settling, names: list[str], pods: list[PodInfo], back: list[PodInfo]) -> None:
    """Lose the nodes, and see where their pods go."""
    with cluster.transaction():
        cluster.state.remove_nodes(names)
        # Pods on removed nodes do not count anywhere, so they need not be removed to see where their copies go.
        if not settling.foresee(back) and not settling.is_stopped_before(back):
            returning = [info.pod for info in back]
            _evict(cluster, pods, returning)
            settling.settle(returning)


def _evict(cluster: Cluster, pods: list[PodInfo], back: list[Pod]) -> None:
    leaving = [info.pod for info in pods]
    for info in pods:
        cluster.evict(info.key)
    # Recreated pods release their claims when they are recreated.
    returning = {uid_of(pod) for pod in back}
    release_claims(cluster, (pod for pod in leaving if uid_of(pod) not in returning))
