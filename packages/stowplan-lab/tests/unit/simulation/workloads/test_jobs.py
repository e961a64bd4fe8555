"""Jobs in simulations: their limits, indexes, failures and changes."""

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import a_workload, group, pod, scenario
from support.scenarios.witness import run

#: A pod runs from 2 seconds after its creation.
MODELS = {"startup": 2, "termination": 0, "controllerDelay": 0}


def job(*, lifetime=60, failures=None, policy="Never", arrivals=None, **spec):
    manifest = a_workload("Job", **spec)
    manifest["spec"]["template"]["spec"]["restartPolicy"] = policy
    more = {} if failures is None else {"failures": failures}
    return {"name": "j", "manifest": manifest, "lifetime": lifetime, **more, **(arrivals or {})}


def play(workload, *events, nodes=8, **more):
    return run(scenario(workload, groups=[group(count=nodes)], events=list(events), models=MODELS, **more))


def arrivals(found):
    return [row.arrived for row in sorted(found.decisions, key=lambda row: row.arrived)]


def test_other_pods_of_a_failed_job_are_deleted():
    lifetime = {"choice": [10, 60], "weights": [1, 1]}
    found = play(job(failures={"times": 1}, lifetime=lifetime, backoffLimit=0, parallelism=4, completions=4))
    assert found.summary.jobs == {"BackoffLimitExceeded": 1}
    assert found.summary.ends["failed"] == 1
    assert sum(found.summary.ends.values()) == 4


@pytest.mark.parametrize(("deadline", "outcome"), [(61, "DeadlineExceeded"), (63, "complete")])
def test_the_deadline_of_a_job(deadline, outcome):
    found = play(job(activeDeadlineSeconds=deadline))
    assert found.summary.jobs == {outcome: 1}
    assert found.summary.ends == {"finished" if outcome == "complete" else "job failed": 1}


def test_each_index_is_completed_once():
    found = play(job(failures={"times": 1}, completionMode="Indexed", completions=3, parallelism=2))
    by_index = {}
    for row in found.decisions:
        by_index.setdefault(row.pod.split("-")[1], []).append(row.end)
    assert {index: sorted(ends) for index, ends in by_index.items()} == {
        str(index): ["failed", "finished"] for index in range(3)
    }


def test_containers_restart_in_place_with_the_kubelets_backoff():
    found = play(job(failures={"times": 3, "after": "5s"}, policy="OnFailure"))
    (row,) = found.decisions
    assert (row.restarts, row.end) == (3, "finished")
    # Runs of 5 seconds, after 0, 10 and 20 seconds of back-off, and one of 60.
    assert row.ended == 2 + 5 + 5 + 10 + 5 + 20 + 60


def test_the_kubelets_backoff_is_forgotten_after_ten_minutes():
    found = play(job(failures={"times": 3, "after": "601s"}, policy="OnFailure"))
    (row,) = found.decisions
    assert (row.restarts, row.ended) == (3, 2 + 3 * 601 + 60)


def test_restarts_count_towards_the_backoff_limit():
    found = play(job(failures={"probability": 1, "after": "5s"}, policy="OnFailure", backoffLimit=2))
    assert found.summary.jobs == {"BackoffLimitExceeded": 1}
    (row,) = found.decisions
    assert (row.restarts, row.ended) == (2, 22)


def test_pods_of_their_own_fail_or_restart_too():
    failures = {"failures": {"times": 1}, "lifetime": 60}
    found = play({"name": "w", "manifest": pod(restartPolicy="Never"), **failures})
    assert found.summary.ends == {"failed": 1}
    found = play({"name": "w", "manifest": pod(), **failures})
    assert (found.decisions[0].restarts, found.decisions[0].ended, found.decisions[0].end) == (1, 122, "finished")


def test_a_job_that_loses_pods_counts_them_as_failed():
    reclaim = [{"at": at, "reclaim": {"count": 1, "notice": 0}} for at in (10, 30, 50)]
    found = play(job(parallelism=8, completions=8, backoffLimit=1, lifetime=600), *reclaim, nodes=2)
    assert found.summary.jobs == {"BackoffLimitExceeded": 1}


