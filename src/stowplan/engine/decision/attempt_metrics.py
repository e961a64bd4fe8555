"""Metrics of scheduling attempts: results, durations, and how many attempts a pod needed.

Upstream: pkg/scheduler/metrics/profile_metrics.go; the moments are those of pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stowplan.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.metrics.families import Counter, Gauge, Histogram
    from stowplan.metrics.scheduler import SchedulerMetrics
    from stowplan.queue.queued_pod import QueuedPod

#: More attempts than these are counted together.
_MAX_ATTEMPTS_LABEL = 15


class AttemptMetrics:
    """`now` is the clock of the queue, as a pod's waiting begins there."""

    def __init__(self, metrics: SchedulerMetrics, *, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self.now = now
        #: (result, profile) -> how many, how long; made when they are needed, as series show from then on.
        self._ended: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        #: Attempts -> how long pods that needed so many waited in all.
        self._sli: dict[int, Histogram] = {}

    @cached_property
    def binding(self) -> Gauge:
        """Binding cycles that are under way."""
        return self._metrics.goroutines.with_label_values("binding")

    def binding_began(self) -> None:
        self.binding.value += 1

    def binding_ended(self) -> None:
        self.binding.value -= 1

    def decided(self, started: float) -> None:
        """Called once the pod's node, or that there is none, is decided."""
        self._metrics.scheduling_algorithm_duration_seconds.observe(self.now() - started)

    def scheduled(self, queued: QueuedPod, *, profile: str, started: float) -> None:
        """The pod is bound."""
        now = self.now()
        self._end("scheduled", profile, now - started)
        self._metrics.pod_scheduling_attempts.observe(queued.attempts)
        if queued.initial_attempt_timestamp is not None:
            self._sli_of(min(queued.attempts, _MAX_ATTEMPTS_LABEL)).observe(now - queued.initial_attempt_timestamp)
        if queued.was_flushed:
            self._metrics.pod_scheduled_after_flush_total.inc()

    def _sli_of(self, attempts: int) -> Histogram:
        found = self._sli.get(attempts)
        if found is None:
            label = str(attempts) if attempts < _MAX_ATTEMPTS_LABEL else f"{_MAX_ATTEMPTS_LABEL}+"
            found = self._sli[attempts] = self._metrics.pod_scheduling_sli_duration_seconds.with_label_values(label)
        return found

    def failed(self, status: Status, *, profile: str, started: float) -> None:
        self._end("unschedulable" if status.rejected else "error", profile, self.now() - started)

    def waited(self, decision: Status, started: float) -> None:
        """A pod's wait on Permit is over."""
        permits = self._metrics.permit_wait_duration_seconds
        permits.with_label_values(Code(decision.code).name).observe(self.now() - started)

    def _end(self, result: str, profile: str, seconds: float) -> None:
        found = self._ended.get((result, profile))
        if found is None:
            counter = self._metrics.schedule_attempts_total.with_label_values(result, profile)
            durations = self._metrics.scheduling_attempt_duration_seconds.with_label_values(result, profile)
            found = self._ended[result, profile] = counter, durations
        found[0].value += 1
        found[1].observe(seconds)


class NoAttemptMetrics(AttemptMetrics):
    """Counts nothing; stories are told how long attempts took all the same."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self.now = now

    def binding_began(self) -> None:
        pass

    def binding_ended(self) -> None:
        pass

    def decided(self, started: float) -> None:
        pass

    def scheduled(self, queued: QueuedPod, *, profile: str, started: float) -> None:
        pass

    def failed(self, status: Status, *, profile: str, started: float) -> None:
        pass

    def waited(self, decision: Status, started: float) -> None:
        pass
