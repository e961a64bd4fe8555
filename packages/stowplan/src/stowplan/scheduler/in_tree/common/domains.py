"""Spread per-domain results to nodes.

There are few domains and many nodes, and a domain's result seldom changes between two pods of a workload. So the last
arrays that were spread over nodes are cached in the cycle state, which equal pods share: comparing the results of
domains is cheap, spreading them is not. An unchanged array stays the same object, so callers can compare by identity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState

#: Up to this many numbers, Python finds the minimum faster than NumPy.
_FEW = 32

#: From this average number of nodes per domain, normalizing domains is faster than normalizing nodes.
_NODES_A_DOMAIN = 2


def by_domain(verdicts: Mask, column: LabelColumn, nodes: Nodes, state: CycleState, what: str) -> Mask:
    """`verdicts` (by domain code) for every node of the view; shared and read-only.

    `what` distinguishes the verdicts of one pod on one label.
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
    """Placeholder for raw node scores if domains are scored instead; ignored by normalization."""
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

    `rule` takes scores, the lowest and the highest. The result is shared and read-only.
    """
    codes = column.codes[: table.n]
    present = present_domains(column, table, state, feasible)
    if not len(present):
        return np.zeros(table.n, np.int64)
    among = raw.take(present)
    # Domains without a feasible node do not matter.
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


class _Present(PlainStruct, eq=False):
    """The domains that have a feasible node."""

    feasible: Mask
    codes: Codes
    #: A feasible row of each domain if no node is in any other domain; otherwise empty.
    witnesses: tuple[int, ...]

    def still(self, feasible: Mask) -> bool:
        """Whether other feasible nodes have the same domains; False if more than a few rows would have to be read."""
        if not self.witnesses:
            return False
        for row in self.witnesses:
            if not feasible.item(row):
                return False
        self.feasible = feasible
        return True


def present_domains(column: LabelColumn, table: NodeTable, state: CycleState, feasible: Mask) -> Codes:
    """Codes of the domains that have a feasible node, ascending."""
    key = ("present", column.key)
    found: _Present | None = state.memo(key, table.generation)
    # An evaluation keeps the same array while the feasible nodes do not change, and never modifies it.
    if found is None or (found.feasible is not feasible and not found.still(feasible)):
        found = state.remember(key, table.generation, _find_present(column, table, feasible))
    return found.codes


def _distinct(codes: Codes) -> int:
    """How many; `unique` imports a tenth of NumPy when it is first called, before the first pod is bound."""
    return int(np.count_nonzero(np.bincount(codes)))


def _find_present(column: LabelColumn, table: NodeTable, feasible: Mask) -> _Present:
    codes = column.codes[: table.n]
    present = np.flatnonzero(np.bincount(codes, weights=feasible, minlength=column.size))
    in_use: int = table.memo(("domains in use", column.key), lambda: _distinct(codes[table.valid[: table.n]]))
    if len(present) != in_use or in_use > _FEW:
        return _Present(feasible, present, ())
    return _Present(feasible, present, tuple(int(((codes == code) & feasible).argmax()) for code in present))
