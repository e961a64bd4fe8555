"""Normalize scores to 0–100 by the highest score among feasible nodes.

Upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.framework.interface import MAX_SCORE


def default_normalize(scores: Ints, feasible: Mask, *, reverse: bool = False) -> Ints:
    """Scores in proportion to the highest; reversed, the highest becomes 0."""
    largest = int(scores.max(initial=0, where=feasible))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    # Go's integer division truncates; this only matters for negative weights set by users.
    sign = -1 if reverse else 1
    base = MAX_SCORE if reverse else 0
    lowest = min(int(scores.min()), 0)
    return mapped(
        scores, lowest, largest, lambda raw: base + sign * np.sign(raw) * (MAX_SCORE * np.abs(raw) // largest)
    )


_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

#: Ranges of up to this many values are mapped through a table: scores repeat, and a division per node is slow.
_TABLE = 4096


def bounds_of(scores: Ints, among: Mask) -> tuple[int, int] | None:
    """Lowest and highest score among some nodes; None if there are none."""
    if among.all():
        return (int(scores.min()), int(scores.max())) if len(scores) else None
    low = int(np.where(among, scores, _LARGEST).min())
    high = int(np.where(among, scores, _SMALLEST).max())
    return (low, high) if low <= high else None


def mapped(
    scores: Ints,
    low: int,
    high: int,
    rule: Callable[[Ints], Ints],
) -> Ints:
    """Apply a rule to scores within a range; scores outside, which are never read, are clipped."""
    if high - low > _TABLE:
        return rule(np.clip(scores, low, high))
    table = rule(np.arange(low, high + 1))
    found: Ints = table.take(scores - low if low else scores, mode="clip")
    return found
