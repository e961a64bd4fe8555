"""Preemption candidates: nodes that fit the pod once their victims are gone, and the rules that select one.

Upstream: pickOneNodeForPreemption in pkg/scheduler/framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Rows
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.diagnosis import histogram_text
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.status import Status

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Candidates:
    """The result of a dry run. Candidates are created on access, and only valid until pods change."""

    def __init__(self, cluster: ClusterState, nodes_total: int) -> None:
        self._cluster = cluster
        self.nodes_total = nodes_total
        #: Reason -> number of nodes that the dry run gave up.
        self.failures: Counter[str] = Counter()
        self.tried = 0
        self.error: Status | None = None
        #: Victims of all candidates as slots, grouped by candidate, most important first.
        self._slots: Ints = np.zeros(0, np.int64)
        #: The index of each candidate's first victim, and that after its last one.
        self._starts: Rows = np.zeros(0, np.intp)
        self._ends: Rows = np.zeros(0, np.intp)
        self._rows: Rows = np.zeros(0, np.intp)
        self._violations: Ints = np.zeros(0, np.int64)

    @classmethod
    def of(cls, cluster: ClusterState, candidates: Sequence[Candidate], nodes_total: int) -> Candidates:
        """Candidates that are already known; their victims are still on their nodes."""
        made = cls(cluster, nodes_total)
        made.tried = len(candidates)
        slots = [victim.slot for candidate in candidates for victim in candidate.victims]
        counts = np.array([len(candidate.victims) for candidate in candidates], np.intp)
        rows = [cluster.table.row_of[candidate.node_name] for candidate in candidates]
        violations = np.array([candidate.pdb_violations for candidate in candidates], np.int64)
        made.found(np.array(rows, np.intp), np.cumsum(counts) - counts, np.array(slots, np.int64), violations)
        return made

    def found(
        self,
        rows: Rows,
        starts: Rows,
        slots: Ints,
        violations: Ints,
    ) -> None:
        self._rows, self._starts, self._slots, self._violations = rows, starts, slots, violations
        self._ends = np.append(starts[1:], len(slots))

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """Node name -> candidate."""
        return {(c := self._candidate(i)).node_name: c for i in range(len(self))}

    def _candidate(self, i: int) -> Candidate:
        infos = self._cluster.pods.infos
        slots: list[int] = self._slots[self._starts[i] : self._ends[i]].tolist()
        victims = tuple(info for slot in slots if (info := infos[slot]) is not None)
        return Candidate(self._cluster.table.names[self._rows[i]], victims, int(self._violations[i]))

    @cached_property
    def best(self) -> list[str]:
        """The nodes that the selection rules rank equal."""
        names = self._cluster.table.names
        left = best_of(self._cluster.pods, self._slots, self._starts, self._violations)
        return [names[row] for row in self._rows[left].tolist()]

    def candidate_on(self, node_name: str) -> Candidate:
        row = self._cluster.table.row_of[node_name]
        return self._candidate(int(np.flatnonzero(self._rows == row)[0]))

    @cached_property
    def message(self) -> str:
        """Why there are no candidates."""
        counts = Counter(self.failures)
        untried = self.nodes_total - self.tried
        if untried:
            counts[NOT_HELPFUL] += untried
        return f"0/{self.nodes_total} nodes are available: {histogram_text(counts)}."


def best_of(pods: PodTable, slots: Ints, starts: Rows, violations: Ints) -> Rows:
    """Indexes of the best candidates: each rule keeps those with the lowest value.

    `slots` are the victims of all candidates, grouped by candidate, most important first; `starts` has the index of
    each candidate's first victim.
    """
    left = np.arange(len(starts))
    if len(left) <= 1:
        return left
    for values in _rules(pods, slots, starts, violations):
        of_left = values[left]
        left = left[of_left == of_left.min()]
        if len(left) == 1:
            break
    return left


def _rules(pods: PodTable, slots: Ints, starts: Rows, violations: Ints) -> Iterator[Ints]:
    """Budget violations, highest priority, sum of priorities, number of victims, latest of the earliest start times."""
    yield violations
    priorities = pods.priority[slots]
    yield priorities[starts]
    yield np.add.reduceat(priorities + (1 << 31), starts)
    counts = np.diff(np.append(starts, len(slots)))
    yield counts
    highest = np.repeat(priorities[starts], counts)
    of_highest = np.where(priorities == highest, pods.start_time[slots], np.iinfo(np.int64).max)
    yield -np.minimum.reduceat(of_highest, starts)