@pytest.mark.parametrize(
    ("spec", "patch", "pods"),
    [
        pytest.param({"parallelism": 4, "completions": 8}, {"parallelism": 1}, {0: 4, 62: 1}, id="fewer at a time"),
        pytest.param({"parallelism": 1, "completions": 8}, {"parallelism": 6}, {0: 1, 30: 5, 62: 1}, id="more"),
        pytest.param({"suspend": True}, {"suspend": False}, {30: 1}, id="resumed"),
        pytest.param({}, {"suspend": True}, {0: 1}, id="suspended"),
    ],
)
def test_changes_of_jobs(spec, patch, pods):
    found = play(job(**spec), {"at": 30, "patch": {"workload": "j", "spec": patch}}, duration=63)
    counted = {at: arrivals(found).count(at) for at in sorted(set(arrivals(found)))}
    assert counted == pods


def test_failures_do_not_change_run_times():
    lifetime = {"exponential": 60}
    spec = {"backoffLimit": 100, "completions": 20, "parallelism": 20}
    calm = play(job(lifetime=lifetime, **spec))
    failing = play(job(lifetime=lifetime, failures={"probability": 0.5}, **spec))

    def lengths(found):
        return sorted(round(row.ended - row.placed, 3) for row in found.decisions if row.arrived == 0)

    assert lengths(calm) == lengths(failing)
    assert failing.summary.ends["failed"] > 3


def refused(workload, *events):
    with pytest.raises(ScenarioError) as caught:
        simulate_scenario(scenario(workload, events=list(events), duration=60))
    return str(caught.value)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (job(completions=-1), "workloads: j: spec.completions: Invalid value: -1: must be greater than or equal to 0"),
        (job(completions="x"), "workloads: j: "),
        (job(completionMode="Indexed", parallelism=1), "workloads: j: spec.completions: Required value"),
        (job(policy="Always"), "workloads: j: spec.template.spec.restartPolicy: Required value"),
        (job(failures={}), "workloads[0].failures: want one of probability and times"),
        (job(failures={"times": 1, "probability": 0.5}), "workloads[0].failures: want one of probability and times"),
        (job(failures={"probability": 2}), "workloads[0].failures.probability: want a number from 0 to 1, got 2"),
        (job(failures={"times": -1}), "workloads[0].failures.times: want 0 or more, got -1"),
        ({"name": "w", "manifest": pod(), "failures": {"times": 1}}, "workloads[0].failures: after is missing"),
    ],
)
def test_refused_workloads(workload, problem):
    assert problem in refused(workload)


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"workload": "j", "spec": {"parallelism": -1}}, "events[0].patch.spec: spec.parallelism: Invalid value"),
        ({"workload": "j", "spec": {"completions": 2}}, "events[0].patch.spec: spec.completions: Invalid value"),
        ({"workload": "j", "spec": {"template": {}}}, "events[0].patch.spec: a patch changes parallelism"),
        ({"workload": "k", "spec": {}}, "events[0].patch.workload: there is no workload 'k'"),
    ],
)
def test_refused_patches(patch, problem):
    assert problem in refused(job(), {"patch": patch})


def test_only_jobs_are_patched():
    patch = {"patch": {"workload": "w", "spec": {"suspend": True}}}
    assert "events[0].patch: workload 'w' is a Pod; want one of Job" in refused({"name": "w", "manifest": pod()}, patch)


def test_fields_that_are_not_modelled_are_noted():
    found = play(job(successPolicy={"rules": [{"succeededCount": 1}]}, completionMode="Indexed", completions=1))
    assert "workloads: j: spec.successPolicy is not modelled" in found.summary.notes


def test_only_pods_and_jobs_fail():
    workload = {"name": "w", "manifest": a_workload("Deployment"), "lifetime": 60, "failures": {"times": 1}}
    with pytest.raises(ScenarioError, match="w: failures: only pods of a Pod or a Job or a CronJob fail"):
        play(workload)
