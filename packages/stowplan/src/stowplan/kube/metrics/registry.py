"""A registry of metrics, with the flags that hide or show them, and its text for Prometheus.

Families are added when they are created and stay. None was deprecated in an earlier release, so
--show-hidden-metrics-for-version has no effect. A disabled one is created like any other, so that its users need not
know, but never exported. Values that are stored elsewhere (queue lengths, /proc) are read at each scrape, by a function
passed to `at_scrape`.

The text is in Prometheus 0.0.4, or in OpenMetrics 1.0 for clients that accept nothing else. That formats bucket bounds
differently ("1.0" for "1"), and these are labels: for a Prometheus that prefers OpenMetrics, the series would differ
from those of the reference, which never uses OpenMetrics. Protocol buffers are not offered; clients that prefer them
accept text, too.

Upstream: staging/src/k8s.io/component-base/metrics/{registry,metric,options}.go,
github.com/prometheus/client_golang/prometheus/promhttp/http.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Self

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

if TYPE_CHECKING:
    from prometheus_client import Metric


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


# OpenMetrics 1.0 output by prometheus_client.
#
# It differs from the Prometheus text in more than its framing. Bucket bounds have a decimal point ("1.0" for "1"),
# and as they are labels, the series differ. A counter without the mandatory suffix "_total" has unknown type.
#
# Upstream: github.com/prometheus/common/expfmt/openmetrics_create.go.

_TOTAL = "_total"


def openmetrics(families: Iterable[Family]) -> bytes:
    from prometheus_client.openmetrics.exposition import generate_latest  # imported on use

    body: bytes = generate_latest(_Page(families))  # type: ignore[no-untyped-call]
    return body


class _Page:
    """The part of a registry that prometheus_client's writer uses."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = _as_metric(family)
            if metric.samples:
                yield metric


def _as_metric(family: Family) -> Metric:
    from prometheus_client import Metric

    is_odd = family.kind == "counter" and not family.name.endswith(_TOTAL)
    name = family.name.removesuffix(_TOTAL) if family.kind == "counter" else family.name
    metric = Metric(name, family.help, "unknown" if is_odd else family.kind)
    for values, child in sorted(family.series(), key=lambda series: series[0]):
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(child, Histogram):
            _add_histogram(metric, labels, child)
        else:
            metric.add_sample(family.name, labels, child.value)
    return metric


def _add_histogram(metric: Metric, labels: dict[str, str], child: Histogram) -> None:
    cumulative = list(accumulate(child.counts))
    for bound, count in zip(bucket_bounds(child.bounds), cumulative, strict=True):
        dotted = f"{bound}.0" if bound.lstrip("-").isdigit() else bound
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": dotted}, count)
    metric.add_sample(f"{metric.name}_sum", labels, child.sum)
    metric.add_sample(f"{metric.name}_count", labels, cumulative[-1])


# Prometheus text format 0.0.4, formatted like upstream.
#
# Not encoded by prometheus_client, which is used for OpenMetrics: a busy scheduler's page has some four thousand
# lines, and the event loop is blocked meanwhile. That takes 6 ms here and ten times as long there; besides, it
# appends "_total" to counters that the reference names without, and ".0" to whole numbers.
#
# Upstream: github.com/prometheus/common/expfmt/text_create.go.


def family_text(family: Family) -> str:
    """The family with its series in the order of their labels; empty without series."""
    text = "".join(_series(family))
    if not text:
        return ""
    help = family.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {family.name} {help}\n# TYPE {family.name} {family.kind}\n{text}"


def escaped(value: str) -> str:
    """Escape a label value."""
    if "\\" not in value and "\n" not in value and '"' not in value:
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def go_float(number: float) -> str:
    """The number in Go's format: the shortest digits, with an exponent below 1e-4 and from a million on."""
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    digits, _, exponent = f"{float(number)!r}".partition("e")
    if exponent:
        return f"{digits.removesuffix('.0')}e{exponent}"
    if abs(number) < 1e6:
        return digits.removesuffix(".0")
    whole, _, fraction = digits.lstrip("-").partition(".")
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
    return f"{'-' if number < 0 else ''}{mantissa}e+{len(whole) - 1:02d}"


@lru_cache(maxsize=256)
def bucket_bounds(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The upper bounds of a histogram's buckets, including +Inf."""
    return (*map(go_float, bounds), "+Inf")


def _series(family: Family) -> Iterator[str]:
    # Go sorts labels by name, and series by labels.
    order = sorted(range(len(family.labels)), key=family.labels.__getitem__)
    series = [([values[place] for place in order], child) for values, child in family.series()]
    names = [family.labels[place] for place in order]
    for values, child in sorted(series, key=lambda one: one[0]):
        labels = ",".join([f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)])
        if isinstance(child, Histogram):
            yield from _buckets(family.name, labels, child)
        else:
            yield f"{_named(family.name, labels)} {go_float(child.value)}\n"


def _buckets(name: str, labels: str, child: Histogram) -> Iterator[str]:
    start = f'{name}_bucket{{{labels}{"," if labels else ""}le="'
    count = 0
    for bound, count in zip(bucket_bounds(child.bounds), accumulate(child.counts), strict=True):
        yield f'{start}{bound}"}} {count if count < 1_000_000 else go_float(count)}\n'
    yield f"{_named(f'{name}_sum', labels)} {go_float(child.sum)}\n"
    yield f"{_named(f'{name}_count', labels)} {count if count < 1_000_000 else go_float(count)}\n"


def _named(name: str, labels: str) -> str:
    return f"{name}{{{labels}}}" if labels else name


#: Names contain no characters that need escaping; the scheme is the reference's.
TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render(registries: Iterable[MetricsRegistry], accept: str) -> tuple[str, bytes]:
    """Content type and body. Names must be unique among the registries."""
    families = [family for registry in registries for family in registry.families()]
    families.sort(key=lambda family: family.name)
    if _wants_openmetrics(accept):
        return OPENMETRICS, openmetrics(families)
    return TEXT, "".join(map(family_text, families)).encode()


def _wants_openmetrics(accept: str) -> bool:
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "application/openmetrics-text" in kinds and kinds.isdisjoint(("text/plain", "text/*", "*/*"))
