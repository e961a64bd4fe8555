"""Metrics of evictions: victims, plan durations, evictions in progress."""

from __future__ import annotations

from stowplan.kube.metrics.scheduler import SchedulerMetrics


class EvictionMetrics:
    def __init__(self, metrics: SchedulerMetrics | None) -> None:
        """None: nothing is counted."""
        self._metrics = metrics

    def planned(self, victims: int) -> None:
        if self._metrics is not None:
            self._metrics.preemption_victims.observe(victims)

    def ended(self, result: str, seconds: float) -> None:
        """A plan was carried out or abandoned."""
        if self._metrics is not None:
            self._metrics.preemption_goroutines_duration_seconds.with_label_values(result).observe(seconds)
            self._metrics.preemption_goroutines_execution_total.with_label_values(result).inc()

    def eviction_began(self, plugin: str) -> None:
        if self._metrics is not None:
            self._metrics.goroutines.with_label_values(plugin).inc()

    def eviction_ended(self, plugin: str) -> None:
        if self._metrics is not None:
            self._metrics.goroutines.with_label_values(plugin).dec()
