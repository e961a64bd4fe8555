"""Scores of nodes by their NUMA cells, one function per strategy, for all nodes at once.

Parity: amounts are rounded up to whole units before they are compared, so 500m CPU count as one.

Upstream: pkg/noderesourcetopology/{score.go,least_allocated.go,most_allocated.go,balanced_allocation.go,least_numa.go}
in scheduler-plugins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from stowplan.plugins import MAX_SCORE, Ints, Mask
from stowplan_scheduler_plugins.node_topologies import Amounts
from stowplan_scheduler_plugins.numa_columns import Cells, Layout, unit_of
from stowplan_scheduler_plugins.numa_fit import is_aligned

#: What an unknown distance counts.
FARTHEST = 255
_NOT_A_NUMBER = -(2**63)

Weights = Mapping[str, int]
#: (requests, cells, weights) -> score of each cell
CellScore = Callable[[Amounts, Cells, Weights], Ints]


def _whole(resource: str, amount: Ints) -> Ints:
    return -(-amount // unit_of(resource))


def _compared(requests: Amounts, cells: Cells) -> Iterator[tuple[str, int, Ints]]:
    """Resource, what is wanted, and what is available in each cell; in whole units."""
    for resource, wanted in requests.items():
        named = cells.named(resource) is not None
        available = cells.available(resource) if named else np.zeros(cells.bits.shape, np.int64)
        yield resource, -(-wanted // unit_of(resource)), _whole(resource, available)


def _weighted(requests: Amounts, cells: Cells, weights: Weights, part: Callable[[int, Ints], Ints]) -> Ints:
    """The weighted mean of the parts in percent; of a cell that has too little of a resource, that one counts 0."""
    total, divisor = np.zeros(cells.bits.shape, np.int64), 0
    for resource, wanted, available in _compared(requests, cells):
        weight = max(weights.get(resource, 1), 1)
        share = part(wanted, available) * MAX_SCORE // np.maximum(available, 1)
        total += np.where((available > 0) & (available >= wanted), share, 0) * weight
        divisor += weight
    return total // divisor if divisor else total


def least_allocated(requests: Amounts, cells: Cells, weights: Weights) -> Ints:
    return _weighted(requests, cells, weights, lambda wanted, available: available - wanted)


def most_allocated(requests: Amounts, cells: Cells, weights: Weights) -> Ints:
    return _weighted(requests, cells, weights, lambda wanted, available: np.full(available.shape, wanted))


def balanced_allocation(requests: Amounts, cells: Cells, weights: Weights) -> Ints:
    """The lower the variance of the used shares, the better. Parity: of one share there is no variance."""
    shares = [
        np.where(available == 0, 1.0, wanted / np.where(available == 0, 1, available))
        for _, wanted, available in _compared(requests, cells)
    ]
    over = np.logical_or.reduce([share > 1 for share in shares]) if shares else np.zeros(cells.bits.shape, np.bool_)
    if len(shares) < 2:
        return np.where(over, 0, _NOT_A_NUMBER)
    mean = sum(shares) / len(shares)
    squares = sum((share - mean) * (share - mean) for share in shares)
    compensation = sum(share - mean for share in shares)
    variance = (squares - compensation * compensation / len(shares)) / (len(shares) - 1)
    return np.where(over, 0, np.where(over, 0.0, (1 - variance) * MAX_SCORE).astype(np.int64))


CELL_SCORES: Mapping[str, CellScore] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def worst_cell(score: CellScore, requests: Amounts, cells: Cells, weights: Weights) -> Ints:
    """The lowest score of a cell that is not 0, which stands for a cell that does not fit."""
    worst = np.zeros(len(cells.fresh), np.int64)
    for found, bit in zip(score(requests, cells, weights), cells.bits, strict=True):
        worst = np.where((bit != 0) & ((worst == 0) | ((found != 0) & (found < worst))), found, worst)
    return worst


def mean(scores: Sequence[Ints]) -> Ints:
    """Rounded towards zero."""
    total = sum((score.astype(np.float64) for score in scores), np.zeros(1))
    return np.trunc(total / max(len(scores), 1)).astype(np.int64)


# --- the fewest cells


def fewest_cells(requests: Sequence[Amounts], cells: Cells, qos: str) -> Ints:
    """The fewer cells are needed for the requests, one after the other, and the nearer these are, the better."""
    scores = np.zeros(len(cells.fresh), np.int64)
    for layout, at in cells.layouts():
        of_layout = _OfLayout(layout, cells, at, {name for one in requests for name in one})
        most, nearest = of_layout.needed_for(requests, qos)
        step = MAX_SCORE // cells.max_cells()[at]
        needed = MAX_SCORE - most * step + np.where(nearest, step // 2, 0)
        scores[at] = np.where(most < 0, 0, np.where(most == 0, MAX_SCORE, needed))
    return scores


@lru_cache(maxsize=1024)
def _choices(layout: Layout, size: int) -> tuple[tuple[tuple[int, ...], float], ...]:
    """The combinations of so many cells, with the mean distance of all their pairs, including a cell and itself."""
    costs = [dict(of_cell) for _, of_cell in layout]
    found = []
    for choice in combinations(range(len(layout)), size):
        total = sum(costs[a].get(layout[b][0], FARTHEST) for a in choice for b in choice)
        found.append((choice, float(np.float32(total) / np.float32(size**2))))
    return tuple(found)


class _OfLayout:
    """The cells of nodes that differ in what is available alone."""

    def __init__(self, layout: Layout, cells: Cells, at: Ints, resources: set[str]) -> None:
        self._layout = layout
        self._named: dict[str, Mask] = {}
        self._available: dict[str, Ints] = {}
        for resource in resources:
            named = cells.named(resource)
            if named is not None:
                self._named[resource] = named[: len(layout), at]
                self._available[resource] = cells.available(resource)[: len(layout), at]
        self._nodes = len(at)

    def needed_for(self, requests: Sequence[Amounts], qos: str) -> tuple[Ints, Mask]:
        """Per node: the most cells that any of the requests needs, and whether none are nearer; −1: one fits nowhere.

        A request of which no cell has any resource needs none.
        """
        most, nearest = np.zeros(self._nodes, np.int64), np.ones(self._nodes, np.bool_)
        for wanted in requests:
            known = [self._named[resource].any(axis=0) for resource in wanted if resource in self._named]
            if known:
                self._place(wanted, qos, np.logical_or.reduce(known) & (most >= 0), most, nearest)
        return most, nearest

    def _place(self, requests: Amounts, qos: str, left: Mask, most: Ints, nearest: Mask) -> None:
        """Find and take the cells for a request on the nodes of `left`."""
        nowhere = left & ~self._fits_in_all(requests, qos)
        most[nowhere] = -1
        left = left & ~nowhere
        for size in range(1, len(self._layout) + 1):
            if not left.any():
                return
            choices = _choices(self._layout, size)
            best, chosen = np.full(self._nodes, np.inf), np.full(self._nodes, -1)
            for number, (choice, distance) in enumerate(choices):
                better = left & (distance < best)
                if better.any():
                    better &= self._fit_together(requests, choice, qos)
                    best[better], chosen[better] = distance, number
            found = chosen >= 0
            least = min(float(FARTHEST), *(distance for _, distance in choices))
            nearest &= ~found | (best == least)
            most[found] = np.maximum(most[found], size)
            for number in np.unique(chosen[found]).tolist():
                self._take_from(requests, choices[number][0], chosen == number)
            left = left & ~found
        most[left] = -1

    def _fits_in_all(self, requests: Amounts, qos: str) -> Mask:
        """Whether all cells together have enough: if not, no combination has."""
        enough = np.ones(self._nodes, np.bool_)
        for resource, wanted in requests.items():
            if resource not in self._named:
                return np.zeros(self._nodes, np.bool_)
            if is_aligned(resource, qos):
                enough &= np.maximum(self._available[resource], 0).sum(axis=0) >= wanted
        return enough

    def _fit_together(self, requests: Amounts, choice: tuple[int, ...], qos: str) -> Mask:
        """Parity: each cell must have each resource, even one of which nothing is requested."""
        fits = np.ones(self._nodes, np.bool_)
        for resource, wanted in requests.items():
            fits &= self._named[resource][choice, :].all(axis=0)
            if wanted and is_aligned(resource, qos):
                fits &= self._available[resource][choice, :].sum(axis=0) >= wanted
        return fits

    def _take_from(self, requests: Amounts, choice: tuple[int, ...], nodes: Mask) -> None:
        """Subtract requests in the order of cells' numbers; each cell gives what it has."""
        in_order = sorted(choice, key=lambda slot: self._layout[slot][0])
        for resource, wanted in requests.items():
            if resource not in self._named:
                continue
            left, available = np.where(nodes, wanted, 0), self._available[resource]
            for slot in in_order:
                given = np.where(self._named[resource][slot] & nodes, np.minimum(left, available[slot]), 0)
                available[slot] -= given
                left = left - given
