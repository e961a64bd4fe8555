"""Scores of nodes by their NUMA cells, one function per strategy.

Parity: amounts are rounded up to whole units before they are compared, so 500m CPU count as one.

Upstream: pkg/noderesourcetopology/{score.go,least_allocated.go,most_allocated.go,balanced_allocation.go,least_numa.go}
in scheduler-plugins.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from stowplan.plugins import MAX_SCORE
from stowplan.plugins.objects import whole_value
from stowplan_scheduler_plugins.node_topologies import Amounts, Cell
from stowplan_scheduler_plugins.numa_fit import suffices

#: What an unknown distance counts.
FARTHEST = 255
_NOT_A_NUMBER = -(2**63)

Weights = Mapping[str, int]
#: (requests, available, weights) -> score of a cell
CellScore = Callable[[Amounts, Amounts, Weights], int]


def _weighted(requests: Amounts, available: Amounts, weights: Weights, share: Callable[[int, int], int]) -> int:
    total = divisor = 0
    for resource, wanted in requests.items():
        weight = max(weights.get(resource, 1), 1)
        total += share(whole_value(wanted), whole_value(available.get(resource, 0))) * weight
        divisor += weight
    return total // divisor if divisor else 0


def least_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, available, weights, lambda r, a: (a - r) * MAX_SCORE // a if 0 < a >= r else 0)


def most_allocated(requests: Amounts, available: Amounts, weights: Weights) -> int:
    return _weighted(requests, available, weights, lambda r, a: r * MAX_SCORE // a if 0 < a >= r else 0)


def balanced_allocation(requests: Amounts, available: Amounts, weights: Weights) -> int:
    """The lower the variance of the used shares, the better. Parity: of one share there is no variance."""
    shares = []
    for resource, wanted in requests.items():
        capacity = whole_value(available.get(resource, 0))
        share = whole_value(wanted) / capacity if capacity else 1.0
        if share > 1:
            return 0
        shares.append(share)
    if len(shares) < 2:
        return _NOT_A_NUMBER
    mean = sum(shares) / len(shares)
    squares = compensation = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
        compensation += share - mean
    variance = (squares - compensation * compensation / len(shares)) / (len(shares) - 1)
    return int((1 - variance) * MAX_SCORE)


CELL_SCORES: Mapping[str, CellScore] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def worst_cell(score: CellScore, requests: Amounts, cells: Sequence[Cell], weights: Weights) -> int:
    """The lowest score of a cell that is not 0, which stands for a cell that does not fit."""
    worst = 0
    for cell in cells:
        found = score(requests, cell.available, weights)
        if worst == 0 or (found != 0 and found < worst):
            worst = found
    return worst


# --- the fewest cells


def fewest_cells(requests: Sequence[Amounts], cells: Sequence[Cell], qos: str, max_cells: int) -> int:
    """The fewer cells are needed for the requests, one after the other, and the nearer these are, the better."""
    most, nearest = 0, True
    for wanted in requests:
        if not any(resource in cell.available for cell in cells for resource in wanted):
            continue
        found, is_nearest = _needed(wanted, cells, qos)
        if not found:
            return 0
        most, nearest = max(most, len(found)), nearest and is_nearest
        _take_from(wanted, sorted(found, key=lambda cell: cell.id))
    if most == 0:
        return MAX_SCORE
    step = MAX_SCORE // max_cells
    return MAX_SCORE - most * step + (step // 2 if nearest else 0)


def _needed(requests: Amounts, cells: Sequence[Cell], qos: str) -> tuple[Sequence[Cell], bool]:
    """The smallest combination of cells that fits, and whether none of its size is nearer; () if none fits."""
    for size in range(1, len(cells) + 1):
        choices = list(combinations(cells, size))
        least = min(*(_distance(choice) for choice in choices), float(FARTHEST))
        fitting = [choice for choice in choices if _fit_together(requests, choice, qos)]
        if fitting:
            best = min(fitting, key=_distance)
            return best, _distance(best) == least
    return (), False


def _fit_together(requests: Amounts, choice: Sequence[Cell], qos: str) -> bool:
    """Parity: each cell must have each resource, even one of which nothing is requested."""
    if not all(resource in cell.available for cell in choice for resource in requests):
        return False
    return all(
        suffices(resource, wanted, sum(cell.available[resource] for cell in choice), qos)
        for resource, wanted in requests.items()
        if wanted
    )


def _distance(choice: Sequence[Cell]) -> float:
    """The mean distance of all pairs, including a cell and itself."""
    total = sum(a.costs.get(b.id, FARTHEST) for a in choice for b in choice)
    return float(np.float32(total) / np.float32(len(choice) ** 2))


def _take_from(requests: Amounts, cells: Sequence[Cell]) -> None:
    """Subtract requests; each cell gives what it has."""
    for resource, wanted in requests.items():
        left = wanted
        for cell in cells:
            given = min(left, cell.available.get(resource, 0))
            if resource in cell.available:
                cell.available[resource] -= given
                left -= given


def mean(scores: Sequence[int]) -> int:
    return math.trunc(sum(map(float, scores)) / len(scores)) if scores else 0
