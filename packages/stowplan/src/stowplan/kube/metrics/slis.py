"""/metrics/slis: health check results.

Upstream: staging/src/k8s.io/component-base/metrics/prometheus/slis, .../metrics/processstarttime.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.kube.metrics.families import CounterVec, GaugeVec
    from stowplan.kube.metrics.registry import MetricsRegistry


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
