"""The distribution of pods' waiting times, in bounded memory.

Waits are counted in buckets that are 1/128 of an octave wide, computed exactly, so a quantile is off by less than 1 %;
sum, count and maximum are exact.
"""

from __future__ import annotations

from collections import Counter
from math import frexp, ldexp

_PARTS = 128
#: Shorter waits count as zero: decisions take no simulated time.
_NONE = 1e-3


class Waits:
    def __init__(self) -> None:
        self.count = 0
        self.none = 0
        self.total = 0.0
        self.longest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self.count += 1
        if seconds < _NONE:
            self.none += 1
            return
        self.total += seconds
        self.longest = max(self.longest, seconds)
        mantissa, exponent = frexp(seconds)
        self._buckets[exponent * _PARTS + int((mantissa - 0.5) * 2 * _PARTS)] += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The wait that this share of the pods did not exceed."""
        wanted = share * self.count
        seen = self.none
        if seen >= wanted:
            return 0.0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(self.longest, _upper(bucket))
        return self.longest

    def above(self, seconds: float) -> int:
        """How many waited longer, to the width of a bucket."""
        return sum(number for bucket, number in self._buckets.items() if _upper(bucket) > seconds)


def _upper(bucket: int) -> float:
    exponent, part = divmod(bucket, _PARTS)
    return ldexp(0.5 + (part + 1) / (2 * _PARTS), exponent)
