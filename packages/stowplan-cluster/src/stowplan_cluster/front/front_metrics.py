"""Metrics of the HTTP front.

Names, labels and buckets are upstream's, so that dashboards and alerts work. Label values come from served resources,
never from request input, so the number of time series is bounded.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go.
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.metrics.process_metrics import ProcessMetrics
from stowplan.kube.metrics.registry import MetricsRegistry, render

_COMPONENT = "apiserver"
_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)


class RequestLabels(NamedTuple):
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    dry_run: str = ""


class Metrics:
    def __init__(self) -> None:
        self.registry = registry = MetricsRegistry()
        labels = (*RequestLabels._fields, "component")
        watch_labels = tuple(label for label in labels if label != "dry_run")
        self._requests = registry.counter_vec(
            "apiserver_request_total",
            "Requests by verb, resource, scope and HTTP code.",
            (*labels, "code"),
            stability="STABLE",
        )
        self._durations = registry.histogram_vec(
            "apiserver_request_duration_seconds",
            "How long requests took, by verb, resource and scope.",
            labels,
            _BUCKETS,
            stability="STABLE",
        )
        self._long_running = registry.gauge_vec(
            "apiserver_longrunning_requests", "Watches open now.", watch_labels, stability="STABLE"
        )
        self._inflight = registry.gauge_vec(
            "apiserver_current_inflight_requests",
            "Requests being answered now, by kind.",
            ("request_kind",),
            stability="STABLE",
        )
        self._dropped = registry.counter_vec(
            "apiserver_dropped_requests_total", "Requests turned away because there were too many.", ("request_kind",)
        )
        self._watch_events = registry.counter_vec(
            "apiserver_watch_events_total", "Events sent to watches.", ("group", "version", "resource")
        )
        self._slow_watchers = registry.counter(
            "apiserver_terminated_watchers_total", "Watches ended because their reader was too slow."
        )
        ProcessMetrics(registry)
        registry.at_scrape(self._refresh)
        #: Open watches.
        self.watches = 0
        #: Requests in flight, by kind.
        self.inflight = {"readOnly": 0, "mutating": 0}
        #: Requests rejected because of too many in flight, by kind.
        self.dropped = {"readOnly": 0, "mutating": 0}
        #: Watches ended because their reader was too slow.
        self.slow_watchers = 0

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        self._requests.with_label_values(*labels, _COMPONENT, str(code)).inc()
        self._durations.with_label_values(*labels, _COMPONENT).observe(seconds)

    def long_running(self, labels: RequestLabels, change: int) -> None:
        """Count a watch that starts (1) or ends (-1)."""
        self.watches += change
        self._long_running.with_label_values(*labels[:-1], _COMPONENT).inc(change)

    def count_watch_events(self, group: str, version: str, resource: str, count: int) -> None:
        self._watch_events.with_label_values(group, version, resource).inc(count)

    def page(self, accept: str) -> tuple[str, bytes]:
        """Content type and body of /metrics."""
        return render([self.registry], accept)

    def _refresh(self) -> None:
        for kind, count in self.inflight.items():
            self._inflight.with_label_values(kind).set(count)
        for kind, count in self.dropped.items():
            self._dropped.with_label_values(kind).value = count
        self._slow_watchers.value = self.slow_watchers
