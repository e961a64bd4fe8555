"""Metrics of attempts: durations and labels."""

import pytest

from stowplan import testing
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from stowplan.scheduler.queue.queued_pod import QueuedPod
from support.observing.metrics import attempt_metrics, numbers, scheduler_metrics
from support.scheduling.worlds import struct

#: Started at 100 and has ended.
STARTED, NOW = 100.0, 103.5


@pytest.fixture
def metrics():
    return scheduler_metrics()


@pytest.fixture
def attempts(metrics):
    return AttemptMetrics(metrics, now=lambda: NOW)


def sums(family):
    return {values: child.sum for values, child in family.series()}


def a_pod(attempts=1, *, ready_since=90.0, flushed=False):
    pod = ClusterState().pod_info(struct(testing.a_pod()))
    return QueuedPod(
        pod=pod,
        key=pod.key,
        timestamp=0.0,
        attempts=attempts,
        initial_attempt_timestamp=ready_since,
        was_flushed=flushed,
    )


def test_a_decisions_duration_is_from_its_start_until_now(metrics, attempts):
    attempts.decided(STARTED)
    assert metrics.scheduling_algorithm_duration_seconds.sum == 3.5


@pytest.mark.parametrize(
    ("status", "result"),
    [
        pytest.param(unschedulable("no"), "unschedulable", id="no room"),
        pytest.param(Status(Code.UnschedulableAndUnresolvable), "unschedulable", id="nowhere"),
        pytest.param(Status(Code.Error), "error", id="a problem"),
    ],
)
def test_a_failed_attempt(metrics, attempts, status, result):
    attempts.failed(status, profile="mine", started=STARTED)
    attempts.failed(status, profile="mine", started=STARTED + 1)
    assert sums(metrics.scheduling_attempt_duration_seconds) == {(result, "mine"): 6.0}
    assert numbers(metrics.schedule_attempts_total) == {(result, "mine"): 2}
    assert not numbers(metrics.pod_scheduling_attempts)


def test_a_bound_pod(metrics, attempts):
    attempts.scheduled(a_pod(attempts=3), profile="mine", started=STARTED)
    assert sums(metrics.scheduling_attempt_duration_seconds) == {("scheduled", "mine"): 3.5}
    assert numbers(metrics.schedule_attempts_total) == {("scheduled", "mine"): 1}
    assert metrics.pod_scheduling_attempts.sum == 3
    assert sums(metrics.pod_scheduling_sli_duration_seconds) == {("3",): 13.5}
    assert not numbers(metrics.pod_scheduled_after_flush_total)


@pytest.mark.parametrize(("attempts_of_pod", "label"), [(14, "14"), (15, "15+"), (16, "15+")])
def test_several_attempts_are_observed_at_once(metrics, attempts, attempts_of_pod, label):
    attempts.scheduled(a_pod(attempts_of_pod), profile="mine", started=STARTED)
    assert list(sums(metrics.pod_scheduling_sli_duration_seconds)) == [(label,)]


def test_a_pod_that_was_never_ready_has_no_sli_duration(metrics, attempts):
    attempts.scheduled(a_pod(ready_since=None, flushed=True), profile="mine", started=STARTED)
    assert not sums(metrics.pod_scheduling_sli_duration_seconds)
    assert numbers(metrics.pod_scheduled_after_flush_total) == 1


def test_a_wait_on_permit(metrics, attempts):
    attempts.waited(unschedulable("too late"), STARTED)
    assert sums(metrics.permit_wait_duration_seconds) == {("Unschedulable",): 3.5}


def test_durations_use_the_queues_clock():
    assert attempt_metrics(now=lambda: 7.0).now() == 7.0
