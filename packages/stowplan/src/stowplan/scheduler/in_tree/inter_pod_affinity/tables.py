"""The counters of existing pods that a pod's affinity asks for; for Filter, such pods by domain of a topology key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Counts, Ints, Mask
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.cluster.terms import PodTerm
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.in_tree.common.domains import by_domain


class ScoreCounter(NamedTuple):
    """A counter of pods that attract (or repel) the incoming pod, by domain of a key."""

    key: str
    weight: int
    slot: int
    held: bool


class PodTerms(PlainStruct, frozen=True):
    """The counters for an incoming pod's terms."""

    #: All required affinity terms together.
    affinity: PodTerm
    matches_itself: bool
    #: (topology key, term) of each required anti-affinity term.
    anti_affinity: list[tuple[str, PodTerm]]
    #: (topology key, signed weight, term) of each preference.
    preferred: list[tuple[str, int, PodTerm]]


NO_TERMS = PodTerms(PodTerm(()), matches_itself=True, anti_affinity=[], preferred=[])


class Table(PlainStruct, eq=False):
    """Pods by domain of one topology key."""

    key: str
    column: LabelColumn
    #: Pods by domain code; [0] (nodes without the key) is 0.
    sums: Ints
    #: What a pod of a shape adds to its node's domain.
    amount: Callable[[PodShape], int]
    #: Pods by row, if every domain is a single node and no other data is needed.
    counts: Counts | None = None
    #: Pods added to (or removed from) each row in its hypothetical state; None otherwise.
    shift: Ints | None = None

    def clone(self) -> Table:
        shift = None if self.shift is None else self.shift.copy()
        return Table(self.key, self.column, self.sums, self.amount, self.counts, shift)

    def shift_pods(self, pods: PodShift, rows: int) -> None:
        amounts = pods.amounts(self.amount)
        if amounts is not None:
            if self.shift is None:
                self.shift = np.zeros(rows, np.int64)
            self.shift[pods.rows] += amounts * (self.column.codes[pods.rows] > 0)

    def here(self, nodes: Nodes) -> Ints:
        """The number of pods in the domain of every node of the view."""
        found: Ints = self.sums[nodes.take(self.column.codes)]
        return found if self.shift is None else found + nodes.take(self.shift)

    def absent(self, nodes: Nodes, state: CycleState, *, also_where_none: bool) -> Mask:
        """Nodes without the key, and optionally those whose domain has no pod; not for hypothetical views."""
        verdicts = self.sums <= 0 if also_where_none else np.zeros(len(self.sums), np.bool_)
        verdicts[0] = True
        return by_domain(verdicts, self.column, nodes, state, "far")

    def present(self, nodes: Nodes, state: CycleState, what: str) -> Mask | None:
        """Nodes whose domain has a pod; None if there are none."""
        if self.shift is not None:
            return self.here(nodes) > 0
        if self.counts is not None:
            return nodes.take(self.counts) > 0
        verdicts = self.sums > 0
        return by_domain(verdicts, self.column, nodes, state, what) if verdicts.any() else None


def avoids(incoming: PodShape, key: str, namespace_labels: dict[str, str]) -> Callable[[PodShape], int]:
    """The number of a shape's required anti-affinity terms with the key that match the incoming pod."""

    def amount(shape: PodShape) -> int:
        return sum(
            term.topology_key == key and term.matches(incoming.namespace, incoming.labels, namespace_labels)
            for term in shape.required_anti_affinity
        )

    return amount


def anywhere(tables: Sequence[Table], nodes: Nodes, state: CycleState, what: str) -> Mask | None:
    """Nodes in some domain with a pod in some table; None if there are none."""
    return union(table.present(nodes, state, what) for table in tables)


def union(masks: Iterable[Mask | None]) -> Mask | None:
    found: Mask | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found
