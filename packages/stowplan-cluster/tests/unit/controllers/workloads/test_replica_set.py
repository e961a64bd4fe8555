import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan_cluster.controllers.workloads.replica_set import ReplicaSetController
from support.live.controller_cluster import LiveCluster, set_image, workload


def names(pods):
    return {pod["metadata"]["name"] for pod in pods}


def relabel(**labels):
    return lambda obj: obj["metadata"].update(labels=labels)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_the_number_of_pods_follows_replicas(cluster, kind):
    manifest = workload(kind, replicas=3)
    cluster.create(manifest)
    cluster.settle()
    owner = cluster.get(kind, "web")["metadata"]
    reference = {
        "apiVersion": manifest["apiVersion"],
        "kind": kind,
        "name": "web",
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert [pod["metadata"]["ownerReferences"] for pod in cluster.pods()] == [[reference]] * 3
    assert {pod["metadata"]["generateName"] for pod in cluster.pods()} == {"web-"}
    cluster.scale(kind, "web", 1)
    cluster.settle()
    assert len(cluster.pods()) == 1
    status = cluster.get(kind, "web")["status"]
    assert (status["replicas"], status["observedGeneration"]) == (1, 2)


def test_more_pods_than_one_reconcile_creates(cluster):
    cluster.create(workload("ReplicaSet", replicas=120))
    cluster.settle()
    assert len(cluster.pods()) == 120
    cluster.scale("ReplicaSet", "web", 0)
    cluster.settle()
    assert cluster.pods() == []


def test_status_counts_ready_available_and_terminating_pods(cluster):
    cluster.create(workload("ReplicaSet", replicas=3, minReadySeconds=30))
    cluster.settle()
    first, second, third = sorted(names(cluster.pods()))
    cluster.bind(first, "node-1")
    cluster.set_pod(first)
    cluster.bind(second, "node-1")
    cluster.set_pod(second, ready=False)
    cluster.settle()
    status = cluster.get("ReplicaSet", "web")["status"]
    assert (status["replicas"], status["fullyLabeledReplicas"], status["readyReplicas"]) == (3, 3, 1)
    assert "availableReplicas" not in status
    cluster.advance(29)
    assert "availableReplicas" not in cluster.get("ReplicaSet", "web")["status"]
    cluster.advance(1)
    assert cluster.get("ReplicaSet", "web")["status"]["availableReplicas"] == 1
    cluster.delete("Pod", first)
    cluster.settle()
    status = cluster.get("ReplicaSet", "web")["status"]
    assert (status["replicas"], status["terminatingReplicas"]) == (3, 1)
    assert third in names(cluster.pods())


def test_finished_and_deleted_pods_are_replaced(cluster):
    cluster.create(workload("ReplicaSet", replicas=2))
    cluster.live()
    failed, gone = sorted(names(cluster.pods()))
    cluster.set_pod(failed, phase="Failed", ready=False)
    cluster.delete("Pod", gone, grace_period_seconds=0)
    cluster.live()
    active = names(pod for pod in cluster.pods() if pod["status"]["phase"] == "Running")
    assert len(active) == 2
    assert not active & {failed, gone}


def test_later_orphans_are_adopted(cluster):
    cluster.create(workload("ReplicaSet", replicas=1))
    cluster.settle()
    pod = workload("ReplicaSet", labels={"app": "db"})["spec"]["template"]
    cluster.create({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "late", "labels": {"app": "db"}}})
    cluster.settle()
    assert len(cluster.pods()) == 2
    cluster.change("Pod", "late", relabel(app="web"))
    cluster.settle()
    assert len(cluster.pods()) == 1


def test_two_sets_share_no_orphan(cluster):
    cluster.create(workload("ReplicaSet", "one", labels={"app": "web"}, replicas=1))
    cluster.create(workload("ReplicaSet", "two", labels={"app": "web"}, replicas=1))
    cluster.settle()
    (pod, _) = cluster.pods()
    cluster.change("Pod", pod["metadata"]["name"], lambda obj: obj["metadata"].update(ownerReferences=[]))
    cluster.settle()
    assert sorted(pod["metadata"]["ownerReferences"][0]["name"] for pod in cluster.pods()) == ["one", "two"]


