"""Claims of ephemeral volumes, which a controller would make for pods in files."""

from stowplan import Cluster
from stowplan.ask.loading.generated_claims import with_ephemeral_claims
from stowplan.kube.api.decode import decode_object
from stowplan.testing import a_node, a_pod

SPEC = {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "1Gi"}}}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "csi"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def scratching(name="web"):
    return a_pod(name).volume(
        "scratch", ephemeral={"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}
    )


def test_a_pod_without_a_node_gets_them():
    objects, notes = with_ephemeral_claims([decode_object(scratching().obj())])
    claim = objects[-1]
    assert (claim.metadata.name, claim.metadata.namespace, claim.metadata.labels) == (
        "web-scratch",
        "default",
        {"a": "b"},
    )
    assert claim.metadata.owner_references[0].name == "web"
    assert notes == ["1 PersistentVolumeClaim made for ephemeral volumes, as a controller would"]


def test_a_pod_on_a_node_and_one_whose_claim_is_there_do_not():
    placed = decode_object(scratching().on("a").obj())
    assert with_ephemeral_claims([placed]) == ([placed], [])
    given, _ = with_ephemeral_claims([decode_object(scratching().obj())])
    assert with_ephemeral_claims(given) == (given, [])


def test_such_a_pod_is_placed():
    objects, _ = with_ephemeral_claims([decode_object(scratching().obj())])
    (decision,) = Cluster([a_node("a").obj(), CLASS, *objects]).schedule()
    assert decision.node_name == "a"
