"""Claims of generic ephemeral volumes are created for the pod, never adopted, and deleted with the pod."""

import pytest

from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.volumes.volume_controllers import EphemeralVolumeController, Provisioner, VolumeBinder
from support.api.storage_objects import claim, storage_class
from support.live.living_cluster import Living, node, pod

PVC = "PersistentVolumeClaim"


@pytest.fixture
def cluster():
    made = Living(EphemeralVolumeController, GarbageCollector, VolumeBinder, Provisioner)
    made.create(node())
    return made


def with_scratch(name="web", **metadata):
    template = {"metadata": metadata, "spec": claim(class_="fast")["spec"]}
    return pod(name, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


def test_a_claim_is_created_from_the_template_and_bound(cluster):
    cluster.create(storage_class())
    cluster.create(with_scratch(labels={"a": "b"}, annotations={"c": "d"}))
    cluster.settle()
    made = cluster.get(PVC, "web-scratch")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "web", True)
    assert owner["uid"] == cluster.pod("web")["metadata"]["uid"]
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"]["c"] == "d"
    assert made["spec"]["resources"] == {"requests": {"storage": "5Gi"}}
    assert made["status"]["phase"] == "Bound"


def test_the_claim_is_deleted_with_its_pod(cluster):
    cluster.create(with_scratch())
    cluster.settle()
    cluster.delete("Pod", "web", grace_period_seconds=0)
    cluster.settle()
    assert cluster.names(PVC) == []


def test_a_deleted_claim_is_recreated(cluster):
    cluster.create(with_scratch())
    cluster.settle()
    before = cluster.get(PVC, "web-scratch")["metadata"]["uid"]
    cluster.delete(PVC, "web-scratch")
    cluster.settle()
    assert cluster.get(PVC, "web-scratch")["metadata"]["uid"] != before


def test_a_claim_of_another_owner_is_not_adopted(cluster):
    cluster.create(claim("web-scratch"))
    cluster.create(with_scratch())
    cluster.settle()
    problem = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    assert ("Warning", "FailedBinding", f"ephemeral volume scratch: {problem}") in cluster.events("web")
    assert "ownerReferences" not in cluster.get(PVC, "web-scratch")["metadata"]
    cluster.delete(PVC, "web-scratch")
    cluster.settle()
    assert cluster.get(PVC, "web-scratch")["metadata"]["ownerReferences"][0]["name"] == "web"


def test_no_claims_for_other_volumes_and_terminating_pods(cluster):
    cluster.create(pod("plain", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    leaving = with_scratch("leaving")
    leaving["metadata"]["finalizers"] = ["example.com/stay"]
    cluster.create(leaving)
    cluster.delete("Pod", "leaving", grace_period_seconds=0)
    cluster.settle()
    assert cluster.names(PVC) == []


def test_claims_deleted_during_a_restart_are_recreated(cluster):
    cluster.create(with_scratch())
    cluster.settle()
    cluster.loop.close()
    cluster.restart()
    cluster.settle()
    cluster.delete(PVC, "web-scratch")
    cluster.settle()
    assert cluster.names(PVC) == ["web-scratch"]
