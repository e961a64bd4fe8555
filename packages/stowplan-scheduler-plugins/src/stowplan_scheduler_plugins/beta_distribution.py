"""The beta distribution with a given mean and deviation: how probable is it that a share stays below a threshold?

The regularized incomplete beta function is a continued fraction (modified Lentz), which converges fast on one side of
the mean; on the other one the function of the mirrored arguments is taken.
"""

import math

#: The smallest positive float: as in the reference, the parameters' sum is at least that.
_SMALLEST = 5e-324
_TINY, _PRECISION, _MAX_STEPS = 1e-300, 1e-16, 10_000


def fitted(mean: float, deviation: float) -> tuple[float, float] | None:
    """The parameters alpha and beta; None if no beta distribution has these moments."""
    # Computed from the moments, as in the reference: rounding decides at the limits.
    second = deviation * deviation + mean * mean
    variance = second - mean * mean
    if not 0 <= mean <= 1 or variance < 0 or variance >= mean * (1 - mean):
        return None
    if variance == 0:
        return None
    total = max(mean * (1 - mean) / variance - 1, _SMALLEST)
    return mean * total, (1 - mean) * total


def probability_below(share: float, alpha: float, beta: float) -> float:
    """The probability of a value up to the share; 0 where that is not defined."""
    if not 0 <= share <= 1 or alpha <= 0 or beta <= 0:
        return 0.0
    if share in (0, 1):
        return float(share)
    found = _incomplete(share, alpha, beta)
    return found if 0 <= found <= 1 else 0.0


def _incomplete(x: float, a: float, b: float) -> float:
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_below(1 - x, b, a)
    return _incomplete_below(x, a, b)


def _incomplete_below(x: float, a: float, b: float) -> float:
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c = 1.0
    d = 1 / _apart_from_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _apart_from_zero(1 + step * d)
            c = _apart_from_zero(1 + step / c)
            found *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return found


def _apart_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
