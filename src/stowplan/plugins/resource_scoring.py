"""How full a node would be: what the two resource scorers share.

For each configured resource a scorer needs the node's capacity, what is used of it, and what the pod would add. All
of it is column arithmetic in exact integers. Integer division is the one slow operation; where every number is small
enough for float64 to give the same quotient it is done in floats (`divide`).

Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stowplan.api.resource_names import is_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stowplan.cluster.view import Nodes

#: Below this, a float64 quotient of two integers that is rounded down equals the integer quotient: the exact quotient
#: is at most 100, so it lies at least 1/divisor below the next integer, and float64 near 100 resolves 2^-47.
_EXACT_DIVISOR = 1 << 45


@dataclass(frozen=True, slots=True)
class Demand:
    """One configured resource, and what the pod asks of it."""

    name: str
    weight: int
    requested: int

    @property
    def left_out(self) -> bool:
        """A scalar resource that the pod does not ask for does not count."""
        return self.requested == 0 and is_scalar(self.name)


def demands(resources: Sequence[tuple[str, int]], requests: Mapping[str, int]) -> tuple[Demand, ...]:
    found = (Demand(name, weight, requests.get(name, 0)) for name, weight in resources)
    return tuple(demand for demand in found if not demand.left_out)


def capacity(nodes: Nodes, name: str) -> npt.NDArray[np.int64] | None:
    """Allocatable of a resource, None when no node has it."""
    index = nodes.table.resources.get(name)
    return None if index is None else nodes.allocatable(index)


def used(nodes: Nodes, name: str, *, non_zero: bool) -> npt.NDArray[np.int64]:
    """What pods take of a resource; cpu and memory optionally with the defaults for containers that name none."""
    index = nodes.table.resources[name]
    return nodes.non_zero_requested(index) if non_zero and index < 2 else nodes.requested(index)


def divide(dividend: npt.NDArray[np.int64], divisor: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """`dividend // divisor` for 0 ≤ dividend ≤ 100·divisor and divisor > 0."""
    if len(divisor) and int(divisor.max()) < _EXACT_DIVISOR:
        return (dividend / divisor).astype(np.int64)
    return dividend // divisor
