"""OpenMetrics 1.0 output by prometheus_client.

It differs from the Prometheus text in more than its framing. Bucket bounds have a decimal point ("1.0" for "1"), and as
they are labels, the series differ. A counter without the mandatory suffix "_total" has unknown type.

Upstream: github.com/prometheus/common/expfmt/openmetrics_create.go.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from stowplan.kube.metrics.families import Histogram
from stowplan.kube.metrics.prometheus_text import bucket_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from stowplan.kube.metrics.samples import Family

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
