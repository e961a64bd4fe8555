"""A piecewise linear score over utilization.

Upstream: pkg/scheduler/framework/plugins/helper/shape_score.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class ShapePoints:
    """The line through (utilization, score) points, precomputed for utilizations of 0…100."""

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._scores = np.array([_on_line(points, p) for p in range(101)], np.int64)

    def __call__(self, utilization: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # Clipped, because percentages of amounts beyond 2^56 overflow; the line is flat beyond its ends.
        found: npt.NDArray[np.int64] = self._scores.take(utilization, mode="clip")
        return found


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
