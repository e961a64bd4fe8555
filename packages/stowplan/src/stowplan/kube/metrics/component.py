"""All metrics of the process: the main page and the SLI page.

Upstream: cmd/kube-scheduler/app/server.go (newEndpointsHandler), and the packages whose import registers metrics.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.kube.metrics.build_info import (
    BuildInfo,
    CompatibilityVersions,
    register_build_info,
    register_features,
    register_version_info,
)
from stowplan.kube.metrics.client_metrics import ClientMetrics
from stowplan.kube.metrics.exposition import render
from stowplan.kube.metrics.families import Counter, CounterVec, Gauge, GaugeVec, Histogram
from stowplan.kube.metrics.process_metrics import ProcessMetrics, PythonMetrics, register_start_time
from stowplan.kube.metrics.registry import MetricsOptions, MetricsRegistry, exponential_buckets
from stowplan.kube.metrics.scheduler import Gates, SchedulerMetrics
from stowplan.kube.metrics.serving import ServingMetrics

# Stowplan's own metrics, prefixed "stowplan_".
#
# Set at the scrape (`registry.at_scrape`), unless noted; vectors have no children before.


class StowplanMetrics:
    """One attribute per metric, named without "stowplan_"."""

    def __init__(self, registry: MetricsRegistry, *, version: str) -> None:
        registry.gauge_vec(
            "stowplan_build_info", "Always 1; the label tells which Stowplan runs.", ("version",)
        ).with_label_values(version).set(1.0)
        #: Observed once a second: how late a timer of the event loop fired.
        self.event_loop_lag_seconds: Histogram = registry.histogram(
            "stowplan_event_loop_lag_seconds",
            "By how much the event loop was late for a timer, in seconds: how long a decision or a page held it up.",
            exponential_buckets(0.001, 2, 14),
        )
        self.client_requests_waiting: GaugeVec = registry.gauge_vec(
            "stowplan_client_requests_waiting",
            "Requests that wait for their turn at the client's rate limit, by the lane they wait in.",
            ("lane",),
        )
        self.events_dropped_total: Counter = registry.counter(
            "stowplan_events_dropped_total", "Events about pods that were not sent, as too many waited already."
        )
        self.stories: Gauge = registry.gauge("stowplan_stories", "Pods whose story is kept in memory.")
        #: Set anew at each scrape, for shapes that the cluster has.
        self.room_pods: GaugeVec = registry.gauge_vec(
            "stowplan_room_pods",
            "How many more pods, or gangs, of a shape fit, by resources alone; if_together: if all that is free were.",
            ("shape", "if_together"),
        )
        self.fragmentation_ratio: GaugeVec = registry.gauge_vec(
            "stowplan_fragmentation_ratio",
            "Share of what is free of a resource that is on nodes where a typical pod does not fit.",
            ("resource",),
        )
        #: Counted directly, by the file watch.
        self.config_reloads_total: CounterVec = registry.counter_vec(
            "stowplan_config_reloads_total",
            "Changes of the configuration file that came into force (swapped) or were wrong (refused).",
            ("result",),
        )
        #: Counted directly, by the hang guard.
        self.plugin_hangs_total: CounterVec = registry.counter_vec(
            "stowplan_plugin_hangs_total",
            "Calls of a plugin that did not come back in time.",
            ("plugin", "extension_point"),
        )


# /metrics/slis: health check results.
#
# Upstream: staging/src/k8s.io/component-base/metrics/prometheus/slis, .../metrics/processstarttime.go.


class HealthMetrics:
    """The last results of health checks, and their counts."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.kubernetes_healthcheck: GaugeVec = registry.gauge_vec(
            "kubernetes_healthcheck",
            "Last result of a health check: 1 is healthy.",
            ("name", "type"),
            stability="STABLE",
        )
        self.kubernetes_healthchecks_total: CounterVec = registry.counter_vec(
            "kubernetes_healthchecks_total",
            "Cumulative results of health checks.",
            ("name", "type", "status"),
            stability="STABLE",
        )

    def observe(self, name: str, type: str, ok: bool) -> None:
        """`type` is the requested endpoint: healthz, livez or readyz."""
        self.kubernetes_healthcheck.with_label_values(name, type).set(1.0 if ok else 0.0)
        self.kubernetes_healthchecks_total.with_label_values(name, type, "success" if ok else "error").inc()


class ComponentMetrics:
    """Created once, before anything is counted."""

    def __init__(
        self,
        options: MetricsOptions,
        *,
        gates: Gates,
        features: Iterable[tuple[str, str, bool]],
        build: BuildInfo,
        versions: CompatibilityVersions,
        stowplan_version: str,
    ) -> None:
        """`features`: name, stage ("" for GA) and whether it is enabled, for each known gate."""
        self.registry = registry = MetricsRegistry(options)
        self.scheduler = SchedulerMetrics(registry, gates=gates)
        self.client = ClientMetrics(registry)
        self.serving = ServingMetrics(registry)
        self.stowplan = StowplanMetrics(registry, version=stowplan_version)
        ProcessMetrics(registry)
        PythonMetrics(registry)
        register_build_info(registry, build)
        register_version_info(registry, versions)
        register_features(registry, features)
        registry.register_meta_metrics()
        self._slis = MetricsRegistry(options)
        self.health = HealthMetrics(self._slis)
        register_start_time(self._slis)

    def page(self, accept: str) -> tuple[str, bytes]:
        """Content type and body of /metrics."""
        return render([self.registry], accept)

    def slis_page(self, accept: str) -> tuple[str, bytes]:
        """Content type and body of /metrics/slis."""
        return render([self._slis], accept)

    def reset(self) -> None:
        """DELETE /metrics."""
        self.registry.reset()

    def reset_slis(self) -> None:
        """DELETE /metrics/slis."""
        self._slis.reset()
