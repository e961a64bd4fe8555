import pytest

from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController
from support.api.storage_objects import claim, protected
from support.live.living_cluster import Living, pod

PVC = "PersistentVolumeClaim"


@pytest.fixture
def cluster():
    cluster = Living(ClaimProtectionController)
    cluster.create(protected(claim()))
    return cluster


def using(name="web", node="node-1", claim="data"):
    return pod(name, node=node, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def test_an_unused_claim_is_deleted(cluster):
    cluster.create(using(claim="other"))
    cluster.create(using("unbound", node=""))
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.names(PVC) == []


@pytest.mark.parametrize("restart", [False, True], ids=["", "after a restart"])
def test_a_claim_is_kept_until_its_last_pod_is_gone(cluster, restart):
    cluster.create(using("a"))
    cluster.create(using("b"))
    cluster.set_pod("a", phase="Succeeded", ready=False)
    cluster.delete(PVC, "data")
    cluster.settle()
    if restart:
        cluster.loop.close()
        cluster.restart()
        cluster.settle()
    cluster.delete("Pod", "b", grace_period_seconds=0)
    cluster.settle()
    assert cluster.names(PVC) == ["data"]
    cluster.delete("Pod", "a", grace_period_seconds=0)
    cluster.settle()
    assert cluster.names(PVC) == []


def test_a_pod_that_is_bound_later_counts(cluster):
    cluster.create(using(node=""))
    cluster.settle()
    cluster.bind("web", "node-1")
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.names(PVC) == ["data"]


def test_claims_of_ephemeral_volumes_are_in_use_too(cluster):
    cluster.create(protected(claim("web-v")))
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}
    cluster.create(pod("web", node="node-1", volumes=[volume]))
    cluster.delete(PVC, "web-v")
    cluster.settle()
    assert "web-v" in cluster.names(PVC)
