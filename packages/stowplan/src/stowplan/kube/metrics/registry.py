"""A registry of metrics, with the flags that hide or show them.

Families are added when they are created and stay. None was deprecated in an earlier release, so
--show-hidden-metrics-for-version has no effect. A disabled one is created like any other, so that its users need not
know, but never exported. Values that are stored elsewhere (queue lengths, /proc) are read at each scrape, by a function
passed to `at_scrape`.

Upstream: staging/src/k8s.io/component-base/metrics/{registry,metric,options}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, Self

from msgspec import field

from stowplan.kube.metrics.families import (
    Child,
    Counter,
    CounterVec,
    Family,
    Gauge,
    GaugeVec,
    Histogram,
    HistogramVec,
    Kind,
    Vec,
)
from stowplan.kube.structs import PlainStruct

#: INTERNAL and ALPHA may change, BETA and STABLE may not; "" is for metrics that are not Kubernetes' (process_*).
Stability = Literal["INTERNAL", "ALPHA", "BETA", "STABLE", ""]
Labels = tuple[str, ...]


class MetricsOptions(PlainStruct, frozen=True, kw_only=True):
    """The flags --disabled-metrics, and --allow-metric-labels or its manifest."""

    #: Full names of metrics that are not exported.
    disabled: frozenset[str] = frozenset()
    #: (full name, label) -> allowed values; any other becomes "unexpected".
    allowed_values: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, *, disabled: Iterable[str] = (), allow_labels: Mapping[str, str] = MappingProxyType({})) -> Self:
        """From parsed and valid flags: names, and "metric,label" -> "v1,v2"."""
        allowed = {}
        for key, values in allow_labels.items():
            metric, _, label = key.partition(",")
            allowed[metric, label] = frozenset(values.split(","))
        return cls(disabled=frozenset(disabled) - {""}, allowed_values=MappingProxyType(allowed))


class MetricsRegistry:
    """Creates and exports families. Two families with the same name are a bug."""

    def __init__(self, options: MetricsOptions | None = None) -> None:
        self.options = options or MetricsOptions()
        self._families: dict[str, Family] = {}
        self._resets: list[Callable[[], None]] = []
        self._refreshers: list[Callable[[], None]] = []
        self._unexpected = Counter()
        self._hidden = Counter()
        self._registered = Vec(("stability_level", "deprecated_version"), Counter)

    def counter(self, name: str, help: str, *, stability: Stability = "ALPHA") -> Counter:
        return self.counter_vec(name, help, (), stability=stability).with_label_values()

    def counter_vec(self, name: str, help: str, labels: Labels, *, stability: Stability = "ALPHA") -> CounterVec:
        vector = self._vector(name, labels, Counter)
        self._enter(name, help, "counter", vector, stability)
        self._resets.append(vector.reset)
        return vector

    def gauge(self, name: str, help: str, *, stability: Stability = "ALPHA") -> Gauge:
        return self.gauge_vec(name, help, (), stability=stability).with_label_values()

    def gauge_vec(self, name: str, help: str, labels: Labels, *, stability: Stability = "ALPHA") -> GaugeVec:
        vector = self._vector(name, labels, Gauge)
        self._enter(name, help, "gauge", vector, stability)
        return vector

    def histogram(
        self, name: str, help: str, buckets: tuple[float, ...], *, stability: Stability = "ALPHA"
    ) -> Histogram:
        vector = self._histogram_vec(name, help, (), buckets, stability)
        # Parity: a reset drops the children of vectors, but not a histogram without labels.
        return vector.with_label_values()

    def histogram_vec(
        self,
        name: str,
        help: str,
        labels: Labels,
        buckets: tuple[float, ...],
        *,
        stability: Stability = "ALPHA",
        deprecated: str = "",
    ) -> HistogramVec:
        """`deprecated`: the version that deprecated it."""
        vector = self._histogram_vec(name, help, labels, buckets, stability, deprecated)
        self._resets.append(vector.reset)
        return vector

    def at_scrape(self, refresh: Callable[[], None]) -> None:
        """Call `refresh` before each scrape, to set its metrics."""
        self._refreshers.append(refresh)

    def register_meta_metrics(self) -> None:
        """Export metrics about the metrics. Only for the main page."""
        self._enter(
            "registered_metrics_total",
            "Metrics that are registered, by stability and the version that deprecated them.",
            "counter",
            self._registered,
            "BETA",
        )
        self._enter_counter("hidden_metrics_total", "Metrics that are registered but not shown.", self._hidden, "BETA")
        disabled = self.counter("disabled_metrics_total", "Metric names that a flag disables.", stability="BETA")
        disabled.inc(len(self.options.disabled))
        self._enter_counter(
            "cardinality_enforcement_unexpected_categorizations_total",
            "Label values that were outside their allow-list.",
            self._unexpected,
            "ALPHA",
        )

    def families(self) -> Iterator[Family]:
        """The exported families by name, with current values."""
        for refresh in self._refreshers:
            refresh()
        for name in sorted(self._families):
            yield self._families[name]

    def reset(self) -> None:
        """Reset counters and histograms, for DELETE /metrics.

        Gauges are kept: they are current values, and upstream's, which are reset, are wrong until they are next set.
        """
        for reset in self._resets:
            reset()

    def _histogram_vec(
        self,
        name: str,
        help: str,
        labels: Labels,
        buckets: tuple[float, ...],
        stability: Stability,
        deprecated: str = "",
    ) -> HistogramVec:
        if list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name}: buckets must ascend, got {buckets}")
        vector = self._vector(name, labels, partial(Histogram, buckets))
        self._enter(name, help, "histogram", vector, stability, deprecated)
        return vector

    def _vector(self, name: str, labels: Labels, make: Callable[[], Child]) -> Vec[Child]:
        allowed = {label: values for (metric, label), values in self.options.allowed_values.items() if metric == name}
        return Vec(labels, make, allowed=allowed, unexpected=self._unexpected)

    def _enter_counter(self, name: str, help: str, counter: Counter, stability: Stability) -> None:
        vector = Vec((), lambda: counter)
        vector.with_label_values()
        self._enter(name, help, "counter", vector, stability)

    def _enter(
        self, name: str, help: str, kind: Kind, vector: Vec[Child], stability: Stability, deprecated: str = ""
    ) -> None:
        if name in self._families:
            raise ValueError(f"metric {name} is registered twice")
        if name in self.options.disabled:
            self._hidden.inc()
            return
        text = f"(Deprecated since {deprecated}) {help}" if deprecated else help
        text = f"[{stability}] {text}" if stability else text
        self._families[name] = Family(name=name, help=text, kind=kind, labels=vector.labels, series=vector.series)
        if stability:
            self._registered.with_label_values(stability, deprecated).inc()


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bounds, each `factor` times the one before, multiplied step by step like upstream's."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)