def place(cluster, nodes):
    for name, node in nodes.items():
        cluster.bind(name, node)
        cluster.set_pod(name)


def test_pods_of_sibling_sets_count_for_crowding(cluster):
    reference = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "fleet", "uid": "1", "controller": True}
    for name in ("one", "two"):
        manifest = workload("ReplicaSet", name, replicas=2)
        manifest["metadata"]["ownerReferences"] = [reference]
        cluster.create(manifest)
    cluster.settle()
    lower, higher = sorted(name for name in names(cluster.pods()) if name.startswith("one-"))
    siblings = {name: "node-2" for name in names(cluster.pods()) if name.startswith("two-")}
    place(cluster, {lower: "node-1", higher: "node-2", **siblings})
    cluster.scale("ReplicaSet", "one", 1)
    cluster.settle()
    assert {name for name in names(cluster.pods()) if name.startswith("one-")} == {lower}


def test_a_changed_selector_releases_the_pods(cluster):
    cluster.create(workload("ReplicationController", replicas=2))
    cluster.settle()
    before = names(cluster.pods())

    def change(controller):
        controller["spec"]["selector"] = {"app": "other"}
        controller["spec"]["template"]["metadata"]["labels"] = {"app": "other"}

    cluster.change("ReplicationController", "web", change)
    cluster.settle()
    assert not any(cluster.get("Pod", name)["metadata"].get("ownerReferences") for name in before)
    assert len(names(cluster.pods()) - before) == 2
    assert cluster.get("ReplicationController", "web")["status"]["fullyLabeledReplicas"] == 2


def test_a_recreated_pod_counts_once(cluster):
    cluster.create(workload("ReplicaSet", replicas=2))
    cluster.settle()
    pod = cluster.pods()[0]
    metadata = {field: pod["metadata"][field] for field in ("name", "labels", "ownerReferences")}
    cluster.delete("Pod", metadata["name"], grace_period_seconds=0)
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})
    cluster.settle()
    assert len(cluster.pods()) == 2
    assert cluster.get("ReplicaSet", "web")["status"]["replicas"] == 2


def test_a_pod_whose_owner_is_removed_is_replaced(cluster):
    cluster.create(workload("ReplicaSet", replicas=1))
    cluster.settle()
    (name,) = names(cluster.pods())
    cluster.change("Pod", name, lambda pod: pod["metadata"].update(labels={"app": "mine"}, ownerReferences=[]))
    cluster.settle()
    assert len(cluster.pods()) == 2


def test_refused_pods_set_a_condition_and_are_retried(monkeypatch, caplog):
    cluster = LiveCluster(controllers=lambda registry: [ReplicaSetController(registry)])
    create = cluster.registry.create

    def refuse(resource, *args, **kwargs):
        if resource.storage == "pods":
            raise Forbidden("exceeded quota")
        return create(resource, *args, **kwargs)

    monkeypatch.setattr(cluster.registry, "create", refuse)
    cluster.create(workload("ReplicaSet", replicas=2))
    cluster.advance(1)
    (condition,) = cluster.get("ReplicaSet", "web")["status"]["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "exceeded quota",
    )
    assert cluster.events("web") == [("Warning", "FailedCreate", "Error creating: exceeded quota")]
    assert [record.message for record in caplog.records] == [
        "replicaset-controller: default/web: exceeded quota; trying again"
    ]
    monkeypatch.undo()
    cluster.advance(120)
    assert len(cluster.pods()) == 2
    assert "conditions" not in cluster.get("ReplicaSet", "web")["status"]


def test_a_terminating_set_creates_no_pods(cluster):
    cluster.create(workload("ReplicaSet", replicas=1))
    cluster.settle()
    cluster.delete("ReplicaSet", "web", propagation="Foreground")
    cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
    cluster.settle()
    assert cluster.pods() == []


def test_a_changed_template_keeps_existing_pods(cluster):
    cluster.create(workload("ReplicaSet", replicas=1))
    cluster.settle()
    before = names(cluster.pods())
    cluster.change("ReplicaSet", "web", set_image("app:2"))
    cluster.settle()
    assert names(cluster.pods()) == before
