"""The decisions about a Job that the controller's tests do not reach."""

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.reconcile_events import Event
from stowplan_cluster.reconcile.jobs import NO_FAILURES, Ended, Failures, Pods, Progress, events_of, next_step
from stowplan_cluster.reconcile.views import Job

NOW = 1000.25


def failed(at, index=None):
    return Ended(succeeded=False, at=at, index=index)


def succeeded(at, index=None):
    return Ended(succeeded=True, at=at, index=index)


def step(progress=None, *, now=NOW, spec=None, active=0, terminating=0, ended=(), restarts=0):
    job = convert({"spec": {"completions": 3, **(spec or {})}}, Job)
    pods = Pods(active=active, terminating=terminating, ended=ended, restarts=restarts, list_active=lambda: ())
    before = progress or Progress()
    found = next_step(job, before, pods, now, most=50)
    return found, events_of(job, before, found)


@pytest.mark.parametrize(
    ("ended", "failures"),
    [
        pytest.param([failed(5), failed(9), failed(7)], Failures(5, 9), id="failures add up, the last one counts"),
        pytest.param([succeeded(8)], NO_FAILURES, id="a success resets"),
        pytest.param([failed(5), succeeded(8), failed(8), failed(9)], Failures(1, 9), id="only those after it remain"),
    ],
)
def test_failures_since_the_last_success(ended, failures):
    assert Failures(2, 3).after(ended) == failures


@pytest.mark.parametrize(("count", "seconds"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (10_000, 600)])
def test_the_backoff_doubles_up_to_ten_minutes(count, seconds):
    assert Failures(count, NOW).seconds_left(NOW) == seconds


def test_a_job_starts_in_whole_seconds():
    found, _ = step(spec={"activeDeadlineSeconds": 60})
    assert (found.progress.started, found.create, found.after) == (1000, 1, 59.75)


def test_the_nearer_of_deadline_and_backoff_is_when_to_look_again():
    progress = Progress(started=1000, failures=Failures(1, NOW))
    assert step(progress, spec={"activeDeadlineSeconds": 60})[0].after == 10
    assert step(progress, spec={"activeDeadlineSeconds": 5})[0].after == 4.75


def test_more_successes_than_completions_are_reported():
    found, events = step(ended=[succeeded(one) for one in range(4)])
    assert found.finished
    assert events == [
        Event("Warning", "TooManySucceededPods", "Too many succeeded pods running after completion count reached"),
        Event("Normal", "Completed", "Job completed"),
    ]


def test_a_suspended_job_that_is_complete_is_not_marked_suspended():
    found, events = step(Progress(succeeded=3), spec={"suspend": True})
    assert found.progress.suspended is None
    assert [event.reason for event in events] == ["Completed"]


def test_a_decided_job_waits_for_terminating_pods():
    progress = step(Progress(failed=6), ended=[failed(1)], terminating=1)[0].progress
    assert step(progress, terminating=1) == (step(progress, terminating=1)[0], [])
    found, events = step(progress)
    assert found.finished
    assert [event.reason for event in events] == ["BackoffLimitExceeded"]
