"""Whom to evict, and where: the dry run over all nodes at once, and the choice among its candidates.

For a node the reference takes every lower-priority pod away, sees whether the pod fits, and puts the pods back one by
one, most important first, as long as it still fits; who cannot come back is a victim. Nodes do not influence each
other, so all of them are worked on together: the k-th most important pods of all nodes come back in one step over
arrays. A step costs the same for one node as, nearly, for five thousand.

Upstream: pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption; spec'd in preemption.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stowplan.api.types import PodDisruptionBudget
from stowplan.cluster.hypothetical import HypotheticalNodes
from stowplan.cluster.pod_info import NOT_STARTED
from stowplan.framework import nominated_pods as nominated
from stowplan.framework.diagnosis import histogram_text
from stowplan.framework.pod_shift import PodShift
from stowplan.framework.status import Code, Status
from stowplan.preemption.disruption_budgets import violating_pods
from stowplan.preemption.go_sort import INSERTION_LIMIT, go_sort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.pod_table import PodTable
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.runtime import Framework

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"

#: Under which name a diagnosis keeps the outcome of its dry run.
_OUTCOME = "dry run"

Ints = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would take the pod once its victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[PodInfo, ...]
    pdb_violations: int


class DryRun:
    """The outcome of a dry run; candidates are spelled out when somebody reads them."""

    def __init__(self, framework: Framework, nodes_total: int) -> None:
        self._cluster = framework.handle.cluster
        self.nodes_total = nodes_total
        #: Reason -> nodes that the dry run tried and gave up.
        self.failures: Counter[str] = Counter()
        self.tried = 0
        self.error: Status | None = None
        #: Victims of all candidates: slots, grouped by candidate, most important first.
        self._slots: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        #: Where each candidate's victims begin.
        self._starts: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._rows: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._violations: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def found(
        self,
        rows: npt.NDArray[np.intp],
        starts: npt.NDArray[np.intp],
        slots: npt.NDArray[np.int64],
        violations: npt.NDArray[np.int64],
    ) -> None:
        self._rows, self._starts, self._slots, self._violations = rows, starts, slots, violations

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """Node name -> candidate."""
        return {(c := self._candidate(i)).node_name: c for i in range(len(self))}

    def _candidate(self, i: int) -> Candidate:
        ends = [*self._starts[1:].tolist(), len(self._slots)]
        infos = self._cluster.pods.infos
        victims = tuple(info for slot in self._slots[self._starts[i] : ends[i]].tolist() if (info := infos[slot]))
        return Candidate(self._cluster.table.names[self._rows[i]], victims, int(self._violations[i]))

    def message(self) -> str:
        """Why there is no candidate."""
        return self._message

    @cached_property
    def _message(self) -> str:
        counts = Counter(self.failures)
        untried = self.nodes_total - self.tried
        if untried:
            counts[NOT_HELPFUL] += untried
        return f"0/{self.nodes_total} nodes are available: {histogram_text(counts)}."

    @cached_property
    def best(self) -> list[str]:
        """The nodes among which the rules leave the choice: each rule keeps those with the best value."""
        left = np.arange(len(self))
        for rule in self._rules():
            if len(left) <= 1:
                break
            values = rule()[left]
            left = left[values == values.min()]
        return [self._cluster.table.names[row] for row in self._rows[left].tolist()]

    def candidate_on(self, node_name: str) -> Candidate:
        row = self._cluster.table.row_of[node_name]
        return self._candidate(int(np.flatnonzero(self._rows == row)[0]))

    def _rules(self) -> Sequence[Callable[[], npt.NDArray[np.int64]]]:
        """Lower is better: violations, highest priority, sum of priorities, number, (latest) earliest start."""
        pods, slots, starts = self._cluster.pods, self._slots, self._starts
        priorities = pods.priority[slots]
        counts = np.diff(np.append(starts, len(slots)))

        def latest_start() -> npt.NDArray[np.int64]:
            highest = np.repeat(priorities[starts], counts)
            of_highest = np.where(priorities == highest, pods.start_time[slots], np.iinfo(np.int64).max)
            return -np.minimum.reduceat(of_highest, starts)

        return (
            lambda: self._violations,
            lambda: priorities[starts],
            lambda: np.add.reduceat(priorities + (1 << 31), starts),
            lambda: counts,
            latest_start,
        )


def dry_run(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> DryRun:
    """Try eviction on every node whose refusal eviction could lift.

    For the next of several equal pods that fail for the same reasons the outcome is at hand while nothing changed.
    """
    cluster = framework.handle.cluster
    nominator = cluster.nominator
    # With promised pods it may matter which pod asks: it does not stand in its own way, and its labels may hinder it.
    who = (pod.shape, pod.uid if nominator.node_of(pod.uid) else "") if nominator else None
    version = (_stand(cluster), pod.priority, who)
    known: DryRun | None = diagnosis.memos.memo(_OUTCOME, version)
    if known is None:
        known = _dry_run(framework, state, pod, diagnosis)
        diagnosis.memos.remember(_OUTCOME, version, known)
    return known


def _stand(cluster: ClusterState) -> tuple[int, ...]:
    """What a dry run depends on besides its diagnosis, which goes with the lookup objects that plugins depend on."""
    return (
        cluster.table.generation,
        cluster.objects.version(PodDisruptionBudget),
        cluster.changes.position,
        cluster.pods.version,
        cluster.nominator.version,
    )


def _dry_run(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> DryRun:
    outcome = DryRun(framework, diagnosis.nodes)
    cluster = framework.handle.cluster
    potential = diagnosis.codes == int(Code.Unschedulable)
    outcome.tried = int(potential.sum())
    slots = _lower_priority_pods(cluster.pods, pod.priority, potential)
    # Cheaper than to sort the rows of all pods.
    rows = np.flatnonzero(np.bincount(cluster.pods.row[slots]))
    if outcome.tried > len(rows):
        outcome.failures[NO_VICTIMS] = outcome.tried - len(rows)
    if len(slots):
        _Simulation(framework, state, pod, rows, slots).run(outcome)
    return outcome


def _lower_priority_pods(pods: PodTable, priority: int, potential: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Slots of the pods that may be evicted."""
    rows = pods.row[: pods.n]
    lower = np.flatnonzero((pods.priority[: pods.n] < priority) & (rows >= 0))
    found: npt.NDArray[np.int64] = lower[potential[rows[lower]]]
    return found


