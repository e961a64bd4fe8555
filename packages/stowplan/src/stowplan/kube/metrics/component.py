"""All metrics of the process: the main page and the SLI page.

Upstream: cmd/kube-scheduler/app/server.go (newEndpointsHandler), and the packages whose import registers metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.metrics.build_info import register_build_info, register_features, register_version_info
from stowplan.kube.metrics.client import ClientMetrics
from stowplan.kube.metrics.exposition import render
from stowplan.kube.metrics.process import ProcessMetrics, PythonMetrics, register_start_time
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.metrics.slis import HealthMetrics
from stowplan.kube.metrics.stowplan import StowplanMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.kube.metrics.build_info import BuildInfo, CompatibilityVersions
    from stowplan.kube.metrics.registry import MetricsOptions
    from stowplan.kube.metrics.scheduler import Gates


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
