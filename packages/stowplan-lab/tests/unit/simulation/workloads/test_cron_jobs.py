"""CronJobs in simulations: their times, policies, changes, and what is refused. Simulations start at midnight."""

import json

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import a_workload, group, scenario
from support.scenarios.witness import run
from support.what_if.objects import node

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


# -- of the initial cluster -------------------------------------------------------------------------------------------


def of_cluster(folder, *jobs, lifetime=None, duration="21m", **spec):
    """A CronJob and some of its Jobs, in a file."""
    named = {"metadata": {"name": "c", "namespace": "default"}, "apiVersion": "batch/v1"}
    objects = [node("n"), {**cron_job(**spec)["manifest"], **named}, *(one for job in jobs for one in job)]
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    made = scenario(groups=[group(count=8)], models=MODELS, duration=duration)
    made["cluster"]["files"] = [str(folder / "cluster.json")]
    made["cluster"] |= {} if lifetime is None else {"cronJobLifetime": lifetime}
    return simulate_scenario(made)


def its_job(name, pods=(), **status):
    """The Job, and its pods on a node."""
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c", "controller": True}
    of_job = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
    metadata = {"name": name, "uid": name, "namespace": "default", "ownerReferences": [owner]}
    about = {"apiVersion": "batch/v1", "metadata": metadata, "status": status}
    return [
        {**a_workload("Job"), **about, "spec": a_job(completions=2)["spec"]},
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": one, "namespace": "default", "uid": one, "ownerReferences": [of_job]},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
            }
            for one in pods
        ),
    ]


def took(name, minutes):
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": f"2026-01-01T00:{minutes:02}:00Z"}
    return its_job(name, conditions=[{"type": "Complete", "status": "True"}], **times)


def test_a_cron_job_of_the_initial_cluster(tmp_path):
    found = of_cluster(tmp_path, lifetime="1m")
    assert arrivals(found) == [300.1, 600.1, 900.1, 1200.1]
    assert found.summary.jobs == {"complete": 3, "running": 1}


def test_its_pods_run_as_long_as_before(tmp_path):
    found = of_cluster(tmp_path, took("c-1", 2), took("c-2", 2))
    assert {row.ended - row.arrived for row in found.decisions if row.end == "finished"} == {120.0}


def test_a_job_that_runs_already_goes_on(tmp_path):
    found = of_cluster(tmp_path, its_job("c-1", ["one"], succeeded=1), lifetime=400, concurrencyPolicy="Forbid")
    assert arrivals(found) == [0.0, 400.0, 800.0, 1200.0]
    assert found.summary.jobs == {"complete": 3, "running": 1}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "no Job of it has completed, and there is no cluster.cronJobLifetime"),
        ({"lifetime": 60, "duration": None}, "no duration"),
    ],
)
def test_a_cron_job_that_is_left_out(tmp_path, given, why):
    found = of_cluster(tmp_path, **given)
    assert not found.decisions
    assert f"cluster: CronJob default/c is left out: {why}" in found.summary.notes


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"succeeded": "x"}, "status.succeeded: expected an integer"),
        ({"conditions": "x"}, "status.conditions: expected"),
        ({"startTime": "x", "completionTime": "y"}, "Invalid isoformat string: 'y'"),
    ],
)
def test_a_job_that_cannot_be(tmp_path, status, problem):
    with pytest.raises(ScenarioError) as caught:
        of_cluster(tmp_path, its_job("c-1", **status))
    assert f"cluster: Job default/c-1: {problem}" in str(caught.value)
