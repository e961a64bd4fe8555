"""Predict a drain: where each pod goes, which are stranded, which budgets block it.

All the nodes are cordoned first, then emptied one after the other, like `kubectl drain`: pods of DaemonSets stay, pods
without a controller are lost, a pod protected by a disruption budget stays and blocks the drain. With `rolling`, at
most that many nodes are drained at a time, and return empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import takewhile

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.assumptions import Provision, assumed
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.what_if.answer_records import BlockRecord, DrainRecord, MoveRecord, StrandedRecord, partial_of
from stowplan.ask.what_if.budgets import AllowedDisruptions, Budgets
from stowplan.ask.what_if.hypothetical_claims import release_claims
from stowplan.ask.what_if.hypothetical_nodes import cordoned, node_named, pods_on
from stowplan.ask.what_if.settling import Settling
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.label_selectors import EVERYTHING, Selector
from stowplan.kube.api.meta import controller_of
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import listed

#: Pods that a note names.
_NAMED = 5


def drain(
    cluster: Cluster,
    nodes: str | Sequence[str],
    *,
    rolling: int | None = None,
    pods: Selector = EVERYTHING,
    budgets: bool = True,
    progress: Callable[[int, int], object] | None = None,
    stop: Stop = never,
) -> DrainRecord:
    """Where the pods of these nodes would go, and which would be stranded, lost or protected by a budget.

    `rolling`: number of nodes drained at a time, each returning after its turn; None: all, permanently. `pods`: labels
    of the pods that are drained. `budgets`: whether disruption budgets protect pods, as they do against evictions, but
    not against deletions. `progress` is called with the number of nodes that are empty, and their total. Once
    `stop`, which is asked between pods, returns True, the answer is what is known by then.

    Examples:
        >>> found = drain(cluster, ["node-b1"])
        >>> len(found.moves), len(found.stranded), len(found.blocked_by)
        (2, 4, 0)
    """
    names = [nodes] if isinstance(nodes, str) else list(dict.fromkeys(nodes))
    for name in names:
        node_named(cluster, name)
    if rolling is not None and not (isinstance(rolling, int) and rolling >= 1):
        raise ClusterError(f"nodes that are out at a time: want 1 or more, got {rolling!r}")
    with cluster.transaction():
        return _Drain(cluster, pods, budgets=budgets, progress=progress, stop=stop).run(names, rolling)


class _Drain:
    def __init__(
        self,
        cluster: Cluster,
        selector: Selector,
        *,
        budgets: bool,
        progress: Callable[[int, int], object] | None,
        stop: Stop,
    ) -> None:
        self._cluster = cluster
        self._stop = stop
        self._progress = progress
        self._emptied = self._total = 0
        self._selector = selector
        self._are_budgets_obeyed = budgets
        self._budgets = Budgets(cluster)
        self._allowed = AllowedDisruptions(cluster)
        self._moves: list[MoveRecord] = []
        self._stranded: dict[str, StrandedRecord] = {}
        self._blocks: list[BlockRecord] = []
        self._lost: list[str] = []
        self._empty_dir: dict[str, None] = {}
        self._displaced: dict[str, None] = {}
        self._waited: dict[str, None] = {}
        self._provisions: set[Provision] = set()
        self._stay = 0
        self._of_daemon_sets = False

    def run(self, names: list[str], rolling: int | None) -> DrainRecord:
        order = sorted(names, key=self._drain_order)
        self._total = len(order)
        if rolling is None:
            self._drain_nodes(order)
        else:
            for start in takewhile(lambda _: not self._stop(), range(0, len(order), rolling)):
                self._turn(order[start : start + rolling])
        left = self._left_on(order[self._emptied :], {block.pod for block in self._blocks})
        partial = partial_of(len(self._moves) + len(self._stranded), left)
        return DrainRecord(
            nodes=tuple(order),
            moves=tuple(self._moves),
            stranded=tuple(self._stranded.values()),
            blocked_by=tuple(self._blocks),
            lost=tuple(self._lost),
            empty_dir=tuple(self._empty_dir),
            stay=self._stay,
            displaced=tuple(self._displaced),
            notes=(*self._notes(), *([partial.note] if partial is not None else [])),
            partial=partial,
        )

    def _left_on(self, names: Sequence[str], blocked: Collection[str]) -> int:
        """The number of pods on these nodes whose turn has not come."""
        return sum(_is_evicted(info) and info.key not in blocked for name in names for info in self._pods_on(name))

    def _drain_order(self, name: str) -> tuple[int, int]:
        """A sort key: nodes without blocking budgets first, then by number of pods."""
        pods = self._pods_on(name)
        held = sum(self._refusal(info) is not None for info in pods if _is_evicted(info))
        return held, len(pods)

    def _pods_on(self, name: str) -> list[PodInfo]:
        return [info for info in pods_on(self._cluster, name) if self._selector.matches(info.pod.metadata.labels)]

    def _refusal(self, info: PodInfo) -> tuple[str, str] | None:
        """The budget that protects the pod, and why."""
        return self._budgets.refusal(info) if self._are_budgets_obeyed else None

    def _turn(self, names: list[str]) -> None:
        """Drain some nodes, then return them."""
        as_they_were = [node_named(self._cluster, name) for name in names]
        self._drain_nodes(names)
        for node in as_they_were:
            self._cluster.add(node)
        # There is room again for stranded pods.
        self._waited |= dict.fromkeys(self._try_again())

    def _drain_nodes(self, names: list[str]) -> None:
        for name in names:
            self._cluster.add(cordoned(node_named(self._cluster, name)))
        blocks: dict[str, BlockRecord] = {}
        for name in names:
            moves = len(self._moves)
            blocks |= self._empty([name])
            if self._stop() and self._left_on([name], blocks):
                break
            # Pods that find a node come before those of the next one, and return their disruptions.
            while (len(self._moves) > moves or name == names[-1]) and self._try_again() and blocks:
                blocks = self._empty(names, blocks)
            self._emptied += 1
            if self._progress is not None:
                self._progress(self._emptied, self._total)
        self._blocks += blocks.values()

    def _empty(self, names: list[str], only: Collection[str] | None = None) -> dict[str, BlockRecord]:
        """Evict the pods of these nodes, or `only` those; pod -> what blocks its eviction."""
        blocks = {}
        for name in names:
            for info in takewhile(lambda _: not self._stop(), self._pods_on(name)):
                block = self._evict(info, name) if only is None or info.key in only else None
                if block is not None:
                    blocks[info.key] = block
        return blocks

    def _try_again(self) -> list[str]:
        """Stranded pods that find a node now, such as one beside those that moved after it."""
        waiting, self._stranded = self._stranded, {}
        pods = [self._cluster.pod(key) for key in waiting]
        settling = Settling(self._cluster, self._allowed)
        settling.settle_pending(list(waiting))
        self._note(settling, {record.pod: record.from_ for record in waiting.values()})
        found = [info for info in pods if info.key in settling.found]
        for info in found:
            self._budgets.mark_recreated(info)
        return [info.key for info in found]

    def _evict(self, info: PodInfo, node: str) -> BlockRecord | None:
        outcome = eviction_outcome(info.pod)
        if outcome is EvictionOutcome.BELONGS_TO_NODE:
            self._stay += 1
            controller = controller_of(info.pod.metadata)
            self._of_daemon_sets |= controller is not None and controller.kind == "DaemonSet"
            return None
        if outcome is not EvictionOutcome.LEAVING and any(
            volume.empty_dir is not None for volume in info.pod.spec.volumes
        ):
            self._empty_dir[info.key] = None
        refusal = self._refusal(info) if outcome is not EvictionOutcome.LEAVING else None
        if refusal is not None:
            budget, why = refusal
            return BlockRecord(pod=info.key, node=node, budget=budget, reason=why)
        self._budgets.evicted(info)
        self._cluster.evict(info.key)
        if outcome is EvictionOutcome.LOST:
            self._lost.append(info.key)
            release_claims(self._cluster, [info.pod])
        elif outcome is EvictionOutcome.RECREATED:
            self._settle(info, node)
        return None

    def _settle(self, info: PodInfo, node: str) -> None:
        settling = Settling(self._cluster, self._allowed)
        settling.settle([info.pod])
        self._note(settling, {info.key: node})
        if info.key in settling.found:
            self._budgets.mark_recreated(info)

    def _note(self, settling: Settling, homes: dict[str, str]) -> None:
        """`homes`: pod -> the drained node; pods that were preempted move, too."""
        self._displaced |= settling.displaced
        self._provisions |= settling.provisions
        for key, to in settling.found.items():
            self._moves.append(MoveRecord(pod=key, from_=homes.get(key, ""), to=to))
        for key, why in settling.stranded.items():
            self._stranded[key] = StrandedRecord(pod=key, from_=homes.get(key, ""), reason=why)

    def _notes(self) -> list[str]:
        notes = [*assumed(self._provisions)]
        if self._budgets.worked_out:
            names = ", ".join(self._budgets.worked_out)
            notes.append(f"without a status, what these budgets allow was computed from the pods: {names}")
        if self._waited:
            pods = ", ".join(self._waited)
            notes.append(f"found a node only once one that was drained came back: {pods}")
        if self._lost:
            notes.append("pods without a controller are lost: kubectl drain asks for --force before it deletes them")
        if self._empty_dir:
            pods = listed(list(self._empty_dir), _NAMED)
            notes.append(f"the data in emptyDir volumes is lost, kubectl drain asks for --delete-emptydir-data: {pods}")
        if self._of_daemon_sets:
            notes.append("pods of DaemonSets stay: kubectl drain asks for --ignore-daemonsets")
        return notes


def _is_evicted(info: PodInfo) -> bool:
    return eviction_outcome(info.pod) in (EvictionOutcome.RECREATED, EvictionOutcome.LOST)
