"""Render metrics in the format that the client accepts: Prometheus 0.0.4 or OpenMetrics 1.0.

OpenMetrics is only used for clients that accept nothing else. It formats bucket bounds differently ("1.0" for "1"), and
these are labels: for a Prometheus that prefers OpenMetrics, the series would differ from those of the reference, which
never uses OpenMetrics. Protocol buffers are not offered; clients that prefer them accept text, too.

Upstream: github.com/prometheus/client_golang/prometheus/promhttp/http.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from stowplan.kube.metrics.families import Family, Histogram
from stowplan.kube.metrics.registry import MetricsRegistry

if TYPE_CHECKING:
    from prometheus_client import Metric


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
