"""Metrics for parts that are tested alone, and how tests read them."""

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.metrics.families import Histogram
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
from stowplan.scheduler.framework.runtime.metrics import FrameworkMetrics
from stowplan.scheduler.queue.metrics import QueueMetrics


def scheduler_metrics():
    return SchedulerMetrics(MetricsRegistry(), gates=DEFAULT_FEATURES)


def queue_metrics(now=lambda: 0.0):
    return QueueMetrics(scheduler_metrics(), now=now)


def attempt_metrics(now=lambda: 0.0):
    return AttemptMetrics(scheduler_metrics(), now=now)


def framework_metrics(*, drawn=False, profile="default-scheduler", now=lambda: 0.0):
    """`drawn`: whether single plugin calls are timed."""
    chance = (lambda: 0.0) if drawn else (lambda: 1.0)
    return FrameworkMetrics(scheduler_metrics(), profile=profile, now=now, chance=chance)


def numbers(family):
    """Labels -> value of a counter or gauge, or a histogram's number of observations; zeros are left out."""
    if not hasattr(family, "series"):
        return _number(family)
    found = {values[0] if len(values) == 1 else values: _number(child) for values, child in family.series()}
    return {values: number for values, number in found.items() if number}


def _number(child):
    return child.count if isinstance(child, Histogram) else child.value
