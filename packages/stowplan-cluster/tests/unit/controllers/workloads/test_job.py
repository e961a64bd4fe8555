import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan_cluster.controllers.workloads.job import give_index
from stowplan_cluster.controllers.workloads.pod_templates import PodControl
from support.live.controller_cluster import workload

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def conditions(cluster, name="web"):
    listed = cluster.get("Job", name)["status"].get("conditions", ())
    return [(one["type"], one.get("reason")) for one in listed if one["status"] == "True"]


def active(cluster):
    return [pod for pod in cluster.pods() if pod["status"]["phase"] in ("Pending", "Running")]


def end(cluster, phase="Succeeded", count=1, index=None):
    """Finish some running pods."""
    pods = [pod for pod in active(cluster) if index is None or pod["metadata"]["annotations"][INDEX] == str(index)]
    for pod in pods[:count]:
        cluster.set_pod(pod["metadata"]["name"], phase=phase, ready=False)
    cluster.settle()


def start(cluster, **spec):
    cluster.create(workload("Job", **spec))
    cluster.settle()
    cluster.run_pods()
    cluster.settle()


def test_finalizers_are_removed_once_pods_are_counted(cluster):
    start(cluster, completions=2, parallelism=1)
    assert cluster.pods()[0]["metadata"]["finalizers"] == [TRACKING]
    end(cluster)
    for pod in cluster.pods():
        if pod["status"]["phase"] == "Succeeded":
            assert not pod["metadata"].get("finalizers")
            cluster.delete("Pod", pod["metadata"]["name"], grace_period_seconds=0)
    cluster.settle()
    assert cluster.get("Job", "web")["status"]["succeeded"] == 1
    cluster.run_pods()
    end(cluster)
    assert ("Complete", "CompletionsReached") in conditions(cluster)


def test_without_completions_one_success_starts_no_more_pods(cluster):
    start(cluster, parallelism=3)
    end(cluster)
    assert len(active(cluster)) == 2
    assert conditions(cluster) == []
    end(cluster, count=2)
    assert cluster.get("Job", "web")["status"]["succeeded"] == 3
    assert ("Complete", "CompletionsReached") in conditions(cluster)


def test_failures_are_retried_with_backoff_up_to_the_limit(cluster):
    start(cluster, backoffLimit=2)
    for delay in (10, 20):
        end(cluster, "Failed")
        cluster.advance(delay - 1)
        assert active(cluster) == []
        cluster.advance(1)
        assert len(active(cluster)) == 1
        cluster.run_pods()
    end(cluster, "Failed")
    cluster.advance(1000)
    assert cluster.get("Job", "web")["status"]["failed"] == 3
    assert conditions(cluster) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert "completionTime" not in cluster.get("Job", "web")["status"]
    message = "Job has reached the specified backoff limit"
    assert ("Warning", "BackoffLimitExceeded", message) in cluster.events("web")


def test_no_pods_are_reported_as_active_during_the_backoff(cluster):
    start(cluster, parallelism=2, completions=2)
    end(cluster, "Failed")
    assert len(active(cluster)) == 1
    assert "active" not in cluster.get("Job", "web")["status"]
    cluster.advance(10)
    assert cluster.get("Job", "web")["status"]["active"] == 2


def test_a_success_resets_the_backoff(cluster):
    start(cluster, completions=2)
    for delay in (10, 20):
        end(cluster, "Failed")
        cluster.advance(delay)
        cluster.run_pods()
    end(cluster)
    cluster.run_pods()
    end(cluster, "Failed")
    cluster.advance(9)
    assert active(cluster) == []
    cluster.advance(1)
    assert len(active(cluster)) == 1


def test_restarts_count_with_restart_policy_on_failure(cluster):
    start(cluster, backoffLimit=3, pod_spec={"restartPolicy": "OnFailure"})
    (pod,) = cluster.pods()
    cluster.set_pod(pod["metadata"]["name"], restarts=2)
    cluster.settle()
    assert conditions(cluster) == []
    cluster.set_pod(pod["metadata"]["name"], restarts=3)
    cluster.live()
    assert conditions(cluster)[-1] == ("Failed", "BackoffLimitExceeded")


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_a_deadline_ends_the_job_when_its_pods_are_gone(cluster, policy):
    start(cluster, parallelism=2, completions=2, activeDeadlineSeconds=60, podReplacementPolicy=policy)
    cluster.advance(59)
    assert conditions(cluster) == []
    cluster.advance(1)
    assert conditions(cluster) == [("FailureTarget", "DeadlineExceeded")]
    cluster.live()
    assert cluster.get("Job", "web")["status"]["failed"] == 2
    assert conditions(cluster)[-1] == ("Failed", "DeadlineExceeded")
    assert cluster.pods(terminating=True) == []


