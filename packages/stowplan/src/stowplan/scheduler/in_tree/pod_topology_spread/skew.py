"""Filter: the nodes on which a pod would exceed the skew of a hard constraint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.batch_state import BatchFilterState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import FeasibleSets
from stowplan.scheduler.framework.diagnosis import Entry
from stowplan.scheduler.framework.status import Code, Reason
from stowplan.scheduler.in_tree.common.domains import by_domain
from stowplan.scheduler.in_tree.pod_topology_spread.constraints import Constraint, Domains, Prepared

MISSING_LABEL = Reason(
    "TopologyLabelMissing", "node(s) didn't match pod topology spread constraints (missing required label)"
)
SKEWED = Reason("TopologySkew", "node(s) didn't match pod topology spread constraints")


class Spread(PlainStruct, eq=False):
    """Filter's state for one hard constraint."""

    constraint: Constraint
    domains: Domains
    #: Matching pods by domain code.
    sums: Ints
    #: The lowest sum, and the code of its domain.
    lowest: int
    lowest_code: int
    self_match: int
    #: Pods added to (or removed from) each row in its hypothetical state; shape (rows,); None otherwise.
    shift: Ints | None = None

    def second_lowest(self) -> int:
        """The lowest sum without the lowest domain."""
        others = self.sums[self.domains.codes[self.domains.codes != self.lowest_code]]
        return int(others.min()) if len(others) else 1 << 31


def spread_of(part: Prepared, sums: Ints) -> Spread:
    lowest, lowest_code, domains = 0, 0, part.domains
    if len(domains.codes):
        values = domains.of(sums)
        at = int(values.argmin())
        lowest, lowest_code = int(values[at]), int(domains.codes[at])
    return Spread(part.constraint, domains, sums, lowest, lowest_code, part.self_match)


class SkewAhead(BatchFilterState):
    """The domains that a constraint refuses to equal pods that are placed one after the other."""

    def __init__(self, spread: Spread, rows: int, *, counted: bool) -> None:
        """`counted`: whether the constraint counts these pods."""
        constraint, domains = spread.constraint, spread.domains
        self.codes = domains.column.codes[:rows]
        self._counted, self._eligible, self._domains = counted, domains.eligible, domains
        self._sums = spread.sums.copy()
        self._most = constraint.max_skew - spread.self_match
        #: Whether the lowest sum does not matter.
        self._few = len(domains.codes) < constraint.min_domains
        self._lowest, self._at_lowest = 0, 0
        if not self._few:
            self._find_lowest()
        self.refused = self._over()

    def _find_lowest(self) -> None:
        sums = self._domains.of(self._sums).tolist()
        self._lowest = min(sums, default=0)
        self._at_lowest = sums.count(self._lowest)

    def _over(self) -> Mask:
        over: Mask = self._sums > self._most + self._lowest
        # Nodes without the key are refused, too.
        over[0] = True
        return over

    def place(self, row: int) -> Sequence[int]:
        if not self._counted or (self._eligible is not None and not self._eligible.item(row)):
            return ()
        code = self.codes.item(row)
        before = self._sums.item(code)
        self._sums[code] = before + 1
        if before == self._lowest and not self._few:
            self._at_lowest -= 1
            if not self._at_lowest:
                return self._rise()
        if self.refused.item(code) or before + 1 <= self._most + self._lowest:
            return ()
        self.refused[code] = True
        return (code,)

    def _rise(self) -> Sequence[int]:
        """The domains whose refusal changes with the lowest sum."""
        self._find_lowest()
        over = self._over()
        changed: list[int] = (over != self.refused).nonzero()[0].tolist()
        self.refused = over
        return changed


def guaranteed_feasible_sets(spreads: Sequence[Spread], rows: int, lost: int) -> FeasibleSets | None:
    """See `CountsPods.guaranteed_feasible_sets`.

    The domain with the lowest sum is never refused, so the nodes of each domain are a set. If the domains are single
    nodes, the lowest sum does not fall: only the lost nodes have fewer pods than before.
    """
    everywhere: Mask = np.ones(rows, np.bool_)
    sets: list[Mask] = []
    for spread in spreads:
        constraint, domains = spread.constraint, spread.domains
        codes, few = domains.column.codes[:rows], len(domains.codes) < constraint.min_domains
        if not few and len(domains.codes) - lost < constraint.min_domains:
            return None
        if domains.column.unique:
            most = constraint.max_skew - spread.self_match + (0 if few else spread.lowest)
            everywhere &= (codes > 0) & (spread.sums <= most).take(codes)
        elif sets or few or not len(domains.codes) or constraint.max_skew < spread.self_match:
            return None
        else:
            sets = [codes == code for code in domains.codes.tolist()]
    single_nodes = any(spread.domains.column.unique for spread in spreads)
    return FeasibleSets([everywhere & one for one in sets] if sets else [everywhere], single_nodes)


def skewed_rows(spread: Spread, nodes: Nodes, state: CycleState) -> Mask | None:
    """Nodes on which the pod would exceed the constraint's skew; None: there are none."""
    constraint, column = spread.constraint, spread.domains.column
    few = len(spread.domains.codes) < constraint.min_domains
    if spread.shift is None:
        lowest = 0 if few else spread.lowest
        over = spread.sums > constraint.max_skew - spread.self_match + lowest
        return by_domain(over, column, nodes, state, "skewed") if np.count_nonzero(over) else None
    codes = nodes.take(column.codes)
    here = spread.sums[codes] + nodes.take(spread.shift)
    if few:
        floor: Ints | int = 0
    else:
        # The minimum in the node's hypothetical state: only its own domain changed.
        others = np.where(codes == spread.lowest_code, spread.second_lowest(), spread.lowest)
        registered = np.zeros(len(spread.sums), np.bool_)
        registered[spread.domains.codes] = True
        floor = np.where(registered[codes], np.minimum(others, here), spread.lowest)
    over_here: Mask = here + spread.self_match - floor > constraint.max_skew
    return over_here


def entries_of(
    masks: Sequence[tuple[Constraint, Mask | None, Mask | None]],
) -> list[Entry]:
    """The first failing constraint gives a node its reason; a missing key takes precedence over skew."""
    entries: list[Entry] = []
    refused: Mask | None = None
    for constraint, missing, skewed in masks:
        skew = SKEWED.of(key=constraint.key, max_skew=constraint.max_skew)
        kinds = (
            (missing, Code.UnschedulableAndUnresolvable, MISSING_LABEL.of(key=constraint.key)),
            (skewed, Code.Unschedulable, skew),
        )
        for mask, code, reason in kinds:
            if mask is not None:
                entries.append(Entry(mask if refused is None else mask & ~refused, code, reason))
                refused = mask if refused is None else refused | mask
    return entries
