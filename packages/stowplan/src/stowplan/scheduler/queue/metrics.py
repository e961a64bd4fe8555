"""Queue metrics: incoming pods and entities by event, hint durations.

An entity is a pod without a group, or a group; it is counted since 1.37.

Gauges (waiting pods by queue, pods rejected by a plugin, events in flight) are read from the queue itself at a scrape.

Upstream: pkg/scheduler/metrics/metric_recorder.go; docs/reference/behaviour.md, The queue's metrics.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from stowplan.kube.metrics.families import Counter, Histogram
from stowplan.kube.metrics.scheduler import SchedulerMetrics

#: Results of a hint: an error is counted apart, though it requeues the pod like Queue.
QUEUE, QUEUE_SKIP, ERROR = "Queue", "QueueSkip", "Error"


class QueueMetrics:
    """`now` is monotonic, and used for durations only."""

    def __init__(self, metrics: SchedulerMetrics, *, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self.now = now
        self._incoming: dict[tuple[str, str], Counter] = {}
        self._entities: dict[tuple[str, str, str], Counter] = {}
        self._hints: dict[tuple[str, str, str], Histogram] = {}

    def entered(self, queue: str, cause: str, pods: int = 0, *, moved: bool = True) -> None:
        """Count what entered a queue: a pod, or a group with some `pods`; the entity only if it `moved` there."""
        counter = self._incoming.get((queue, cause))
        if counter is None:
            counter = self._metrics.queue_incoming_pods_total.with_label_values(queue, cause)
            self._incoming[queue, cause] = counter
        counter.value += pods or 1
        if moved:
            key = queue, cause, "podgroup" if pods else "pod"
            counter = self._entities.get(key)
            if counter is None:
                counter = self._entities[key] = self._metrics.queue_incoming_entities_total.with_label_values(*key)
            counter.value += 1

    @property
    def incoming(self) -> collections.Counter[tuple[str, str]]:
        """(queue, cause) -> pods that entered it."""
        return collections.Counter({key: int(counter.value) for key, counter in self._incoming.items()})

    def hinted(self, plugin: str, event: str, hint: str, started: float) -> None:
        """Record a hint that was called at `started` and has returned now."""
        seconds = self.now() - started
        histogram = self._hints.get((plugin, event, hint))
        if histogram is None:
            family = self._metrics.queueing_hint_execution_duration_seconds
            histogram = self._hints[plugin, event, hint] = family.with_label_values(plugin, event, hint)
        histogram.observe(seconds)


class NoQueueMetrics(QueueMetrics):
    """Counts nothing."""

    def __init__(self) -> None:
        self.now = _no_time

    def entered(self, queue: str, cause: str, pods: int = 0, *, moved: bool = True) -> None:
        pass

    @property
    def incoming(self) -> collections.Counter[tuple[str, str]]:
        return collections.Counter()

    def hinted(self, plugin: str, event: str, hint: str, started: float) -> None:
        pass


def _no_time() -> float:
    return 0.0
