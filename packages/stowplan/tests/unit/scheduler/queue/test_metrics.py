"""The queue's metrics of incoming pods and of hints."""

from stowplan.scheduler.queue.metrics import ERROR, QUEUE, QUEUE_SKIP, QueueMetrics
from support.observing.metrics import numbers, scheduler_metrics


def test_duration_of_hints():
    metrics = scheduler_metrics()
    counted = QueueMetrics(metrics, now=lambda: 12.5)
    for hint, asked in ((QUEUE, 10.0), (QUEUE_SKIP, 12.0), (ERROR, 12.5), (QUEUE, 11.5)):
        counted.hinted("NodeAffinity", "NodeAdd", hint, asked)
    family = metrics.queueing_hint_execution_duration_seconds
    assert {values: (child.count, child.sum) for values, child in family.series()} == {
        ("NodeAffinity", "NodeAdd", "Queue"): (2, 3.5),
        ("NodeAffinity", "NodeAdd", "QueueSkip"): (1, 0.5),
        ("NodeAffinity", "NodeAdd", "Error"): (1, 0.0),
    }


def test_incoming_pods_are_counted_by_queue_and_cause():
    metrics = scheduler_metrics()
    counted = QueueMetrics(metrics, now=lambda: 0.0)
    for queue, cause in (("active", "PodAdd"), ("backoff", "ScheduleAttemptFailure"), ("active", "PodAdd")):
        counted.entered(queue, cause)
    expected = {("active", "PodAdd"): 2, ("backoff", "ScheduleAttemptFailure"): 1}
    assert numbers(metrics.queue_incoming_pods_total) == expected
    assert counted.incoming == expected
