from support.live.controller_cluster import set_image, workload

REVISION = "deployment.kubernetes.io/revision"


def sets(cluster):
    """Desired replicas of each ReplicaSet, by revision."""
    return {int(one["metadata"]["annotations"][REVISION]): one["spec"]["replicas"] for one in cluster.all("ReplicaSet")}


def deploy(cluster, **spec):
    cluster.create(workload("Deployment", **{"replicas": 4, **spec}))
    cluster.live()


def test_the_desired_replicas_annotation_is_written(cluster):
    deploy(cluster)
    cluster.scale("ReplicaSet", cluster.all("ReplicaSet")[0]["metadata"]["name"], 6)
    cluster.scale("Deployment", "web", 6)
    cluster.live()
    cluster.change("Deployment", "web", set_image("app:2"))
    cluster.live()
    assert sets(cluster) == {1: 0, 2: 6}


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
