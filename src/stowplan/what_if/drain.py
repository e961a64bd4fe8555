"""Predict a drain: where each pod goes, which are stranded, which budgets block it.

All the nodes are cordoned first, then emptied one after the other, like `kubectl drain`: pods of DaemonSets stay, pods
without a controller are lost, a pod protected by a disruption budget stays and blocks the drain. With `rolling`, at
most that many nodes are drained at a time, and return empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.offline import ClusterError
from stowplan.what_if.budgets import Budgets
from stowplan.what_if.claims import let_go
from stowplan.what_if.nodes import cordoned, node_named, pods_on
from stowplan.what_if.pods import Fate, fate_of
from stowplan.what_if.records import BlockRecord, DrainRecord, MoveRecord, StrandedRecord
from stowplan.what_if.settling import Settling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.offline import Cluster


def drain(cluster: Cluster, nodes: Sequence[str], *, rolling: int | None = None) -> DrainRecord:
    """Where the pods of these nodes would go, and which would be stranded, lost or protected by a budget.

    `rolling`: number of nodes drained at a time, each returning after its turn; None: all, permanently.

    Examples:
        >>> found = drain(cluster, ["node-b1"])
        >>> len(found.moves), len(found.stranded), len(found.blocked_by)
        (2, 4, 0)
    """
    for name in nodes:
        node_named(cluster, name)
    if rolling is not None and rolling < 1:
        raise ClusterError(f"nodes that are out at a time: want 1 or more, got {rolling}")
    with cluster.transaction():
        return _Drain(cluster).run(list(dict.fromkeys(nodes)), rolling)


class _Drain:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._budgets = Budgets(cluster)
        self._moves: list[MoveRecord] = []
        self._stranded: dict[str, StrandedRecord] = {}
        self._blocks: list[BlockRecord] = []
        self._lost: list[str] = []
        self._displaced: dict[str, None] = {}
        self._waited: dict[str, None] = {}
        self._stay = 0

    def run(self, names: list[str], rolling: int | None) -> DrainRecord:
        order = sorted(names, key=self._trouble)
        if rolling is None:
            self._out(order)
        else:
            for start in range(0, len(order), rolling):
                self._turn(order[start : start + rolling])
        return DrainRecord(
            nodes=tuple(order),
            moves=tuple(self._moves),
            stranded=tuple(self._stranded.values()),
            blocked_by=tuple(self._blocks),
            lost=tuple(self._lost),
            stay=self._stay,
            displaced=tuple(self._displaced),
            notes=tuple(self._notes()),
        )

    def _trouble(self, name: str) -> tuple[int, int]:
        """A sort key: nodes without blocking budgets first, then by number of pods."""
        pods = pods_on(self._cluster, name)
        held = sum(self._budgets.refusal(info) is not None for info in pods if _is_evicted(info))
        return held, len(pods)

    def _turn(self, names: list[str]) -> None:
        """Drain some nodes, then return them."""
        as_they_were = [node_named(self._cluster, name) for name in names]
        self._out(names)
        for node in as_they_were:
            self._cluster.add(node)
        # There is room again for stranded pods.
        waiting, self._stranded = self._stranded, {}
        for record in waiting.values():
            self._settle(self._cluster.pod(record.pod), record.from_)
            if record.pod not in self._stranded:
                self._waited[record.pod] = None

    def _out(self, names: list[str]) -> None:
        for name in names:
            self._cluster.add(cordoned(node_named(self._cluster, name)))
        for name in names:
            for info in pods_on(self._cluster, name):
                self._evict(info, name)

    def _evict(self, info: PodInfo, node: str) -> None:
        fate = fate_of(info.pod)
        if fate is Fate.BELONGS_TO_NODE:
            self._stay += 1
            return
        refusal = self._budgets.refusal(info) if fate is not Fate.LEAVING else None
        if refusal is not None:
            budget, why = refusal
            self._blocks.append(BlockRecord(pod=info.key, node=node, budget=budget, reason=why))
            return
        self._budgets.evicted(info)
        self._cluster.evict(info.key)
        if fate is Fate.LOST:
            self._lost.append(info.key)
            let_go(self._cluster, [info.pod])
        elif fate is Fate.RECREATED:
            self._settle(info, node)

    def _settle(self, info: PodInfo, node: str) -> None:
        settling = Settling(self._cluster)
        settling.settle([info.pod])
        self._displaced |= settling.displaced
        for key, to in settling.found.items():
            # Pods that were preempted by it move, too.
            self._moves.append(MoveRecord(pod=key, from_=node if key == info.key else "", to=to))
        for key, why in settling.stranded.items():
            self._stranded[key] = StrandedRecord(pod=key, from_=node if key == info.key else "", reason=why)
        if info.key in settling.found:
            self._budgets.back(info)

    def _notes(self) -> list[str]:
        notes = []
        if self._budgets.worked_out:
            names = ", ".join(self._budgets.worked_out)
            notes.append(f"without a status, what these budgets allow was computed from the pods: {names}")
        if self._waited:
            pods = ", ".join(self._waited)
            notes.append(f"found a node only once one that was drained came back: {pods}")
        if self._lost:
            notes.append("pods without a controller are lost: kubectl drain asks for --force before it deletes them")
        return notes


def _is_evicted(info: PodInfo) -> bool:
    return fate_of(info.pod) in (Fate.RECREATED, Fate.LOST)
