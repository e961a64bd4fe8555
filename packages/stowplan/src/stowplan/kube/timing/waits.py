"""How long pods waited for a node, and the distribution of these times in bounded memory.

A wait is the time from a pod's arrival to its binding. A pod that never gets a node has waited until it is deleted, or
until the end of the run: its wait counts as well, and is a lower bound. Pods that arrive with a node do not wait.

Waits are counted in buckets that are 1/128 of an octave wide, computed exactly, so a quantile is off by less than 1 %;
sum, count and maximum are exact.
"""

from __future__ import annotations

from collections import Counter
from math import frexp, ldexp

from stowplan.kube.compiled import mypyc_attr

#: The definition, for users.
COUNTED = (
    "Waits are from arrival to binding; those of pods that never got a node count until they were deleted or the run "
    "ended, as lower bounds."
)
_PARTS = 128
#: Shorter waits count as zero: decisions take no simulated time.
_NONE = 1e-3


class Waits:
    def __init__(self) -> None:
        self.count = 0
        #: Of them, how many pods never got a node.
        self.unplaced = 0
        self.none = 0
        self.total = 0.0
        self.longest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float, *, placed: bool = True) -> None:
        """`placed`: whether the wait ended with a node."""
        self.count += 1
        self.unplaced += not placed
        if seconds < _NONE:
            self.none += 1
            return
        self.total += seconds
        self.longest = max(self.longest, seconds)
        mantissa, exponent = frexp(seconds)
        self._buckets[exponent * _PARTS + int((mantissa - 0.5) * 2 * _PARTS)] += 1

    def copy(self) -> Waits:
        found = Waits()
        found.count, found.unplaced, found.none = self.count, self.unplaced, self.none
        found.total, found.longest, found._buckets = self.total, self.longest, self._buckets.copy()
        return found

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


def wait_measures(waits: Waits) -> dict[str, float]:
    """The measures that configurations are compared by, in seconds and pods."""
    return {
        "waits.mean": waits.mean,
        "waits.p95": waits.quantile(0.95),
        "waits.longest": waits.longest,
        "unplaced": float(waits.unplaced),
    }


@mypyc_attr(allow_interpreted_subclasses=True)
class WaitingPods:
    """Pods that arrive without a node, and their waits; pods are named by UID."""

    def __init__(self) -> None:
        self._ended = Waits()
        #: Of pods without a node.
        self._arrived: dict[str, float] = {}

    def arrived(self, uid: str, now: float) -> None:
        self._arrived.setdefault(uid, now)

    def placed(self, uid: str, now: float) -> None:
        """No-op if it has a node already, or arrived with one."""
        self._end(uid, now, placed=True)

    def gone(self, uid: str, now: float) -> None:
        """It was deleted; no-op if it had a node."""
        self._end(uid, now, placed=False)

    def _end(self, uid: str, now: float, *, placed: bool) -> None:
        arrived = self._arrived.pop(uid, None)
        if arrived is not None:
            self._ended.add(now - arrived, placed=placed)

    def until(self, now: float) -> Waits:
        """All waits, of pods that are still waiting until now."""
        found = self._ended.copy()
        for arrived in self._arrived.values():
            found.add(now - arrived, placed=False)
        return found


def _upper(bucket: int) -> float:
    exponent, part = divmod(bucket, _PARTS)
    return ldexp(0.5 + (part + 1) / (2 * _PARTS), exponent)
