import pytest

from support.live.controller_cluster import set_image, template, workload

REVISION = "deployment.kubernetes.io/revision"


def sets(cluster):
    """Desired replicas of each ReplicaSet, by revision."""
    return {int(one["metadata"]["annotations"][REVISION]): one["spec"]["replicas"] for one in cluster.all("ReplicaSet")}


def condition(cluster, type_, name="web"):
    conditions = cluster.get("Deployment", name)["status"].get("conditions", ())
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == type_), None)


def images(cluster):
    return sorted(pod["spec"]["containers"][0]["image"] for pod in cluster.pods())


def deploy(cluster, **spec):
    cluster.create(workload("Deployment", **{"replicas": 4, **spec}))
    cluster.live()


def test_a_deployment_creates_a_replica_set_with_a_hash(cluster):
    cluster.create(workload("Deployment", replicas=3))
    cluster.settle()
    (replica_set,) = cluster.all("ReplicaSet")
    metadata = replica_set["metadata"]
    hashed = metadata["labels"]["pod-template-hash"]
    assert metadata["name"] == f"web-{hashed}"
    assert set(hashed) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hashed}
    assert metadata["annotations"] == {
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in cluster.pods()} == {hashed}
    assert cluster.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "1"
    assert condition(cluster, "Available") == ("False", "MinimumReplicasUnavailable")
    assert condition(cluster, "Progressing") == ("True", "ReplicaSetUpdated")


