"""The preemption dry run: which nodes would fit after evictions, and the victims on each.

For each node the reference removes every lower-priority pod, checks whether the pod fits, and adds the pods back one by
one, most important first, as long as it still fits; those that cannot be added back are the victims. Nodes are
independent of each other, so they are processed together: the k-th most important pods of all nodes are added back in
one step over arrays. A step costs nearly the same for one node as for five thousand.

Plugins bring rules of their own: which pods may be evicted (`EvictionRules`), or what depends on the pods evicted
before on the same node (`NodeRules`).

Since 1.37, groups may be evicted as a whole (`victims`): then the k-th most important units are added back in one
step, each with its pods on the node.

Upstream: pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption;
docs/reference/behaviour.md, Preemption.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.api.types import PodDisruptionBudget, PodGroup
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.runtime import nominated_pods as nominated
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.scheduler.preemption.candidates import NO_VICTIMS, Candidates
from stowplan.scheduler.preemption.disruption_budgets import violating_pods
from stowplan.scheduler.preemption.victims import (
    Importance,
    PodsOnNodes,
    VictimUnits,
    lower_priority_pods,
    units_of_pods,
)

#: Memo key for the result of a diagnosis' dry run.
_OUTCOME = "dry run"


class EvictionRules(Protocol):
    """Which pods of lower priority may be evicted in favor of a pod; for plugins that preempt by rules of their own."""

    def may_evict(self, victim: PodInfo) -> bool | Status:
        """A Status is an error: the victim's node is no candidate."""

    def no_victims(self, node_name: str) -> str:
        """Why a node without pods that may be evicted is no candidate."""


class NodeRules(Protocol):
    """Rules that count what is evicted; each node is a world of its own. Nodes are given by their rows."""

    def may_evict(self, pods: PodsOnNodes) -> Mask:
        """Which pods may be evicted, in this order: by node, least important first."""

    def no_victims(self, node_name: str) -> str:
        """Why a node without pods that may be evicted is no candidate."""

    def move(self, pods: PodsOnNodes, sign: int) -> None:
        """Count pods as evicted (sign -1), or as added back (1)."""

    def hopeless(self, rows: Rows) -> tuple[Mask, str]:
        """Nodes that are no candidates even without all their victims, and why."""

    def exceeded(self, rows: Rows) -> Mask:
        """Nodes on which the pod that was just added back has to be evicted, although the filters let it stay."""


