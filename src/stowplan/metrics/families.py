"""Counters, gauges and histograms with minimal overhead.

A metric is a family with a name; under it is one child for each combination of label values, and only children are
moved. A hot path asks for its child once, keeps it, and moves it for the price of an attribute. That price is why these
are ours and not prometheus_client's, whose children take a lock for each move (CPython 3.11, median, ns):

    ======================  ====  =================
    .                       ours  prometheus_client
    ======================  ====  =================
    Counter.inc()             45                310
    Gauge.set(x)              35                290
    Histogram.observe(x)     125                720
    to ask for a child       100               1000
    ======================  ====  =================

Nothing here locks: one event loop owns all metrics. How they are written out is the business of `exposition`; names,
help and stability are the registry's.

Upstream: staging/src/k8s.io/component-base/metrics/{counter,gauge,histogram,opts}.go.
"""

from __future__ import annotations

from bisect import bisect_left
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: What a label value outside the family's allow-list is counted as.
UNEXPECTED = "unexpected"


class _Number:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount

    def clear(self) -> None:
        self.value = 0.0

    @property
    def is_clear(self) -> bool:
        return self.value == 0


class Counter(_Number):
    """Only goes up; `value` may be added to directly where a call is too much."""

    __slots__ = ()


class Gauge(_Number):
    """What is true now."""

    __slots__ = ()

    def set(self, value: float) -> None:
        self.value = value

    def dec(self, amount: float = 1.0) -> None:
        self.value -= amount


class Histogram:
    """How often values fell between the bounds; a value on a bound belongs below it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        #: Upper bounds, ascending, without +Inf.
        self.bounds = bounds
        #: Observations by bucket, not cumulative; the last is above every bound.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def clear(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    @property
    def is_clear(self) -> bool:
        return not any(self.counts)


Child = TypeVar("Child", Counter, Gauge, Histogram)


class Vec(Generic[Child]):
    """The children of one family, by their label values; a child appears once it has been asked for."""

    def __init__(
        self,
        labels: tuple[str, ...],
        make: Callable[[], Child],
        *,
        allowed: Mapping[str, frozenset[str]] = MappingProxyType({}),
        unexpected: Counter | None = None,
    ) -> None:
        """`allowed`: the values a label may have; all others share one child and are counted in `unexpected`."""
        self.labels = labels
        self._make: Callable[[], Child] = make
        self._allowed = tuple(allowed.get(label) for label in labels)
        self._unexpected = unexpected or Counter()
        self._children: dict[tuple[str, ...], Child] = {}
        #: Keys that a reset took from view. They come back when they are asked for or moved again.
        self._unseen: set[tuple[str, ...]] = set()

    def with_label_values(self, *values: str) -> Child:
        """The child for these values, which stand in the order of `labels`. It stays valid for good."""
        child = self._children.get(values)
        if child is None or (self._unseen and values in self._unseen):
            child = self._child(self._within_the_allowed(values))
        return child

    def reset(self) -> None:
        """Back to nothing observed: children are zero, and out of view until they are used again."""
        for child in self._children.values():
            child.clear()
        if self.labels:
            self._unseen.update(self._children)

    def series(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """The children to show, by their label values."""
        for values, child in self._children.items():
            if values not in self._unseen or not child.is_clear:
                yield values, child

    def _child(self, values: tuple[str, ...]) -> Child:
        self._unseen.discard(values)
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._make()
        return child

    def _within_the_allowed(self, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(values) != len(self.labels):
            raise ValueError(f"labels {self.labels} take {len(self.labels)} values, got {values}")
        return tuple(map(self._constrained, self._allowed, values))

    def _constrained(self, allowed: frozenset[str] | None, value: str) -> str:
        if allowed is None or value in allowed:
            return value
        self._unexpected.inc()
        return UNEXPECTED


CounterVec = Vec[Counter]
GaugeVec = Vec[Gauge]
HistogramVec = Vec[Histogram]
