"""Metrics of pod groups: results and durations of attempts.

Upstream: pkg/scheduler/metrics/profile_metrics.go.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.groups.group_trial import GroupTrial
from stowplan.scheduler.framework.status import Code


class GroupMetrics:
    def __init__(self, metrics: SchedulerMetrics | None, *, now: Callable[[], float]) -> None:
        """None: nothing is counted."""
        self._metrics = metrics
        self._now = now

    def decided(self, started: float) -> None:
        if self._metrics is not None:
            self._metrics.podgroup_scheduling_algorithm_duration_seconds.observe(self._now() - started)

    def ended(self, trial: GroupTrial, *, profile: str, started: float) -> None:
        if self._metrics is None:
            return
        result = "error"
        if trial.status.code == Code.Success:
            result = "scheduled"
        elif trial.status.rejected:
            result = "waiting_on_preemption" if trial.waiting else "unschedulable"
        self._metrics.podgroup_schedule_attempts_total.with_label_values(result, profile).inc()
        durations = self._metrics.podgroup_scheduling_attempt_duration_seconds
        durations.with_label_values(result, profile).observe(self._now() - started)
