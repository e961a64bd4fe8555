"""The scores of soft constraints for equal pods that are placed one after the other.

A node's score depends on its domains, the number of counted pods in them and, for the hostname, on the node itself.
So nodes with the same domains and the same number of pods are a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Floats, Ints, Mask, Values
from stowplan.scheduler.framework.batch_state import BatchScoreState
from stowplan.scheduler.in_tree.common.domain_classes import DomainClasses
from stowplan.scheduler.in_tree.pod_topology_spread.amounts import by_difference, rounded, weighted_counts
from stowplan.scheduler.in_tree.pod_topology_spread.constraints import Constraint, Domains


class OnNodes(PlainStruct, eq=False):
    """A soft constraint over hostnames: pods are counted on the node itself."""

    constraint: Constraint
    #: Matching pods by row; −1 on rows without the key.
    counts: Values
    #: Whether the constraint counts the pods that are placed.
    counted: bool


class InDomains(PlainStruct, eq=False):
    """Any other soft constraint."""

    constraint: Constraint
    domains: Domains
    #: Matching pods by domain code; changed in place.
    sums: Ints
    counted: bool


class SoftAhead(BatchScoreState):
    def __init__(self, parts: Sequence[OnNodes | InDomains], classes: DomainClasses, *, required: bool) -> None:
        """`classes` are those of the `InDomains`, in their order. `required`: nodes without a key are not scored."""
        self._parts = parts
        self._in_domains = [part for part in parts if isinstance(part, InDomains)]
        self._on_nodes = next((part for part in parts if isinstance(part, OnNodes)), None)
        self._codes = classes.codes
        self._required = required
        #: Of each class: its class by domains, and the number of pods on its nodes.
        self._outer: Ints
        self._pods: Ints
        self._ids: dict[tuple[int, int], int] = {}
        self._known: _Scored | None = None
        self._on_nodes_amounts: tuple[int, int, Floats] | None = None
        self._start(classes)

    def _start(self, classes: DomainClasses) -> None:
        if self._on_nodes is None:
            self.classes, self.size = classes.of_row, classes.size
            self._outer, self._pods = np.arange(self.size), np.zeros(self.size, np.int64)
            return
        pods = self._on_nodes.counts + 1
        most = int(pods.max(initial=0)) + 1
        pairs = classes.of_row * most + pods
        found = np.flatnonzero(np.bincount(pairs))
        ids = np.zeros(classes.size * most, np.intp)
        ids[found] = np.arange(len(found))
        self.classes, self.size = ids[pairs], len(found)
        self._outer, self._pods = np.divmod(found, most)
        self._pods -= 1
        self._ids = {pair: id for id, pair in enumerate(zip(self._outer.tolist(), self._pods.tolist(), strict=True))}

    def place(self, row: int) -> int:
        for part in self._in_domains:
            eligible = part.domains.eligible
            code = part.domains.column.codes.item(row)
            if part.counted and code and (eligible is None or eligible.item(row)):
                part.sums[code] += 1
        known = self.classes.item(row)
        if self._on_nodes is None or not self._on_nodes.counted or self._pods.item(known) < 0:
            return known
        pair = self._outer.item(known), self._pods.item(known) + 1
        now = self._ids.get(pair)
        if now is None:
            now = self._ids[pair] = self.size
            self.size += 1
            self._outer, self._pods = np.append(self._outer, pair[0]), np.append(self._pods, pair[1])
        self.classes[row] = now
        return now

    def by_class(self, feasible: Ints) -> Ints:
        known = self._known
        # Classes are only ever added, so this is renewed with each of them, too.
        if known is None or known.feasible != feasible.tobytes():
            known = self._known = self._find_scored(feasible)
        if not len(known.classes):
            return np.zeros(self.size, np.int64)
        raw = self._raw(known)
        among = raw.take(known.classes)
        normal = by_difference(raw, int(among.min()), int(among.max()))
        if known.ignored is not None:
            normal[known.ignored] = 0
        return normal

    def _find_scored(self, feasible: Ints) -> _Scored:
        ignored, scored = self._ignored(), feasible > 0
        if ignored is not None:
            scored &= ~ignored
        of_class = [codes.take(self._outer) for codes in self._codes]
        domains = [_distinct(codes[scored]) for codes in of_class]
        nodes = int(feasible[scored].sum())
        return _Scored(feasible.tobytes(), ignored, scored.nonzero()[0], nodes, of_class, domains)

    def _ignored(self) -> Mask | None:
        """Classes without one of the keys; None: there are none that matter."""
        if not self._required:
            return None
        ignored = self._pods < 0
        for codes in self._codes:
            ignored |= codes.take(self._outer) == 0
        return ignored if ignored.any() else None

    def _raw(self, known: _Scored) -> Ints:
        """The rounded sum of the parts, added in the order of the constraints."""
        total: Floats | None = None
        in_domains = zip(known.codes, known.domains, strict=True)
        for part in self._parts:
            if isinstance(part, OnNodes):
                amounts = self._amounts_on_nodes(part, known.nodes)
            else:
                codes, domains = next(in_domains)
                of_domain = weighted_counts(part.sums, domains, part.constraint)
                of_domain[0] = 0.0
                amounts = of_domain.take(codes)
            total = amounts if total is None else total + amounts
        assert total is not None
        return rounded(total)

    def _amounts_on_nodes(self, part: OnNodes, nodes: int) -> Floats:
        """By class; the same array while there are no more classes, and as many nodes to score."""
        if self._on_nodes_amounts is None or self._on_nodes_amounts[:2] != (nodes, self.size):
            amounts = weighted_counts(self._pods, nodes, part.constraint)
            amounts[self._pods < 0] = 0.0
            self._on_nodes_amounts = nodes, self.size, amounts
        return self._on_nodes_amounts[2]


class _Scored(NamedTuple):
    """What follows from the number of feasible nodes of each class."""

    #: These numbers, as bytes.
    feasible: bytes
    #: Classes without one of the keys; None: there are none that matter.
    ignored: Mask | None
    #: The classes with a node to score, and the number of these nodes.
    classes: Codes
    nodes: int
    #: For each of the `InDomains`, the domain of each class, and the number of domains with a node to score.
    codes: list[Codes]
    domains: list[int]


def _distinct(codes: Codes) -> int:
    return int(np.count_nonzero(np.bincount(codes)))
