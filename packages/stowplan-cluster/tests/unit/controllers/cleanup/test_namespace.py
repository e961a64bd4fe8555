import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan_cluster.controllers.cleanup import namespace as namespaces
from stowplan_cluster.controllers.cleanup.namespace import NamespaceController
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from support.live.controller_cluster import workload
from support.live.living_cluster import Living, fleets, node, pod


def namespace(name="team"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config(name="config", **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team", **metadata}}


def in_team(manifest):
    manifest["metadata"]["namespace"] = "team"
    return manifest


@pytest.fixture
def cluster():
    cluster = Living(NamespaceController, Kubelet)
    cluster.create(node())
    cluster.create(namespace())
    return cluster


def delete(cluster, name="team"):
    cluster.delete("namespaces", name)
    cluster.settle()


def conditions(cluster):
    """{type: (status, reason, message)}."""
    found = cluster.get("namespaces", "team")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


def test_an_empty_namespace_is_deleted(cluster):
    delete(cluster)
    assert cluster.get("namespaces", "team") is None


def test_only_its_content_is_deleted_with_it(cluster):
    cluster.create(fleets())
    mine = [config(), workload("Deployment"), pod("web", node="node-1"), pod("waiting")]
    mine.append({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"size": 1}})
    mine.append(
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"namespace": "team"}}
    )
    for manifest in mine:
        cluster.create(in_team(manifest))
    cluster.create({**config(), "metadata": {"name": "other", "namespace": "default"}})
    cluster.settle()
    delete(cluster)
    cluster.advance(2)
    assert cluster.get("namespaces", "team") is None
    left = [one for storage in cluster.store.storages() for one in cluster.store.list(storage, "team")]
    assert left == []
    assert cluster.names("configmaps") == ["other"]


def test_pods_are_deleted_first_and_gracefully(cluster):
    cluster.create(in_team(pod("slow", node="node-1", annotations={"stowplan.io/stop-after": "10s"})))
    cluster.create(config())
    cluster.settle()
    delete(cluster)
    assert conditions(cluster)["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: pods. has 1 resource instances",
    )
    assert conditions(cluster)["NamespaceDeletionContentFailure"][:2] == ("False", "ContentDeleted")
    cluster.advance(9)
    assert (cluster.names("Pod"), cluster.names("configmaps")) == (["slow"], ["config"])
    cluster.advance(2)
    assert cluster.get("namespaces", "team") is None


def test_finalizers_of_its_content_delay_it(cluster):
    cluster.create(config("a", finalizers=["example.com/keep"]))
    cluster.create(config("b", finalizers=["example.com/keep", "example.com/too"]))
    delete(cluster)
    found = conditions(cluster)
    assert found["NamespaceContentRemaining"][2] == "Some resources are remaining: configmaps. has 2 resource instances"
    assert found["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: "
        "example.com/keep in 2 resource instances, example.com/too in 1 resource instances",
    )
    versions = cluster.store.version
    cluster.advance(60)
    leases = 6
    assert cluster.store.version <= versions + leases
    for name in ("a", "b"):
        cluster.change("configmaps", name, lambda obj: obj["metadata"].update(finalizers=[]), namespace="team")
    cluster.advance(1)
    assert cluster.get("namespaces", "team") is None


def test_content_for_more_than_one_reconcile(cluster, monkeypatch):
    monkeypatch.setattr(namespaces, "BURST", 10)
    for number in range(35):
        cluster.create(config(f"config-{number}"))
    delete(cluster)
    assert cluster.get("namespaces", "team") is None
    assert cluster.names("configmaps") == []


def test_failed_deletions_are_reported(cluster, monkeypatch):
    cluster.create(config())
    delete_one = cluster.registry.delete

    def refuse(resource, *args, **kwargs):
        if resource.storage == "configmaps":
            raise Forbidden("not today")
        return delete_one(resource, *args, **kwargs)

    monkeypatch.setattr(cluster.registry, "delete", refuse)
    delete(cluster)
    assert conditions(cluster)["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: not today",
    )
    monkeypatch.undo()
    cluster.advance(1)
    assert cluster.get("namespaces", "team") is None


def test_its_own_finalizers_delay_it(cluster):
    cluster.change("namespaces", "team", lambda obj: obj["metadata"].update(finalizers=["example.com/keep"]))
    cluster.create(config())
    delete(cluster)
    assert cluster.names("configmaps") == []
    assert cluster.get("namespaces", "team")["spec"].get("finalizers") in (None, [])
