"""A piecewise linear score over utilization.

Upstream: pkg/scheduler/framework/plugins/helper/shape_score.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.framework.interface import MAX_SCORE
from stowplan.scheduler.in_tree.common.args import MAX_CUSTOM_PRIORITY_SCORE, UtilizationShapePoint


class ShapePoints:
    """The line through (utilization, score) points, precomputed for utilizations of 0…100."""

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._scores = np.array([_on_line(points, p) for p in range(101)], np.int64)

    @classmethod
    def scaled(cls, shape: Sequence[UtilizationShapePoint]) -> ShapePoints:
        """Of a shape in a configuration, whose scores are 0…10."""
        return cls([(point.utilization, point.score * MAX_SCORE // MAX_CUSTOM_PRIORITY_SCORE) for point in shape])

    def __call__(self, utilization: Ints) -> Ints:
        # Clipped, because percentages of amounts beyond 2^56 overflow; the line is flat beyond its ends.
        found: Ints = self._scores.take(utilization, mode="clip")
        return found


def mean_of_positive(scores: Ints, weights: Ints) -> Ints:
    """Weighted mean over the resources, rounded half up.

    Parity: only resources with a score above zero are part of it.
    """
    total = (scores * weights).sum(axis=0)
    weight = ((scores > 0) * weights).sum(axis=0)
    rounded: Ints = np.floor(total / np.maximum(weight, 1) + 0.5).astype(np.int64)
    return rounded


def _on_line(points: Sequence[tuple[int, int]], p: int) -> int:
    for i, (utilization, score) in enumerate(points):
        if p <= utilization:
            if i == 0:
                return score
            u0, s0 = points[i - 1]
            return s0 + truncated((score - s0) * (p - u0), utilization - u0)
    return points[-1][1]


def truncated(dividend: int, divisor: int) -> int:
    """Integer division that truncates toward zero, as in Go."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
