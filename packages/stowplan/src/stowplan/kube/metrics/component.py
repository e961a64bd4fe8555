"""All metrics of the process: the main page and the SLI page; build information and feature gates as gauges.

The labels of the latter are the reference's. Those about Go contain information about Python.

Upstream: cmd/kube-scheduler/app/server.go (newEndpointsHandler), and the packages whose import registers metrics;
staging/src/k8s.io/component-base/metrics/{version.go,prometheus/feature,prometheus/compatversion}.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import astuple

from stowplan.kube.metrics.client_metrics import ClientMetrics
from stowplan.kube.metrics.families import Counter, CounterVec, Gauge, GaugeVec, Histogram
from stowplan.kube.metrics.process_metrics import ProcessMetrics, PythonMetrics, register_start_time
from stowplan.kube.metrics.registry import MetricsOptions, MetricsRegistry, exponential_buckets, render
from stowplan.kube.metrics.scheduler import Gates, SchedulerMetrics
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.structs import PlainStruct


class BuildInfo(PlainStruct, frozen=True, kw_only=True):
    """As in /version."""

    major: str
    minor: str
    git_version: str
    git_commit: str
    git_tree_state: str
    build_date: str
    #: "python3.11.9"
    go_version: str
    #: "cpython", or "mypyc" in the compiled form.
    compiler: str
    platform: str


class CompatibilityVersions(PlainStruct, frozen=True, kw_only=True):
    """The binary version, the emulated version, and the minimum compatibility version."""

    component: str = "kube"
    binary: str
    emulation: str
    min_compat: str


def register_build_info(registry: MetricsRegistry, info: BuildInfo) -> None:
    registry.gauge_vec(
        "kubernetes_build_info",
        "Always 1; the labels tell what was built, from what, and where it runs.",
        BuildInfo.__struct_fields__,
        stability="BETA",
    ).with_label_values(*astuple(info)).set(1.0)


def register_version_info(registry: MetricsRegistry, versions: CompatibilityVersions) -> None:
    registry.gauge_vec(
        "version_info",
        "Always 1; the labels have the binary, emulation and minimum compatibility versions.",
        CompatibilityVersions.__struct_fields__,
    ).with_label_values(*astuple(versions)).set(1.0)


def register_features(registry: MetricsRegistry, features: Iterable[tuple[str, str, bool]]) -> None:
    """`features`: name, stage (ALPHA, BETA, DEPRECATED, or "" for GA), whether it is enabled."""
    enabled = registry.gauge_vec(
        "kubernetes_feature_enabled",
        "Whether a feature gate is on (1) or off (0), with the stage it is in.",
        ("name", "stage"),
        stability="BETA",
    )
    for name, stage, on in features:
        enabled.with_label_values(name, stage).set(1.0 if on else 0.0)


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
