"""Metrics of scheduling attempts: results, durations, and attempts per pod; and of the sizes of queue and cache.

Attempts are observed at the same points as in pkg/scheduler/schedule_one.go. Sizes are set when scraped; their series
stay once they exist, with the value zero.

Upstream: profile_metrics.go and metric_recorder.go in pkg/scheduler/metrics, which updates gauges with each change, and
updateMetrics in pkg/scheduler/backend/cache/cache.go, which sets them once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.kube.metrics.families import Counter, Gauge, GaugeVec, Histogram
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.in_flight import POD_POPPED
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

#: Higher attempt counts share a label.
_MAX_ATTEMPTS_LABEL = 15


class AttemptMetrics:
    """`now` is the queue's clock, because a pod's waiting time starts there."""

    def __init__(self, metrics: SchedulerMetrics, *, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self.now = now
        #: (result, profile) -> count and duration; created on first use, as a series is exported once it exists.
        self._ended: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        #: Attempts -> total waiting time of pods that needed as many.
        self._sli: dict[int, Histogram] = {}
        #: Number of binding cycles in progress.
        self._binding: Gauge | None = None

    def binding_began(self) -> None:
        self._count_binding(1)

    def binding_ended(self) -> None:
        self._count_binding(-1)

    def _count_binding(self, more: int) -> None:
        if self._binding is None:
            self._binding = self._metrics.goroutines.with_label_values("binding")
        self._binding.value += more

    def decided(self, started: float) -> None:
        """Called after a node was chosen, or none was found."""
        self._metrics.scheduling_algorithm_duration_seconds.observe(self.now() - started)

    def scheduled(self, queued: QueuedPod, *, profile: str, started: float) -> None:
        """The pod was bound."""
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
        """A pod's wait on Permit ended."""
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


class SizeMetrics:
    """The gauges of queue and cluster."""

    def __init__(self, metrics: SchedulerMetrics, *, queue: SchedulingQueue, state: ClusterState) -> None:
        self._metrics = metrics
        self._queue = queue
        self._state = state
        #: All labels of in-flight events seen so far.
        self._in_flight: dict[str, int] = {POD_POPPED: 0}

    def refresh(self) -> None:
        _set(self._metrics.pending_pods, self._queue.counts())
        for labels, size in self._queue.entity_counts().items():
            self._metrics.queued_entities.with_label_values(*labels).set(size)
        _set(self._metrics.cache_size, self._state.sizes())
        self._in_flight = {**dict.fromkeys(self._in_flight, 0), **self._queue.in_flight_events()}
        _set(self._metrics.inflight_events, self._in_flight)
        for (plugin, profile), pods in self._queue.rejected_by.items():
            self._metrics.unschedulable_pods.with_label_values(plugin, profile).set(pods)


def _set(gauges: GaugeVec, sizes: Mapping[str, int]) -> None:
    for label, size in sizes.items():
        gauges.with_label_values(label).set(size)
