"""Arithmetic that the scores of several plugins share: Go's integer division, and normalizing by bounds."""

import numpy as np

from stowplan.plugins import MAX_SCORE, Ints, Mask


def truncated(dividend: Ints, divisor: int) -> Ints:
    """Integer division that rounds toward zero, as in Go."""
    quotient: Ints = np.abs(dividend) // abs(divisor)
    return np.where((dividend < 0) != (divisor < 0), -quotient, quotient)


def lowest_to_highest(scores: Ints, feasible: Mask) -> Ints:
    """The lowest score of a feasible node becomes 0, the highest 100; equal ones all become 0."""
    lowest, highest = bounds(scores, feasible)
    if lowest == highest:
        return np.zeros_like(scores)
    return truncated((scores - np.int64(lowest)) * MAX_SCORE, highest - lowest)


def highest_to_lowest(scores: Ints, feasible: Mask) -> Ints:
    """The lowest cost of a feasible node becomes 100, the highest 0; equal ones become 100, or stay if they are 0."""
    lowest, highest = bounds(scores, feasible)
    if lowest == highest:
        return scores if lowest == 0 else np.full_like(scores, MAX_SCORE)
    shares = MAX_SCORE * (scores - np.int64(lowest)).astype(np.float64) / (highest - lowest)
    return MAX_SCORE - np.clip(shares, 0, MAX_SCORE).astype(np.int64)


def bounds(scores: Ints, feasible: Mask) -> tuple[int, int]:
    """The lowest and the highest score among feasible nodes; 0 and 0 if there are none."""
    among = scores[feasible]
    return (int(among.min()), int(among.max())) if len(among) else (0, 0)


def rounded(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Ints:
    """Round half away from zero, as Go does; NumPy rounds half to even."""
    whole = np.trunc(values)
    away: Ints = (whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0)).astype(np.int64)
    return away
