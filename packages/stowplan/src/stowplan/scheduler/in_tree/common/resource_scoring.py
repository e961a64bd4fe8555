"""Node utilization for the two resource scorers.

For each configured resource a scorer needs the node's capacity, its usage, and the pod's request. This is exact integer
arithmetic on matrices with one row per resource and one column per node. Integer division is the one slow operation; if
every number is small enough for a float64 quotient to be exact, floats are used instead.

Where thousands of nodes are scored, each operation reads and writes megabytes, so results go into arrays that exist,
and usage is kept in the type that it is calculated with: NumPy converts while it calculates at a third of the speed.

Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stowplan.kube.api.resource_names import is_scalar
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Floats, Ints, Mask
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.view import Nodes, SumsColumn

#: Below this, a float64 quotient of two integers, rounded down, equals the integer quotient: the exact quotient is at
#: most 100, so it is at least 1/divisor below the next integer, and float64 near 100 resolves 2^-47. Larger amounts,
#: which float64 may round, are only compared with a divisor, or count as one.
_EXACT_DIVISOR = 1 << 45


class ResourceDemands:
    """The configured resources that count for a pod, and its requests."""

    def __init__(self, resources: Sequence[tuple[str, int]], requests: Mapping[str, int]) -> None:
        asked = [(name, weight, requests.get(name, 0)) for name, weight in resources]
        # Scalar resources that the pod does not request do not count.
        asked = [(name, weight, amount) for name, weight, amount in asked if amount or not is_scalar(name)]
        self.names = tuple(name for name, _, _ in asked)
        self.weights = tuple(weight for _, weight, _ in asked)
        #: Shape (resources, 1).
        self.requested: Ints = np.array([amount for _, _, amount in asked], np.int64)[:, None]

    @property
    def nothing(self) -> bool:
        return not self.requested.any()


class ResourceCapacity(PlainStruct, frozen=True, eq=False):
    """Allocatable of some resources over all rows, at least 1, as a divisor; depends on node objects alone.

    Arrays have the shape (resources, rows).
    """

    names: tuple[str, ...]
    indexes: tuple[int, ...]
    as_float: Floats
    #: `as_float` where float64 quotients, rounded down, are exact; else integers.
    exact: Floats | Ints
    #: Nodes that have the resource; None: all.
    present: Mask | None
    #: What is used, without and with defaults for containers that request nothing.
    columns: tuple[SumsColumn, SumsColumn]

    def used_with(self, nodes: Nodes, demands: ResourceDemands) -> Floats | Ints:
        """What is requested with a pod, as a new array of the type of `exact`; for cpu and memory with defaults."""
        return self.used(nodes, non_zero=True) + demands.requested.astype(self.exact.dtype)

    def percent(self, nodes: Nodes, amounts: Floats | Ints) -> Ints:
        """`100 * amount // allocatable`, for amounts up to the allocatable, of the type of `exact`. They are lost."""
        amounts *= 100
        if self.exact is self.as_float:
            amounts /= nodes.take(self.as_float)
        else:
            amounts //= nodes.take(self.exact)
        return amounts.astype(np.int64, copy=False)

    def used(self, nodes: Nodes, *, non_zero: bool) -> Floats | Ints:
        """The requests of placed pods; for cpu and memory optionally with defaults for containers that request none.

        Read-only, of the type of `exact`: an amount that float64 rounds is above any divisor.
        """
        return self.columns[non_zero].of(
            nodes, self.names, lambda some: self._sums(some, non_zero=non_zero).astype(self.exact.dtype)
        )

    def _sums(self, nodes: Nodes, *, non_zero: bool) -> Ints:
        indexes = self.indexes
        if indexes == (0, 1):
            both = slice(0, 2)
            return nodes.non_zero_requested(both) if non_zero else nodes.requested(both)
        if not indexes:
            return np.zeros((0, len(nodes)), np.int64)
        return np.stack([nodes.non_zero_requested(i) if non_zero and i < 2 else nodes.requested(i) for i in indexes])


def capacity(nodes: Nodes, names: tuple[str, ...]) -> ResourceCapacity:
    table = nodes.table
    found: ResourceCapacity = table.memo(("capacity", names), lambda: _capacity(table, names))
    return found


def _capacity(table: NodeTable, names: tuple[str, ...]) -> ResourceCapacity:
    indexes = tuple(table.resource(name) for name in names)
    allocatable = table.allocatable[list(indexes), : table.n]
    divisor = np.maximum(allocatable, 1)
    present = (allocatable > 0) | ~table.valid[: table.n]
    as_float = divisor.astype(np.float64)
    small = not divisor.size or int(divisor.max()) < _EXACT_DIVISOR
    exact, columns = as_float if small else divisor, (SumsColumn(), SumsColumn())
    return ResourceCapacity(names, indexes, as_float, exact, None if present.all() else present, columns)
