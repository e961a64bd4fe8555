"""Moves, made one after the other in the caller's transaction.

A pod leaves its node and is placed anew by the scheduler, with every plugin. The move stands if the pod gets another
node without evicting anybody, and otherwise never happened: what cannot come back is not moved. Later moves see earlier
ones.

Moves are made in *steps*: those of one step may be carried out at the same time. A step ends when a disruption budget,
or the number of pods that may be out at once, allows no more. The replacements run before the next one begins, and
their disruptions are returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from enum import Enum
from itertools import takewhile
from typing import TypeVar

from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.ask.offline.assumptions import Provision
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.rebalance.plan_records import KeptRecord, PlannedMoveRecord, RemovalRecord
from stowplan.ask.what_if.budgets import Budgets
from stowplan.ask.what_if.hypothetical_claims import bind_claims_of
from stowplan.ask.what_if.hypothetical_nodes import cordoned, node_named
from stowplan.ask.what_if.settling import put_back
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_info import NOT_STARTED, PodInfo, PodShape
from stowplan.scheduler.engine.decision.decision import Decision

T = TypeVar("T")

#: Why a pod cannot move, by what happens when it leaves its node.
_STAYS = {
    EvictionOutcome.BELONGS_TO_NODE: "it belongs to its node",
    EvictionOutcome.LEAVING: "it is being deleted already",
    EvictionOutcome.LOST: "no controller would recreate it",
}


class Outcome(Enum):
    MOVED = "moved"
    KEPT = "kept"
    #: Not tried: as many have moved as may, or all are stopped.
    TOTAL_LIMIT = "total limit"


class Limits(PlainStruct, frozen=True):
    """How many pods may move; None: any number."""

    total: int | None = None
    #: In one step: in all, and of one owner.
    at_once: int | None = None
    at_once_per_owner: int | None = None
    #: Seconds of work that a pod may lose.
    lost_work: float | None = None
    #: Asked before each move: once it returns True, no more are made.
    stop: Stop = never


class _Progress(PlainStruct):
    """What is undone with the moves of an attempt."""

    #: By pod, in the order in which they are made.
    made: dict[str, PlannedMoveRecord] = field(default_factory=dict)
    removed: dict[str, RemovalRecord] = field(default_factory=dict)
    #: The pods of the present step, as they were, and their number by owner.
    out: list[PodInfo] = field(default_factory=list)
    out_of: Counter[str] = field(default_factory=Counter)
    step: int = 1
    #: Nodes that are cordoned since the last move, before the next one.
    cordoned: list[str] = field(default_factory=list)

    def copy(self) -> _Progress:
        copies = (copy(getattr(self, name)) for name in self.__struct_fields__)
        return _Progress(*copies)


class Attempt(PlainStruct):
    succeeded: bool = False

    def succeed(self) -> None:
        self.succeeded = True


class Moves:
    def __init__(self, cluster: Cluster, limits: Limits | None = None) -> None:
        self.cluster = cluster
        self._limits = limits or Limits()
        self._budgets = Budgets(cluster)
        self._progress = _Progress()
        self._kept: dict[str, KeptRecord] = {}
        #: Cordoned nodes, as they were.
        self._before: dict[str, Node] = {}
        #: Pods of these shapes find no node, as long as nothing changes -> why.
        self._nowhere: dict[tuple[PodShape, str], str] = {}
        self.provisions: set[Provision] = set()
        #: The limit of all moves, if some were not tried because of it.
        self.reached_limit: int | None = None
        #: Whether moves were not tried because of `stop`.
        self.stopped = False

    @property
    def made(self) -> list[PlannedMoveRecord]:
        return list(self._progress.made.values())

    @property
    def removed(self) -> list[RemovalRecord]:
        return list(self._progress.removed.values())

    @property
    def kept(self) -> list[KeptRecord]:
        return [record for key, record in self._kept.items() if key not in self._progress.made]

    @property
    def worked_out(self) -> list[str]:
        """Budgets without a status, whose status was computed."""
        return self._budgets.worked_out

    def has_moved(self, info: PodInfo) -> bool:
        return info.key in self._progress.made

    def may_make(self, more: int) -> bool:
        """Whether so many more pods may move."""
        if self.is_stopped():
            return False
        total, progress = self._limits.total, self._progress
        if total is not None and len(progress.made) + len(progress.removed) + more > total:
            self.reached_limit = total
            return False
        return True

    def is_stopped(self) -> bool:
        self.stopped = self.stopped or self._limits.stop()
        return self.stopped

    def until_stopped(self, tried: Iterable[T]) -> Iterator[T]:
        return takewhile(lambda _: not self.is_stopped(), tried)

    def is_movable(self, info: PodInfo) -> bool:
        """Whether it would be recreated, and has not moved yet; budgets apart."""
        is_recreated = eviction_outcome(info.pod) is EvictionOutcome.RECREATED
        return is_recreated and not self.has_moved(info) and not self._loses_too_much(info)

    def cordon(self, name: str) -> None:
        """Before a node's first pod leaves."""
        node = node_named(self.cluster, name)
        if not node.spec.unschedulable:
            self._before[name] = node
            self.cluster.add(cordoned(node))
            self._progress.cordoned.append(name)
            # None of them is to run on while others consider the node.
            self._nowhere.clear()

    def uncordon(self, names: Iterable[str]) -> None:
        """Those that were cordoned here."""
        for name in names:
            if name in self._before:
                self.cluster.add(self._before[name])

    def forget_kept(self) -> None:
        """The goal is met without them."""
        self._kept.clear()

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Moves inside are undone unless the attempt succeeds."""
        progress, budgets, attempt = self._progress.copy(), self._budgets.saved(), Attempt()
        with self.cluster.transaction() as transaction:
            yield attempt
            if attempt.succeeded:
                transaction.commit()
        if not attempt.succeeded:
            self._progress = progress
            self._budgets.restore(budgets)
            self._nowhere.clear()

    def move(self, info: PodInfo, reason: str, worthwhile: Callable[[str], str] | None = None) -> Outcome:
        """`worthwhile`: why the move to a node is not, once it is made; "" if it is."""
        if not self.may_make(1):
            return Outcome.TOTAL_LIMIT
        # Whoever loses its node forgets it.
        node = info.node_name
        kept = self._reason_to_stay(info) or self._try(info, node, worthwhile or _is_always, reason)
        if kept:
            self._kept[info.key] = KeptRecord(pod=info.key, node=node, reason=reason, kept=kept)
            return Outcome.KEPT
        return Outcome.MOVED

    def remove(self, pod: Pod, reason: str) -> Outcome:
        """Delete a pod that has ended: budgets do not count it, and no node has to take it."""
        if not self.may_make(1):
            return Outcome.TOTAL_LIMIT
        key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        if key in self._progress.removed or pod.metadata.deletion_timestamp is not None:
            return Outcome.KEPT
        self._progress.removed[key] = RemovalRecord(pod=key, node=pod.spec.node_name, reason=reason)
        return Outcome.MOVED

    # -- whether it may move -------------------------------------------------------------------------------------------

    def _reason_to_stay(self, info: PodInfo) -> str:
        outcome = eviction_outcome(info.pod)
        if outcome in _STAYS:
            return _STAYS[outcome]
        if self.has_moved(info):
            return "it has moved once"
        if self._loses_too_much(info):
            return "it would begin its work anew"
        return self._refused(info)

    def _loses_too_much(self, info: PodInfo) -> bool:
        most = self._limits.lost_work
        return most is not None and lost_work(info, self.cluster.now) > most

    def _refused(self, info: PodInfo) -> str:
        """Why its budgets refuse it in this step, and in the next one."""
        refusal = self._budgets.refusal(info)
        if refusal is not None and self._progress.out:
            self._end_step()
            refusal = self._budgets.refusal(info)
        return "" if refusal is None else f"{refusal[0]}: {refusal[1]}"

    def _end_step(self) -> None:
        progress = self._progress
        for info in progress.out:
            self._budgets.mark_recreated(info)
        progress.out.clear()
        progress.out_of.clear()
        progress.step += 1

    # -- the move ------------------------------------------------------------------------------------------------------

    def _try(self, info: PodInfo, before: str, worthwhile: Callable[[str], str], reason: str) -> str:
        """Move the pod, or say why not."""
        cluster = self.cluster
        known = self._nowhere.get((info.shape, before))
        if known is not None:
            return known
        with cluster.transaction() as transaction:
            cluster.evict(info.key)
            # Nobody is evicted for it.
            meek = replace(info.pod, spec=replace(info.pod.spec, preemption_policy="Never"))
            (key,) = put_back(cluster, [meek])
            provisions = bind_claims_of(cluster, [cluster.pod(key).pod])
            to, why_not = self._place(cluster.pod(key))
            if to == before:
                return "the scheduler would put it on the same node again"
            if not to:
                self._nowhere[info.shape, before] = why_not
                return why_not
            why_not = worthwhile(to)
            if why_not:
                return why_not
            transaction.commit()
        self.provisions |= provisions
        self._note(info, before, to, reason)
        return ""

    def _place(self, pod: PodInfo) -> tuple[str, str]:
        """The new node, or "" and why there is none."""
        framework = self.cluster.engine.framework_for(pod)
        if framework is None:
            return "", f'no profile schedules for "{pod.shape.scheduler_name}"'
        decision = self.cluster.places([pod.key])[0]
        return decision.node_name, "" if decision.node_name else _refusal(decision)

    def _note(self, info: PodInfo, before: str, to: str, reason: str) -> None:
        progress, limits, owner = self._progress, self._limits, _owner_of(info)
        full = limits.at_once is not None and len(progress.out) >= limits.at_once
        if full or (limits.at_once_per_owner is not None and progress.out_of[owner] >= limits.at_once_per_owner):
            self._end_step()
        self._nowhere.clear()
        self._budgets.evicted(info)
        progress.out.append(info)
        progress.out_of[owner] += 1
        progress.made[info.key] = PlannedMoveRecord(
            pod=info.key,
            from_=before,
            to=to,
            reason=reason,
            step=progress.step,
            cordons=before in progress.cordoned,
            loses_data=any(volume.empty_dir is not None for volume in info.pod.spec.volumes),
            lost_work=round(lost_work(info, self.cluster.now)),
        )
        if before in progress.cordoned:
            progress.cordoned.remove(before)


def lost_work(info: PodInfo, now: float) -> float:
    """For how many seconds a pod has worked on what its replacement begins anew."""
    if info.start_time == NOT_STARTED or info.pod.spec.restart_policy not in ("Never", "OnFailure"):
        return 0.0
    return max(0.0, now - info.start_time / 1e9)


def _refusal(decision: Decision) -> str:
    # Without what it says of preemption.
    return f"no other node takes it: {decision.message.partition('. ')[0]}"


def _is_always(to: str) -> str:
    return ""


def _owner_of(info: PodInfo) -> str:
    owner = controller_of(info.pod.metadata)
    return info.key if owner is None else f"{owner.kind} {info.namespace}/{owner.name}"