class _Simulation:
    """All potential nodes, each in its own world.

    Victims lie in flat arrays sorted by node, then importance; `starts` and `counts` delimit the nodes.
    """

    def __init__(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        rows: npt.NDArray[np.int64],
        slots: npt.NDArray[np.int64],
    ) -> None:
        self.framework, self.pod = framework, pod
        self.cluster = framework.handle.cluster
        self.pods = self.cluster.pods
        self.state = state.clone()
        self.rows = rows.astype(np.intp)
        self.slots = self._by_importance(slots)
        self.position = np.searchsorted(self.rows, self.pods.row[self.slots])
        self._index()
        self.nodes = HypotheticalNodes(self.cluster, self.rows)
        self.promises = nominated.nominated_ahead(self.cluster, pod)
        self.arrivals = nominated.Arrivals(self.cluster, self.rows, self.promises)
        self.extended = framework.has_active_pod_extensions(state)
        self.listed = nominated.lists_pods(framework, state, pod)

    def _index(self) -> None:
        self.counts = np.bincount(self.position, minlength=len(self.rows))
        self.starts = np.cumsum(self.counts) - self.counts

    def _by_importance(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Node by node: higher priority first, then earlier start, then the node's own order."""
        p = self.pods
        everywhere = np.ones(len(slots), np.bool_)
        ties = self._ties(slots, p.order[slots], everywhere)
        order = np.lexsort((ties, p.start_time[slots], -p.priority[slots], p.row[slots]))
        return self._shuffle_equals(
            slots[order], p.row[slots[order]], everywhere, lambda of_node: of_node[np.argsort(p.order[of_node])]
        )

    def _ties(
        self, slots: npt.NDArray[np.int64], came: npt.NDArray[np.int64], sorted_here: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """What decides between equals of a short list: who came first; among pods that have not started, who came last.

        Parity: where a start is missing, the reference reads the clock, at each comparison anew. Inserting a pod, it
        reads for that pod first, so it takes it for older than each of those that are there already.
        """
        not_started = self.pods.start_time[slots] == NOT_STARTED
        return np.where(not_started & sorted_here, -came, came)

    def _shuffle_equals(
        self,
        slots: npt.NDArray[np.int64],
        nodes: npt.NDArray[np.int64],
        sorted_here: npt.NDArray[np.bool_],
        unsorted: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    ) -> npt.NDArray[np.int64]:
        """Order equally important pods of a node as the reference's sort, which is not stable, would leave them.

        `nodes` rises; `unsorted` gives the order in which a node's pods came into that sort.
        """
        p = self.pods
        same = (np.diff(nodes) == 0) & (np.diff(p.priority[slots]) == 0) & (np.diff(p.start_time[slots]) == 0)
        found = np.unique(nodes[1:][same & sorted_here[1:]])
        begins, ends = np.searchsorted(nodes, found), np.searchsorted(nodes, found, side="right")
        # Short lists are sorted in a way that is stable.
        long = ends - begins > INSERTION_LIMIT
        for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
            of_node: list[int] = unsorted(slots[begin:end]).tolist()
            go_sort(of_node, self._more_important)
            slots[begin:end] = of_node
        return slots

    def _more_important(self, a: int, b: int) -> bool:
        """As the reference compares two pods; see `_ties`."""
        priority, start_time = self.pods.priority, self.pods.start_time
        if priority[a] != priority[b]:
            return bool(priority[a] > priority[b])
        return bool(start_time[a] < start_time[b] or start_time[a] == start_time[b] == NOT_STARTED)

    def run(self, outcome: DryRun) -> None:
        error = self._remove_all() or self._drop_hopeless(outcome)
        if error is None and len(self.rows):
            violating = violating_pods(self.cluster, self.pods, self.slots, self.starts, self.counts)
            victims = self._reprieve(violating)
            if isinstance(victims, Status):
                error = victims
            else:
                self._report(outcome, victims, violating)
        outcome.error = outcome.error or error

    def _report(self, outcome: DryRun, victims: npt.NDArray[np.bool_], violating: npt.NDArray[np.bool_]) -> None:
        kept = np.bincount(self.position[victims], minlength=len(self.rows))
        if not kept.all():
            spared = self.cluster.table.names[self.rows[int(np.flatnonzero(kept == 0)[0])]]
            text = f'expected at least one victim pod on node "{spared}"'
            outcome.error = Status(Code.Error, error=RuntimeError(text))
        has = kept > 0
        slots = self._final_order(victims, violating)
        violations = np.bincount(self.position[victims & violating], minlength=len(self.rows))
        starts = (np.cumsum(kept) - kept)[has]
        outcome.found(self.rows[has], starts, slots, violations[has])

    def _final_order(self, victims: npt.NDArray[np.bool_], violating: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The victims' slots, node by node, most important first.

        Parity: where some evictions break a budget and some do not, the victims are sorted again, from the order in
        which they were judged.
        """
        slots, position = self.slots[victims], self.position[victims]
        nodes = len(self.rows)
        broken = np.bincount(self.position[violating], minlength=nodes)
        again = ((broken > 0) & (broken < self.counts))[position]
        if not again.any():
            return slots
        p = self.pods
        judged = np.lexsort((~violating[victims], position))
        judged_at = np.empty(len(slots), np.int64)
        judged_at[judged] = np.arange(len(slots))
        ties = self._ties(slots, judged_at, again)
        order = np.lexsort((ties, p.start_time[slots], -p.priority[slots], position))
        came = dict(zip(slots.tolist(), judged_at.tolist(), strict=True))
        return self._shuffle_equals(
            slots[order],
            position[order],
            again,
            lambda of_node: np.array(sorted(of_node.tolist(), key=came.__getitem__)),
        )

    # -- moving pods --------------------------------------------------------------------------------------------------

    def _remove_all(self) -> Status | None:
        shapes = self.pods.shape[self.slots]
        gone = np.add.reduceat(self.pods.shape_requests[:, shapes], self.starts, axis=1)
        non_zero = np.add.reduceat(self.pods.shape_non_zero[:, shapes], self.starts, axis=1)
        self.nodes.shift(np.arange(len(self.rows)), gone, non_zero, -1, pods=self.counts)
        if self.listed:
            for position, slot in zip(self.position.tolist(), self.slots.tolist(), strict=True):
                info = self.pods.infos[slot]
                assert info is not None
                self.nodes.remove_pod(position, info)
        if self.extended:
            for rank in range(int(self.counts.max())):
                at = self.starts[self.counts > rank] + rank
                error = self._tell(self.position[at], self.slots[at], -1)
                if error is not None:
                    return error
        return None

    def _move(self, positions: npt.NDArray[np.intp], slots: npt.NDArray[np.int64], sign: int) -> Status | None:
        """One pod comes to (leaves) each position."""
        if not len(positions):
            return None
        shapes = self.pods.shape[slots]
        requests, non_zero = self.pods.shape_requests[:, shapes], self.pods.shape_non_zero[:, shapes]
        self.nodes.shift(positions, requests, non_zero, sign)
        if self.listed:
            for position, slot in zip(positions.tolist(), slots.tolist(), strict=True):
                info = self.pods.infos[slot]
                assert info is not None
                (self.nodes.add_pod if sign > 0 else self.nodes.remove_pod)(position, info)
        return self._tell(positions, slots, sign) if self.extended else None

    def _tell(self, positions: npt.NDArray[np.intp], slots: npt.NDArray[np.int64], sign: int) -> Status | None:
        shift = PodShift.of_slots(self.pods, self.rows[positions], slots, sign)
        return self.framework.shift_pods(self.state, self.pod, shift, self.nodes)

    # -- the two judgements -------------------------------------------------------------------------------------------

    def _fits(self) -> nominated.Filtered | Status:
        return nominated.fits(self.framework, self.state, self.pod, self.nodes, self.arrivals)

    def _drop_hopeless(self, outcome: DryRun) -> Status | None:
        """Nodes that do not take the pod even without all their lesser pods."""
        answer = self._fits()
        if isinstance(answer, Status):
            return answer
        filtered, passed = answer
        if passed.all():
            return None
        left = np.ones(len(passed), np.bool_)
        for _, rejections in filtered:
            for entry in rejections.entries:
                nodes = int((entry.mask & left & rejections.mask).sum())
                if nodes:
                    outcome.failures[str(entry.reason)] += nodes
            left &= ~rejections.mask
        self._keep(np.flatnonzero(passed))
        return None

    def _keep(self, positions: npt.NDArray[np.intp]) -> None:
        self.nodes = self.nodes.at(positions)
        chosen = np.zeros(len(self.rows), np.bool_)
        chosen[positions] = True
        kept = chosen[self.position]
        renumbered = np.cumsum(chosen) - 1
        self.rows = self.rows[positions]
        self.slots, self.position = self.slots[kept], renumbered[self.position[kept]]
        self.arrivals = nominated.Arrivals(self.cluster, self.rows, self.promises)
        self._index()

    def _reprieve(self, violating: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | Status:
        """Put pods back, those whose eviction would break a budget first; who does not fit any more is a victim."""
        victims = np.zeros(len(self.slots), np.bool_)
        order = np.lexsort((~violating, self.position)) if violating.any() else np.arange(len(self.slots))
        for rank in range(int(self.counts.max())):
            at = order[self.starts[self.counts > rank] + rank]
            positions, slots = self.position[at], self.slots[at]
            error = self._move(positions, slots, 1)
            if error is not None:
                return error
            answer = self._fits()
            if isinstance(answer, Status):
                return answer
            refused = ~answer[1][positions]
            error = self._move(positions[refused], slots[refused], -1)
            if error is not None:
                return error
            victims[at[refused]] = True
        return victims