@pytest.mark.parametrize(
    ("policy", "replaced_at_once"),
    [pytest.param("TerminatingOrFailed", True, id="at once"), pytest.param("Failed", False, id="when it has failed")],
)
def test_deleted_pods_are_replaced(cluster, policy, replaced_at_once):
    start(cluster, podReplacementPolicy=policy)
    cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
    cluster.advance(10)
    assert len(active(cluster)) == replaced_at_once
    assert cluster.get("Job", "web")["status"].get("failed", 0) == replaced_at_once


def test_an_indexed_job_gives_each_pod_its_index(cluster):
    start(cluster, completions=5, parallelism=3, completionMode="Indexed")
    pods = {pod["metadata"]["annotations"][INDEX]: pod for pod in cluster.pods()}
    assert sorted(pods) == ["0", "1", "2"]
    pod = pods["1"]
    assert pod["metadata"]["labels"][INDEX] == "1"
    assert pod["metadata"]["name"].startswith("web-1-")
    assert pod["spec"]["hostname"] == "web-1"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    end(cluster, index=0)
    end(cluster, index=2)
    assert cluster.get("Job", "web")["status"]["completedIndexes"] == "0,2"
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in active(cluster)) == ["1", "3", "4"]
    end(cluster, "Failed", index=1)
    cluster.advance(10)
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in active(cluster)) == ["1", "3", "4"]
    cluster.run_pods()
    end(cluster, count=3)
    status = cluster.get("Job", "web")["status"]
    assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-4", 5, 1)
    assert ("Complete", "CompletionsReached") in conditions(cluster)


def test_duplicate_indexes_are_deleted(cluster):
    start(cluster, completions=2, parallelism=2, completionMode="Indexed")
    twin = next(pod for pod in cluster.pods() if pod["metadata"]["annotations"][INDEX] == "1")
    annotations = {INDEX: "1", "controller.kubernetes.io/pod-deletion-cost": "100"}
    metadata = {"name": "twin", "labels": twin["metadata"]["labels"], "annotations": annotations}
    spec = {"containers": twin["spec"]["containers"], "restartPolicy": "Never"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.run_pods()
    cluster.live()
    assert cluster.get("Pod", twin["metadata"]["name"]) is None
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in active(cluster)) == ["0", "1"]
    assert "failed" not in cluster.get("Job", "web")["status"]


def test_parallelism_may_change(cluster):
    start(cluster, completions=10, parallelism=1)
    cluster.change("Job", "web", lambda job: job["spec"].update(parallelism=4))
    cluster.live()
    assert len(active(cluster)) == 4
    cluster.change("Job", "web", lambda job: job["spec"].update(parallelism=2))
    cluster.live()
    assert len(active(cluster)) == 2
    assert "failed" not in cluster.get("Job", "web")["status"]


def test_ttl_seconds_after_finished(cluster):
    start(cluster, ttlSecondsAfterFinished=100)
    end(cluster)
    cluster.advance(99)
    assert cluster.get("Job", "web") is not None
    cluster.advance(1)
    assert cluster.get("Job", "web") is None


@pytest.mark.parametrize("with_owner", [True, False], ids=["pods to be collected", "pods orphaned before"])
def test_finalizers_of_a_deleted_jobs_pods_are_removed(cluster, with_owner):
    start(cluster, parallelism=2, completions=2)
    if not with_owner:
        # With propagationPolicy Orphan the garbage collector does this before the Job is deleted.
        cluster.delete("Job", "web", propagation="Orphan")
        for pod in cluster.pods():
            cluster.change("Pod", pod["metadata"]["name"], lambda obj: obj["metadata"].update(ownerReferences=[]))
        cluster.change("Job", "web", lambda job: job["metadata"].update(finalizers=[]))
    else:
        cluster.delete("Job", "web")
    cluster.settle()
    assert cluster.get("Job", "web") is None
    assert len(cluster.pods()) == 2
    assert not any(pod["metadata"].get("finalizers") for pod in cluster.pods())


def test_finalizers_are_removed_in_foreground_deletion(cluster):
    start(cluster, podReplacementPolicy="Failed")
    cluster.delete("Job", "web", propagation="Foreground")
    cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
    cluster.live()
    assert cluster.pods(terminating=True) == []


def test_a_finished_job_writes_nothing(cluster):
    start(cluster)
    end(cluster)
    version = cluster.store.version
    cluster.advance(3600)
    assert cluster.store.version == version


def test_long_names_are_shortened_before_the_index():
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "env": [{"name": "JOB_COMPLETION_INDEX"}]}]}}
    give_index(pod, "j" * 70, 12)
    assert pod["metadata"]["generateName"] == "j" * 54 + "-12-"
    assert pod["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX"}]


def test_pods_are_counted_even_if_the_next_ones_are_refused(cluster, monkeypatch):
    start(cluster, completions=2)

    def refuse(*given):
        raise Forbidden("no more pods")

    with monkeypatch.context() as patched:
        patched.setattr(PodControl, "create", refuse)
        end(cluster)
        assert cluster.get("Job", "web")["status"]["succeeded"] == 1
    cluster.advance(60)
    assert len(active(cluster)) == 1
