"""Spread per-domain results to nodes.

There are few domains and many nodes, and between two pods of a workload a domain's verdict seldom changes. So the
last arrays that were spread over the nodes are kept in the cycle state, which equal pods share: comparing what the
domains say is cheap, spreading it out is not. An array that did not change stays the same object, which tells
callers so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stowplan.cluster.labels import LabelColumn
    from stowplan.cluster.node_table import NodeTable
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

#: Up to so many numbers, Python finds the smallest sooner than NumPy.
_FEW = 32

#: From so many nodes a domain on, it pays to normalize domains instead of nodes.
_NODES_A_DOMAIN = 2


def by_domain(verdicts: Mask, column: LabelColumn, nodes: Nodes, state: CycleState, what: str) -> Mask:
    """`verdicts` (by domain code) for every node of the view; shared, not to be written to.

    `what` tells the verdicts of one pod on one label apart.
    """
    if nodes.rows is not None:
        return verdicts.take(nodes.take(column.codes))
    key = (what, column.key)
    version = (nodes.table.generation, verdicts.tobytes())
    found: Mask | None = state.memo(key, version)
    if found is None:
        found = state.remember(key, version, verdicts.take(nodes.take(column.codes), mode="clip"))
    return found


def worth_normalizing(column: LabelColumn, table: NodeTable) -> bool:
    return column.size * _NODES_A_DOMAIN <= table.n


def unused_raw(table: NodeTable) -> Ints:
    """Placeholder for raw node scores if domains are scored instead; normalizing ignores it."""
    zeros: Ints = table.memo("unused raw scores", lambda: np.zeros(table.n, np.int64))
    return zeros


def normalized_by_domain(
    raw: Ints,
    column: LabelColumn,
    table: NodeTable,
    state: CycleState,
    feasible: Mask,
    rule: Callable[[Ints, int, int], Ints],
) -> Ints:
    """Scores by domain code, normalized over the domains of feasible nodes, for every row.

    `rule` takes scores, the lowest and the highest. Shared, not to be written to.
    """
    codes = column.codes[: table.n]
    present = present_domains(column, table, state, feasible)
    if not len(present):
        return np.zeros(table.n, np.int64)
    among = raw.take(present)
    # What domains without a feasible node get does not matter.
    normal = rule(raw, *_bounds(among))
    key = ("normalized", column.key)
    version = (table.generation, normal.tobytes())
    found: Ints | None = state.memo(key, version)
    if found is None:
        found = state.remember(key, version, normal.take(codes, mode="clip"))
    return found


def _bounds(values: Ints) -> tuple[int, int]:
    if len(values) > _FEW:
        return int(values.min()), int(values.max())
    few = values.tolist()
    return min(few), max(few)


@dataclass(slots=True, eq=False)
class _Present:
    """The domains that have a feasible node."""

    feasible: Mask
    codes: npt.NDArray[np.intp]
    #: A feasible row of each, where nodes lie in no other domain; else empty.
    witnesses: tuple[int, ...]

    def still(self, feasible: Mask) -> bool:
        """Whether they are the same of other feasible nodes; False where that takes more than a look at few rows."""
        if not self.witnesses:
            return False
        for row in self.witnesses:
            if not feasible.item(row):
                return False
        self.feasible = feasible
        return True


def present_domains(column: LabelColumn, table: NodeTable, state: CycleState, feasible: Mask) -> npt.NDArray[np.intp]:
    """Codes of the domains that have a feasible node, ascending."""
    key = ("present", column.key)
    found: _Present | None = state.memo(key, table.generation)
    # An evaluation keeps the very array while the feasible nodes stay the same, and never writes to it.
    if found is None or (found.feasible is not feasible and not found.still(feasible)):
        found = state.remember(key, table.generation, _find_present(column, table, feasible))
    return found.codes


def _find_present(column: LabelColumn, table: NodeTable, feasible: Mask) -> _Present:
    codes = column.codes[: table.n]
    present = np.flatnonzero(np.bincount(codes, weights=feasible, minlength=column.size))
    in_use: int = table.memo(("domains in use", column.key), lambda: len(np.unique(codes[table.valid[: table.n]])))
    if len(present) != in_use or in_use > _FEW:
        return _Present(feasible, present, ())
    return _Present(feasible, present, tuple(int(((codes == code) & feasible).argmax()) for code in present))
