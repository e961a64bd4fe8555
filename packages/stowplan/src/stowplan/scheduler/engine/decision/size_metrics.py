"""Gauges of queue and cache sizes, set when scraped.

Series stay once they exist, with the value zero.

Upstream: pkg/scheduler/metrics/metric_recorder.go, which updates gauges with each change, and updateMetrics in
pkg/scheduler/backend/cache/cache.go, which sets them once a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.kube.metrics.families import GaugeVec
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.queue.in_flight import POD_POPPED
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue


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
        _set(self._metrics.cache_size, self._state.sizes())
        self._in_flight = {**dict.fromkeys(self._in_flight, 0), **self._queue.in_flight_events()}
        _set(self._metrics.inflight_events, self._in_flight)
        for (plugin, profile), pods in self._queue.rejected_by.items():
            self._metrics.unschedulable_pods.with_label_values(plugin, profile).set(pods)


def _set(gauges: GaugeVec, sizes: Mapping[str, int]) -> None:
    for label, size in sizes.items():
        gauges.with_label_values(label).set(size)