def dry_run(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Candidates:
    """Simulate evictions on every node whose rejection they could resolve.

    For equal pods that fail for the same reasons, the result is reused while nothing has changed.
    """
    cluster = framework.handle.cluster
    nominator = cluster.nominator
    # With nominated pods the result may depend on the pod itself: its own nomination and its labels matter.
    who = (pod.shape, pod.uid if nominator.node_of(pod.uid) else "") if nominator else None
    version = (_cluster_version(cluster), pod.priority, who)
    known: Candidates | None = diagnosis.memos.memo(_OUTCOME, version)
    if known is None:
        known = _dry_run(framework, state, pod, diagnosis)
        diagnosis.memos.remember(_OUTCOME, version, known)
    return known


def _cluster_version(cluster: ClusterState) -> tuple[int, ...]:
    """What a dry run depends on besides its diagnosis, which covers the lookup objects that plugins depend on."""
    return (
        cluster.table.generation,
        cluster.objects.version(PodDisruptionBudget),
        cluster.objects.version(PodGroup),
        cluster.changes.position,
        cluster.pods.version,
        cluster.nominator.version,
    )


def dry_run_by_rules(
    rules: EvictionRules, framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> Candidates:
    """Simulate evictions that the rules allow, of single pods. The result is not reused."""
    cluster = framework.handle.cluster
    outcome, potential = _begun(cluster, diagnosis)
    slots = _allowed(rules, cluster, lower_priority_pods(cluster.pods, pod.priority, potential), potential, outcome)
    rows = np.flatnonzero(np.bincount(cluster.pods.row[slots]))
    if len(slots):
        _Simulation(framework, state, pod, rows, slots, None).run(outcome)
    return outcome


def dry_run_by_node(
    rules: NodeRules, framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> Candidates:
    """Simulate evictions of single pods by rules that count them. The result is not reused."""
    cluster = framework.handle.cluster
    pods, names = cluster.pods, cluster.table.names
    outcome, potential = _begun(cluster, diagnosis)
    here = pods.row[: pods.n]
    slots = Importance(pods).ascending(np.flatnonzero((here >= 0) & potential[here]))
    slots = slots[rules.may_evict(PodsOnNodes.of_slots(pods, slots))]
    rows = np.unique(pods.row[slots])
    for row in np.setdiff1d(np.flatnonzero(potential), rows).tolist():
        outcome.failures[rules.no_victims(names[row])] += 1
    if len(slots):
        _Simulation(framework, state, pod, rows, slots, None, rules).run(outcome)
    return outcome


def _allowed(rules: EvictionRules, cluster: ClusterState, slots: Ints, potential: Mask, outcome: Candidates) -> Ints:
    """The slots that may be evicted, without those on nodes where that is an error."""
    pods, names = cluster.pods, cluster.table.names
    answers = [rules.may_evict(info) if (info := pods.infos[slot]) is not None else False for slot in slots.tolist()]
    rows = pods.row[slots]
    failed = {int(row): answer for row, answer in zip(rows, answers, strict=True) if isinstance(answer, Status)}
    if failed:
        outcome.error = _errors_of({row: answer.message for row, answer in failed.items()})
    fine = ~np.isin(rows, list(failed)) & np.array([answer is True for answer in answers], np.bool_)
    for row in np.setdiff1d(np.flatnonzero(potential), rows[fine]).tolist():
        if row not in failed:
            outcome.failures[rules.no_victims(names[row])] += 1
    allowed: Ints = slots[fine]
    return allowed


def _errors_of(failed: Mapping[int, str]) -> Status:
    """Errors of nodes as one, in the order of their rows."""
    return error(aggregate(failed[row] for row in sorted(failed)))


def _begun(cluster: ClusterState, diagnosis: Diagnosis) -> tuple[Candidates, Mask]:
    """An empty result, and the nodes whose rejection evictions could resolve."""
    outcome = Candidates(cluster, diagnosis.nodes)
    potential: Mask = diagnosis.codes == int(Code.Unschedulable)
    outcome.tried = int(potential.sum())
    return outcome, potential


def _dry_run(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Candidates:
    cluster = framework.handle.cluster
    outcome, potential = _begun(cluster, diagnosis)
    units = units_of_pods(cluster, framework.handle.features)
    slots = lower_priority_pods(
        cluster.pods, pod.priority, potential, of_pods=None if units is None else units.priority
    )
    # Cheaper than sorting the rows of all pods.
    rows = np.flatnonzero(np.bincount(cluster.pods.row[slots]))
    if outcome.tried > len(rows):
        outcome.failures[NO_VICTIMS] = outcome.tried - len(rows)
    if len(slots):
        _Simulation(framework, state, pod, rows, slots, units).run(outcome)
    return outcome


class _Simulation:
    """All potential nodes, each changed independently.

    Victims are in flat arrays sorted by node, then importance; `starts` and `counts` delimit the nodes. A *block* is
    the part of a unit that is on one node: `blocks` has the index of its first pod. Without units each pod is a block.
    """

    def __init__(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        rows: Ints,
        slots: Ints,
        units: VictimUnits | None,
        rules: NodeRules | None = None,
    ) -> None:
        """With rules, `slots` are in the order in which pods were chosen."""
        self.framework, self.pod, self.units, self.rules = framework, pod, units, rules
        self.cluster = framework.handle.cluster
        self.pods = self.cluster.pods
        self.state = state.clone()
        self.rows = rows.astype(np.intp)
        self.importance = Importance(self.pods)
        if units is None:
            self.slots = self.importance.sort(slots, came=None if rules is None else np.arange(len(slots)))
        else:
            self.slots = units.sort(slots, self.pods.row[slots])
        self.position = np.searchsorted(self.rows, self.pods.row[self.slots])
        self._index()
        self.nodes = HypotheticalNodes(self.cluster, self.rows)
        self.ahead = nominated.nominated_ahead(self.cluster, pod)
        self.arrivals = nominated.Arrivals(self.cluster, self.rows, self.ahead)
        self.extended = framework.has_active_pod_extensions(state)
        self.listed = nominated.lists_pods(framework, state, pod)
        #: Row -> why its node is given up by an error.
        self.failed: dict[int, str] = {}

    def _index(self) -> None:
        self.judged = None if self.rules is None else PodsOnNodes.of_slots(self.pods, self.slots)
        self.counts = np.bincount(self.position, minlength=len(self.rows))
        self.starts = np.cumsum(self.counts) - self.counts
        if self.units is None:
            self.blocks, self.block_position = np.arange(len(self.slots)), self.position
            self.block_counts, self.block_starts = self.counts, self.starts
            return
        unit = self.units.unit[self.slots]
        begins = (np.diff(self.position, prepend=-1) != 0) | (np.diff(unit, prepend=-1) != 0)
        self.blocks = np.flatnonzero(begins)
        self.block_position = self.position[self.blocks]
        self.block_counts = np.bincount(self.block_position, minlength=len(self.rows))
        self.block_starts = np.cumsum(self.block_counts) - self.block_counts

    def run(self, outcome: Candidates) -> None:
        error = self._remove_all() or self._drop_hopeless(outcome)
        if error is None and len(self.rows):
            violations = self._violations()
            victims = self._reprieve(violations > 0)
            if isinstance(victims, Status):
                error = victims
            else:
                self._report(outcome, victims, violations)
        if self.failed:
            error = _errors_of(self.failed)
        outcome.error = outcome.error or error

    def _violations(self) -> Ints:
        """The number of each block's pods whose eviction exceeds a budget; all pods of its unit count."""
        if self.units is None:
            mask = violating_pods(self.cluster, self.pods, self.slots, self.starts, self.counts)
            return mask.astype(np.int64)
        pods, sizes = self._pods_of_units(self.blocks)
        counts = np.bincount(self.block_position, weights=sizes, minlength=len(self.rows)).astype(np.int64)
        mask = violating_pods(self.cluster, self.pods, pods, np.cumsum(counts) - counts, counts)
        found: Ints = np.add.reduceat(mask.astype(np.int64), np.cumsum(sizes) - sizes)
        return found

    def _pods_of_units(self, at: Rows) -> tuple[Ints, Ints]:
        """All pods of the units of these pods, one unit after the other, and the size of each unit."""
        assert self.units is not None
        each = [self.units.pods_of(slot) for slot in self.slots[at].tolist()]
        sizes = np.array([len(slots) for slots in each], np.int64)
        return np.concatenate(each) if each else np.zeros(0, np.int64), sizes

    def _report(self, outcome: Candidates, victims: Mask, violations: Ints) -> None:
        fine = ~np.isin(self.rows, list(self.failed))
        victims &= fine[self.block_position]
        at = self.block_position[victims]
        kept = np.bincount(at, minlength=len(self.rows))
        if not kept[fine].all():
            spared = self.cluster.table.names[self.rows[int(np.flatnonzero((kept == 0) & fine)[0])]]
            text = f'expected at least one victim pod on node "{spared}"'
            outcome.error = Status(Code.Error, error=RuntimeError(text))
        has = kept > 0
        if self.units is None:
            slots = self.importance.of_victims(self.slots, self.position, victims, violations > 0)
        else:
            slots, sizes = self._pods_of_units(self.blocks[victims])
            kept = np.bincount(at, weights=sizes, minlength=len(self.rows)).astype(np.int64)
        counted = np.where(self.beyond_rules, 0, violations)[victims]
        exceeding = np.bincount(at, weights=counted, minlength=len(self.rows)).astype(np.int64)
        starts = (np.cumsum(kept) - kept)[has]
        outcome.found(self.rows[has], starts, slots, exceeding[has])

    # -- adding and removing pods --------------------------------------------------------------------------------------

    def _remove_all(self) -> Status | None:
        shapes = self.pods.shape[self.slots]
        gone = np.add.reduceat(self.pods.shape_requests[:, shapes], self.starts, axis=1)
        non_zero = np.add.reduceat(self.pods.shape_non_zero[:, shapes], self.starts, axis=1)
        self.nodes.shift(np.arange(len(self.rows)), gone, non_zero, -1, pods=self.counts)
        if self.rules is not None and self.judged is not None:
            self.rules.move(self.judged, -1)
        if self.listed:
            for position, slot in zip(self.position.tolist(), self.slots.tolist(), strict=True):
                info = self.pods.infos[slot]
                assert info is not None
                self.nodes.remove_pod(position, info)
        if self.extended:
            for rank in range(int(self.counts.max())):
                at = self.starts[self.counts > rank] + rank
                error = self._shift_plugins(self.position[at], self.slots[at], -1)
                if error is not None:
                    return error
        return None

    def _move(self, positions: Rows, slots: Ints, sign: int) -> Status | None:
        """Add one pod to (or remove it from) each position."""
        if not len(positions):
            return None
        shapes = self.pods.shape[slots]
        requests, non_zero = self.pods.shape_requests[:, shapes], self.pods.shape_non_zero[:, shapes]
        self.nodes.shift(positions, requests, non_zero, sign)
        if self.listed:
            for position, slot in zip(positions.tolist(), slots.tolist(), strict=True):
                info = self.pods.infos[slot]
                assert info is not None
                if sign > 0:
                    self.nodes.add_pod(position, info)
                else:
                    self.nodes.remove_pod(position, info)
        return self._shift_plugins(positions, slots, sign) if self.extended else None

    def _move_blocks(self, blocks: Rows, sign: int) -> Status | None:
        """Add one block to (or remove it from) its position."""
        at = self.blocks[blocks]
        if self.rules is not None and self.judged is not None:
            self.rules.move(self.judged.at(at), sign)
        if self.units is None:
            return self._move(self.position[at], self.slots[at], sign)
        sizes = np.diff(np.append(self.blocks, len(self.slots)))[blocks]
        for rank in range(int(sizes.max(initial=0))):
            of_rank = at[sizes > rank] + rank
            error = self._move(self.position[of_rank], self.slots[of_rank], sign)
            if error is not None:
                return error
        return None

    def _shift_plugins(self, positions: Rows, slots: Ints, sign: int) -> Status | None:
        shift = PodShift.of_slots(self.pods, self.rows[positions], slots, sign)
        return self.framework.shift_pods(self.state, self.pod, shift, self.nodes)

    # -- the two passes ------------------------------------------------------------------------------------------------

    def _fits(self) -> nominated.Filtered | Status:
        return nominated.fits(self.framework, self.state, self.pod, self.nodes, self.arrivals)

    def _drop_hopeless(self, outcome: Candidates) -> Status | None:
        """Drop nodes that do not fit the pod even without all their lower-priority pods."""
        answer = self._fits()
        if isinstance(answer, Status):
            return answer
        filtered, passed = answer
        if self.rules is not None:
            over, why = self.rules.hopeless(self.rows)
            if given_up := int((over & passed).sum()):
                outcome.failures[why] += given_up
        else:
            over = np.zeros(len(passed), np.bool_)
        if passed.all() and not over.any():
            return None
        left = np.ones(len(passed), np.bool_)
        for _, rejections in filtered:
            for entry in rejections.entries:
                nodes = int((entry.mask & left & rejections.mask).sum())
                if nodes:
                    outcome.failures[str(entry.reason)] += nodes
            left &= ~rejections.mask
        self._keep(np.flatnonzero(passed & ~over))
        return None

    def _keep(self, positions: Rows) -> None:
        self.nodes = self.nodes.at(positions)
        chosen = np.zeros(len(self.rows), np.bool_)
        chosen[positions] = True
        kept = chosen[self.position]
        renumbered = np.cumsum(chosen) - 1
        self.rows = self.rows[positions]
        self.slots, self.position = self.slots[kept], renumbered[self.position[kept]]
        self.arrivals = nominated.Arrivals(self.cluster, self.rows, self.ahead)
        self._index()

    def _reprieve(self, violating: Mask) -> Mask | Status:
        """Add blocks back, those whose eviction would violate a budget first; those that no longer fit are victims."""
        victims = np.zeros(len(self.blocks), np.bool_)
        #: Victims that fit, but exceed what the rules allow.
        self.beyond_rules = np.zeros(len(self.blocks), np.bool_)
        order = np.lexsort((~violating, self.block_position)) if violating.any() else np.arange(len(self.blocks))
        for rank in range(int(self.block_counts.max())):
            at = order[self.block_starts[self.block_counts > rank] + rank]
            error = self._move_blocks(at, 1)
            if error is not None:
                return error
            answer = self._fits()
            if isinstance(answer, Status):
                return answer
            refused = ~answer[1][self.block_position[at]]
            error = self._move_blocks(at[refused], -1)
            if error is not None:
                return error
            victims[at[refused]] = True
            if self.rules is not None:
                error = self._evict_beyond(self.rules, at, refused)
                if error is not None:
                    return error
        return victims | self.beyond_rules

    def _evict_beyond(self, rules: NodeRules, at: Rows, refused: Mask) -> Status | None:
        """Evict pods that the filters would let stay. Parity: one that they refuse, too, is an error of its node."""
        rows = self.rows[self.block_position[at]]
        over = rules.exceeded(rows)
        for row, slot in zip(rows[over & refused].tolist(), self.slots[at[over & refused]].tolist(), strict=True):
            victim = self.pods.infos[slot]
            name = "" if victim is None else victim.name
            text = f"no corresponding pod {name} in pods of node {self.cluster.table.names[row]}"
            self.failed.setdefault(row, text)
        beyond = at[over & ~refused]
        self.beyond_rules[beyond] = True
        return self._move_blocks(beyond, -1)
