"""CronJobs in simulations: their times, policies, changes, and what is refused. Simulations start at midnight."""

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import a_workload, group, scenario
from support.scenarios.witness import run

MODELS = {"startup": 0, "termination": 0, "controllerDelay": 0}


def cron_job(schedule="*/5 * * * *", *, lifetime=60, failures=None, job=None, **spec):
    manifest = {"kind": "CronJob", "spec": {"schedule": schedule, "jobTemplate": a_job(**(job or {})), **spec}}
    return {"name": "c", "manifest": manifest, "lifetime": lifetime, **({"failures": failures} if failures else {})}


def a_job(**spec):
    return {"spec": a_workload("Job", **spec)["spec"]}


def play(workload, *events, duration="21m"):
    return run(scenario(workload, groups=[group(count=8)], events=list(events), models=MODELS, duration=duration))


def arrivals(found):
    return [row.arrived for row in sorted(found.decisions, key=lambda row: row.arrived)]


def patch(at, **spec):
    return {"at": at, "patch": {"workload": "c", "spec": spec}}


def test_a_job_runs_at_each_time():
    found = play(cron_job(job={"parallelism": 2, "completions": 2}))
    assert arrivals(found) == [300.1, 300.1, 600.1, 600.1, 900.1, 900.1, 1200.1, 1200.1]
    assert found.summary.jobs == {"complete": 3, "running": 1}
    assert {row.workload for row in found.decisions} == {"c"}


@pytest.mark.parametrize(
    ("policy", "times", "jobs"),
    [
        pytest.param("Allow", [300.1, 600.1, 900.1, 1200.1], {"complete": 2, "running": 2}, id="Allow"),
        pytest.param("Forbid", [300.1, 700.1, 1100.1], {"complete": 2, "running": 1}, id="Forbid"),
        pytest.param("Replace", [300.1, 600.1, 900.1, 1200.1], {"deleted": 3, "running": 1}, id="Replace"),
    ],
)
def test_jobs_that_run_into_the_next_time(policy, times, jobs):
    found = play(cron_job(lifetime=400, concurrencyPolicy=policy))
    assert arrivals(found) == times
    assert found.summary.jobs == jobs
    assert found.summary.evictions == 0


def test_failures_are_those_of_each_job():
    found = play(cron_job("*/10 * * * *", failures={"times": 1}, job={"backoffLimit": 0}), duration="31m")
    assert found.summary.jobs == {"BackoffLimitExceeded": 2, "running": 1}


def test_changes_of_cron_jobs():
    assert arrivals(play(cron_job(), patch(350, suspend=True), patch(950, suspend=False))) == [300.1, 950, 1200.1]
    assert arrivals(play(cron_job(), patch(350, schedule="*/7 * * * *"))) == [300.1, 420.1, 840.1]


def test_a_schedule_without_times_is_noted():
    found = play(cron_job("0 0 30 2 *"))
    assert found.summary.arrived == 0
    assert any("workloads: c: invalid schedule: 0 0 30 2 *" in note for note in found.summary.notes)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (cron_job("x"), 'workloads: c: spec.schedule: Invalid value: "x": expected exactly 5 fields'),
        (cron_job(timeZone="Mars/X"), "workloads: c: spec.timeZone: Invalid value"),
        (cron_job(concurrencyPolicy="No"), "workloads: c: spec.concurrencyPolicy: Unsupported value"),
        (cron_job(job={"parallelism": -1}), "workloads: c: spec.jobTemplate.spec.parallelism: Invalid value"),
        (cron_job(job={"parallelism": "x"}), "workloads: c: spec.jobTemplate.spec.parallelism: expected an integer"),
        (cron_job(jobTemplate={"spec": [1]}), "workloads: c: spec.jobTemplate.spec: expected an object, got [1]"),
        (cron_job(jobTemplate=None), "has no pod template"),
        (cron_job(lifetime=None), "workloads: c: a Job's pods end: give a lifetime"),
    ],
)
def test_refused_workloads(workload, problem):
    with pytest.raises(ScenarioError) as caught:
        play(workload)
    assert problem in str(caught.value)


def test_a_cron_job_needs_an_end():
    with pytest.raises(ScenarioError, match="workloads: c: a CronJob never ends: give a duration"):
        simulate_scenario(scenario(cron_job(), groups=[group()]))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"schedule": "x"}, "events[0].patch.spec: spec.schedule: Invalid value"),
        ({"jobTemplate": {}}, "events[0].patch.spec: a patch changes schedule, timeZone"),
    ],
)
def test_refused_patches(spec, problem):
    with pytest.raises(ScenarioError) as caught:
        play(cron_job(), patch(0, **spec))
    assert problem in str(caught.value)


def test_fields_that_are_not_modelled_are_noted():
    found = play(cron_job(job={"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 1}))
    assert "workloads: c: spec.jobTemplate.spec.backoffLimitPerIndex is not modelled" in found.summary.notes
