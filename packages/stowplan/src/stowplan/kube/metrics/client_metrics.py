"""Metrics of the API client and of leader election.

Two groups only exist for their names: work queues, which this process does not have, and transport caches, as a client
has a single connection pool. Metrics without labels among them are exported as zero, like in the reference.

Upstream: staging/src/k8s.io/component-base/metrics/prometheus/{restclient,clientgo/leaderelection,workqueue}.
"""

from __future__ import annotations

from math import inf

from stowplan.kube.metrics.families import Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramVec
from stowplan.kube.metrics.registry import MetricsRegistry, exponential_buckets

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64.0, 256.0, 512.0, *exponential_buckets(1024, 4, 8))
_MINUTE = 60.0
_DAY = 86400.0
#: From ten minutes, too often, to four years, too seldom.
_ROTATION = (
    *(10 * _MINUTE, 30 * _MINUTE, 60 * _MINUTE, 240 * _MINUTE),
    *(_DAY, 7 * _DAY, 30 * _DAY, 90 * _DAY, 180 * _DAY, 360 * _DAY, 1440 * _DAY),
)
_FROM_10_NS = exponential_buckets(10e-9, 10, 10)


class ClientMetrics:
    """One attribute per metric, with the metric's name."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._requests(registry)
        self._exec_plugins(registry)
        self._transports(registry)
        self._leader_election(registry)
        self._work_queues(registry)

    def _requests(self, registry: MetricsRegistry) -> None:
        by_host = ("verb", "host")
        self.rest_client_requests_total: CounterVec = registry.counter_vec(
            "rest_client_requests_total",
            "HTTP requests, watches among them, by status code ('<error>' without an answer), method and host.",
            ("code", "method", "host"),
        )
        self.rest_client_request_duration_seconds: HistogramVec = registry.histogram_vec(
            "rest_client_request_duration_seconds", "How long requests took, in seconds.", by_host, _SECONDS
        )
        self.rest_client_rate_limiter_duration_seconds: HistogramVec = registry.histogram_vec(
            "rest_client_rate_limiter_duration_seconds",
            "How long requests waited for the client's own rate limit, in seconds.",
            by_host,
            _SECONDS,
        )
        self.rest_client_request_size_bytes: HistogramVec = registry.histogram_vec(
            "rest_client_request_size_bytes", "Bytes that requests sent.", by_host, _BYTES
        )
        self.rest_client_response_size_bytes: HistogramVec = registry.histogram_vec(
            "rest_client_response_size_bytes", "Size of responses in bytes.", by_host, _BYTES
        )
        self.rest_client_request_retries_total: CounterVec = registry.counter_vec(
            "rest_client_request_retries_total",
            "Retried requests, by the first outcome.",
            ("code", "verb", "host"),
        )

    def _exec_plugins(self, registry: MetricsRegistry) -> None:
        #: Infinite until an exec plugin has returned a certificate.
        self.rest_client_exec_plugin_ttl_seconds: Gauge = registry.gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until the first client certificate of an exec plugin expires; +Inf if there is none.",
        )
        self.rest_client_exec_plugin_ttl_seconds.set(inf)
        self.rest_client_exec_plugin_certificate_rotation_age: Histogram = registry.histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "How long a client certificate of an exec plugin was used before the next one came, in seconds.",
            _ROTATION,
        )
        self.rest_client_exec_plugin_call_total: CounterVec = registry.counter_vec(
            "rest_client_exec_plugin_call_total",
            "Calls of an exec plugin, by exit code and how the call went.",
            ("code", "call_status"),
        )

    def _transports(self, registry: MetricsRegistry) -> None:
        self.rest_client_transport_cache_entries: Gauge = registry.gauge(
            "rest_client_transport_cache_entries", "Transports that are kept for reuse."
        )
        self.rest_client_transport_create_calls_total: CounterVec = registry.counter_vec(
            "rest_client_transport_create_calls_total", "Requests for a transport, by where it came from.", ("result",)
        )
        self.rest_client_transport_ca_reload_total: CounterVec = registry.counter_vec(
            "rest_client_transport_ca_reload_total",
            "Times the certificate authorities were read again, by result and reason.",
            ("result", "reason"),
        )
        self.rest_client_transport_cert_rotation_gc_calls_total: Counter = registry.counter(
            "rest_client_transport_cert_rotation_gc_calls_total",
            "Certificate rotations that ended with the transport they served.",
        )
        self.rest_client_transport_cache_gc_calls_total: CounterVec = registry.counter_vec(
            "rest_client_transport_cache_gc_calls_total", "Attempts to drop a kept transport, by result.", ("result",)
        )

    def _leader_election(self, registry: MetricsRegistry) -> None:
        self.leader_election_master_status: GaugeVec = registry.gauge_vec(
            "leader_election_master_status",
            "Whether this process holds the lease of this name (1) or is a standby (0). Group by name.",
            ("name",),
        )
        self.leader_election_slowpath_total: CounterVec = registry.counter_vec(
            "leader_election_slowpath_total",
            "Times a lease was renewed the slow way, by reading it first. Group by name.",
            ("name",),
        )

    def _work_queues(self, registry: MetricsRegistry) -> None:
        name = ("name",)
        self.workqueue_depth: GaugeVec = registry.gauge_vec(
            "workqueue_depth", "Items that wait in a work queue.", name, stability="BETA"
        )
        self.workqueue_adds_total: CounterVec = registry.counter_vec(
            "workqueue_adds_total", "Items added to a work queue.", name, stability="BETA"
        )
        self.workqueue_retries_total: CounterVec = registry.counter_vec(
            "workqueue_retries_total", "Items put back into a work queue.", name, stability="BETA"
        )
        self.workqueue_queue_duration_seconds: HistogramVec = registry.histogram_vec(
            "workqueue_queue_duration_seconds",
            "How long items waited, in seconds.",
            name,
            _FROM_10_NS,
            stability="BETA",
        )
        self.workqueue_work_duration_seconds: HistogramVec = registry.histogram_vec(
            "workqueue_work_duration_seconds", "How long items took, in seconds.", name, _FROM_10_NS, stability="BETA"
        )
        self.workqueue_unfinished_work_seconds: GaugeVec = registry.gauge_vec(
            "workqueue_unfinished_work_seconds",
            "Seconds spent so far on items in work. It grows by the number of workers that hang.",
            name,
            stability="BETA",
        )
        self.workqueue_longest_running_processor_seconds: GaugeVec = registry.gauge_vec(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the oldest item in work has taken so far.",
            name,
            stability="BETA",
        )
