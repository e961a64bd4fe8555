"""What workloads of every kind want and have, also in odd states."""

import pytest

from stowplan.ask.explain.workload_status import workload_record
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Event, Pod
from stowplan.testing import a_pod

SUCCEEDED = {"type": "Complete", "status": "True", "message": "Reached expected number of succeeded pods"}


def workload(kind, spec=None, status=None, **metadata):
    return {
        "kind": kind,
        "metadata": {"name": "w", "namespace": "q", "uid": "of w", **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def pods(number, **labels):
    return [convert(a_pod(f"w-{i}", "q").labels(**labels).obj(), Pod) for i in range(number)]


def event(note, time, type_="Warning", uid="of w"):
    return convert(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": note, "namespace": "q"},
            "regarding": {"kind": "StatefulSet", "name": "w", "namespace": "q", "uid": uid},
            "deprecatedLastTimestamp": time,
            "reason": "FailedCreate",
            "note": note,
            "type": type_,
        },
        Event,
    )


@pytest.mark.parametrize(
    ("manifest", "existing", "wanted", "missing"),
    [
        pytest.param(workload("Deployment", {"replicas": 3}), 1, 3, 2, id="Deployment"),
        pytest.param(workload("Deployment"), 0, 1, 1, id="by default one"),
        pytest.param(workload("Deployment", {"replicas": 3}), 4, 3, 0, id="surge"),
        pytest.param(workload("ReplicationController", {"replicas": 2}), 2, 2, 0, id="ReplicationController"),
        pytest.param(workload("Deployment", {"replicas": 3}, deletionTimestamp="now"), 1, 3, 0, id="being deleted"),
        pytest.param(workload("DaemonSet", status={"desiredNumberScheduled": 5}), 4, 5, 1, id="DaemonSet"),
        pytest.param(workload("DaemonSet"), 4, 4, 0, id="DaemonSet without a status"),
        pytest.param(workload("Job", {"parallelism": 2, "completions": 5}), 2, 2, 0, id="Job"),
        pytest.param(
            workload("Job", {"parallelism": 3, "completions": 5}, {"succeeded": 4}), 0, 1, 1, id="the last one of a Job"
        ),
        pytest.param(workload("Job", {"parallelism": 3}, {"succeeded": 1}), 1, 0, 0, id="work queue that ends"),
        pytest.param(workload("Job", {"parallelism": 3, "suspend": True}), 0, 0, 0, id="suspended"),
        pytest.param(workload("Job", {"completions": 1}, {"conditions": [SUCCEEDED]}), 0, 0, 0, id="complete"),
        pytest.param(workload("CronJob"), 2, 2, 0, id="CronJob"),
    ],
)
def test_wanted_and_missing(manifest, existing, wanted, missing):
    record = workload_record(manifest, pods(existing))
    assert (record.wanted, record.existing, record.missing) == (wanted, existing, missing)


def test_pods_that_are_being_deleted_are_replaced():
    leaving = convert(a_pod("w-9", "q").deleted("2026-01-02T12:00:00Z").obj(), Pod)
    record = workload_record(workload("ReplicaSet", {"replicas": 2}), [*pods(1), leaving])
    assert (record.existing, record.missing) == (2, 1)


def test_the_last_warning_of_a_kind_without_conditions():
    told = [
        event("exceeded quota", "2026-01-02T12:05:00Z"),
        event("no such class", "2026-01-02T12:01:00Z"),
        event("of another", "2026-01-02T12:09:00Z", uid="another"),
    ]
    record = workload_record(workload("StatefulSet", {"replicas": 2}), pods(1), told)
    assert (record.reason, record.message, record.since) == ("FailedCreate", "exceeded quota", "2026-01-02T12:05:00Z")
    # What was created since has not failed, and a complete one has no trouble.
    told.append(event("created w-0", "2026-01-02T12:06:00Z", "Normal"))
    assert "exceeded quota" not in workload_record(workload("StatefulSet", {"replicas": 2}), pods(1), told).message
    assert not workload_record(workload("StatefulSet", {"replicas": 1}), pods(1), told[:1]).message


def test_a_stateful_set_that_waits_for_its_own_pod():
    ordered = workload("StatefulSet", {"replicas": 3})
    assert workload_record(ordered, pods(1)).message == (
        "it creates one pod after the other (OrderedReady), and w-0 is not Ready"
    )
    assert not workload_record(
        workload("StatefulSet", {"replicas": 3, "podManagementPolicy": "Parallel"}), pods(1)
    ).message


@pytest.mark.parametrize(
    ("manifest", "note"),
    [
        (workload("Deployment", {"paused": True}), "it is paused: changes of its template are not rolled out"),
        (workload("Job", {"suspend": True}), "it is suspended"),
        (workload("CronJob", {"suspend": True}), "it is suspended: no further Job is created"),
        (workload("ReplicaSet", deletionTimestamp="now"), "it is being deleted"),
        (workload("Job", status={"conditions": [SUCCEEDED]}), f"Complete: {SUCCEEDED['message']}"),
        (
            workload("Deployment", {"replicas": 3}, {"replicas": 4, "updatedReplicas": 1}),
            "rollout: 1 of 3 have the newest template",
        ),
        (
            workload(
                "Deployment",
                {"replicas": 1},
                {
                    "replicas": 1,
                    "updatedReplicas": 1,
                    "conditions": [{"type": "Progressing", "status": "False", "message": "has timed out"}],
                },
            ),
            "rollout: has timed out",
        ),
    ],
)
def test_notes(manifest, note):
    assert workload_record(manifest, pods(1)).notes == (note,)


def test_a_malformed_dump_is_read_as_far_as_it_goes():
    broken = {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"replicas": "3"}, "status": {"conditions": 5}}
    record = workload_record(broken, [])
    assert (record.workload, record.wanted) == ("default/w", 1)


def test_pods_that_a_file_asks_for_are_not_missed_by_a_controller():
    found = workload_record(workload("StatefulSet", {"replicas": 3}, uid=""), pods(1))
    assert (found.missing, found.message) == (
        2,
        "no controller has seen this manifest; `stowplan what-if --apply FILE` shows where all its pods would go",
    )