def test_the_status_of_a_finished_rollout(cluster):
    deploy(cluster)
    status = cluster.get("Deployment", "web")["status"]
    assert {name: value for name, value in status.items() if name != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 4,
        "updatedReplicas": 4,
        "readyReplicas": 4,
        "availableReplicas": 4,
        "terminatingReplicas": 0,
    }
    assert condition(cluster, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable")
    (name,) = (one["metadata"]["name"] for one in cluster.all("ReplicaSet"))
    assert cluster.events("web") == [("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 4")]


@pytest.mark.parametrize(
    ("surge", "unavailable", "after"),
    [
        pytest.param(1, 0, {1: 4, 2: 1}, id="surge 1, unavailable 0"),
        pytest.param(0, 1, {1: 3, 2: 1}, id="surge 0, unavailable 1"),
        pytest.param("25%", "25%", {1: 3, 2: 2}, id="25% each"),
        pytest.param("100%", 0, {1: 4, 2: 4}, id="all at once"),
        pytest.param("0%", "10%", {1: 3, 2: 1}, id="percentages rounded to zero"),
    ],
)
def test_a_rolling_update_keeps_within_its_bounds(cluster, surge, unavailable, after):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    deploy(cluster, strategy=strategy)
    cluster.change("Deployment", "web", set_image("app:2"))
    cluster.settle()
    assert sets(cluster) == after
    while not all(pod["status"]["phase"] == "Running" for pod in cluster.pods()):
        cluster.run_pods()
        cluster.settle()
        available = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"]
        assert len(available) >= 4 - max(1, after[2]) if unavailable else len(available) >= 4
        assert len(cluster.pods()) <= 8
    cluster.live()
    assert sets(cluster) == {1: 0, 2: 4}
    assert images(cluster) == ["app:2"] * 4


def test_recreate_waits_until_the_old_pods_are_gone(cluster):
    deploy(cluster, strategy={"type": "Recreate"})
    cluster.change("Deployment", "web", set_image("app:2"))
    cluster.settle()
    assert sets(cluster) == {1: 0}
    assert cluster.pods() == []
    cluster.finish_deletions()
    cluster.settle()
    assert sets(cluster) == {1: 0, 2: 4}
    cluster.live()
    assert images(cluster) == ["app:2"] * 4


def test_a_rollback_gives_the_old_replica_set_a_new_revision(cluster):
    deploy(cluster)
    first = cluster.all("ReplicaSet")[0]["metadata"]["name"]
    cluster.change("Deployment", "web", set_image("app:2"))
    cluster.live()
    # As kubectl rollout undo sends it: the template without its hash, and with nulls.
    back = template("app:1")
    back["metadata"]["creationTimestamp"] = None
    cluster.change("Deployment", "web", lambda obj: obj["spec"].update(template=back))
    cluster.live()
    assert sets(cluster) == {2: 0, 3: 4}
    annotations = cluster.get("ReplicaSet", first)["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert cluster.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "3"


def test_a_paused_deployment_scales_but_does_not_roll(cluster):
    deploy(cluster)

    def pause(obj):
        obj["spec"].update(paused=True, replicas=6)
        set_image("app:2")(obj)

    cluster.change("Deployment", "web", pause)
    cluster.live()
    assert sets(cluster) == {1: 6}
    assert condition(cluster, "Progressing") == ("Unknown", "DeploymentPaused")
    cluster.change("Deployment", "web", lambda obj: obj["spec"].update(paused=False))
    cluster.settle()
    assert condition(cluster, "Progressing")[1] in ("DeploymentResumed", "ReplicaSetUpdated")
    cluster.live()
    assert sets(cluster) == {1: 0, 2: 6}


def test_scaling_during_a_rollout_is_proportional(cluster):
    deploy(cluster, replicas=10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    cluster.change("Deployment", "web", set_image("app:broken"))
    cluster.settle()
    assert sets(cluster) == {1: 8, 2: 5}
    cluster.scale("Deployment", "web", 15)
    cluster.settle()
    assert sets(cluster) == {1: 11, 2: 7}


def test_the_desired_replicas_annotation_is_written(cluster):
    deploy(cluster)
    cluster.scale("ReplicaSet", cluster.all("ReplicaSet")[0]["metadata"]["name"], 6)
    cluster.scale("Deployment", "web", 6)
    cluster.live()
    cluster.change("Deployment", "web", set_image("app:2"))
    cluster.live()
    assert sets(cluster) == {1: 0, 2: 6}


def test_a_rollout_without_progress_times_out(cluster):
    cluster.create(workload("Deployment", replicas=1, progressDeadlineSeconds=60))
    cluster.settle()
    cluster.advance(59)
    assert condition(cluster, "Progressing")[0] == "True"
    cluster.advance(2)
    assert condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert cluster.loop.next_due() is None
    cluster.live()
    assert condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_revision_history_limit(cluster):
    deploy(cluster, revisionHistoryLimit=2, replicas=1)
    for version in range(2, 7):
        cluster.change("Deployment", "web", set_image(f"app:{version}"))
        cluster.live()
    assert sets(cluster) == {4: 0, 5: 0, 6: 1}


def test_a_name_collision_changes_the_hash(cluster):
    cluster.create(workload("Deployment", replicas=1))
    cluster.settle()
    name = cluster.all("ReplicaSet")[0]["metadata"]["name"]
    cluster.delete("Deployment", "web")
    cluster.change("ReplicaSet", name, lambda obj: obj["metadata"].update(ownerReferences=[], labels={"app": "x"}))
    cluster.create(workload("Deployment", replicas=1))
    cluster.settle()
    assert cluster.get("Deployment", "web")["status"]["collisionCount"] == 1
    assert len(cluster.all("ReplicaSet")) == 2


def test_annotations_and_min_ready_seconds_are_propagated(cluster):
    deploy(cluster, replicas=1)

    def change(obj):
        obj["metadata"]["annotations"]["kubernetes.io/change-cause"] = "because"
        obj["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
        obj["spec"]["minReadySeconds"] = 5

    cluster.change("Deployment", "web", change)
    cluster.live()
    (replica_set,) = cluster.all("ReplicaSet")
    annotations = replica_set["metadata"]["annotations"]
    assert annotations["kubernetes.io/change-cause"] == "because"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations
    assert replica_set["spec"]["minReadySeconds"] == 5


def test_a_replica_set_without_owner_is_adopted(cluster):
    cluster.create(workload("ReplicaSet", "old", labels={"app": "web"}, replicas=1))
    cluster.change("ReplicaSet", "old", lambda obj: obj["metadata"].update(labels={"app": "web"}))
    cluster.create(workload("Deployment", replicas=1))
    cluster.live()
    owner = cluster.get("ReplicaSet", "old")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Deployment", "web")
    assert len(cluster.all("ReplicaSet")) == 1


def test_a_finished_rollout_writes_nothing(cluster):
    deploy(cluster)
    version = cluster.store.version
    cluster.advance(3600)
    assert cluster.store.version == version
