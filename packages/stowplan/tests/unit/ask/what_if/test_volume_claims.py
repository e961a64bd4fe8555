"""Pods with volume claims: recreated pods, copies, and pods that a StatefulSet adds."""

import json

import pytest

from stowplan import Cluster
from stowplan.ask.what_if import Scale, drain, fit, survive, what_if
from stowplan.kube.api.types import PersistentVolumeClaim
from support.what_if.objects import node, owned, pod
from support.what_if.random_clusters import ZONE

CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "csi"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
SPEC = {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "1Gi"}}}
EPHEMERAL = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}]


def claim(name, *, zone="", owner=None):
    """Bound to a volume in the zone, if there is one."""
    metadata = {"name": name, "namespace": "default", "uid": name}
    if owner is not None:
        about = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [about]
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(SPEC)}
    if not zone:
        return [made]
    metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    made["spec"]["volumeName"] = f"pv-{name}"
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "csi",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name, "uid": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    }
    return [made, volume]


def scratching(name, at):
    made = owned(pod(name, nodeName=at, volumes=EPHEMERAL))
    made["metadata"]["uid"] = name
    return [made, *claim(f"{name}-scratch", zone="x", owner=name)]


@pytest.fixture
def nodes():
    return [node("a", zone="x"), node("b", zone="y"), CLASS]


def test_a_recreated_pod_has_a_new_ephemeral_volume(nodes):
    cluster = Cluster([*nodes, *scratching("web-0", "a")])
    before = cluster.state.dump()
    assert [(move.pod, move.to) for move in drain(cluster, ["a"]).moves] == [("default/web-0", "b")]
    assert [loss.stranded for loss in survive(cluster).losses] == [(), ()]
    assert cluster.state.dump() == before


def test_copies_have_their_own_ephemeral_volumes(nodes):
    cluster = Cluster([*nodes, *scratching("web-0", "a")])
    assert fit(cluster, "web-0").per_node == {"a": 3, "b": 4}
    assert what_if(cluster, Scale("Deployment", "default", "web", 2)).placed == {"default/web-added-1": "b"}


def stateful(ordinal, at, zone):
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{ordinal}"}}]
    made = owned(pod(f"db-{ordinal}", "3", nodeName=at, volumes=volumes), "StatefulSet", "db")
    return [made, *claim(f"data-db-{ordinal}", zone=zone)]


def test_pods_added_by_a_stateful_set_have_claims(nodes):
    found = what_if(Cluster([*nodes, *stateful(0, "a", "x")]), Scale("StatefulSet", "default", "db", 2))
    assert (found.placed, found.after.pending) == ({"default/db-1": "b"}, ())


def test_a_stateful_set_reuses_its_claims_when_scaled_up(nodes):
    kept = claim("data-db-1", zone="x")
    found = what_if(Cluster([*nodes, *stateful(0, "a", "x"), *kept]), Scale("StatefulSet", "default", "db", 2))
    (reason,) = found.after.reasons
    assert "1 node(s) didn't match PersistentVolume's node affinity" in reason


def test_recreated_pods_of_a_stateful_set_keep_their_volumes(nodes):
    (stranded,) = drain(Cluster([*nodes, *stateful(0, "a", "x")]), ["a"]).stranded
    where = "can be used from topology.kubernetes.io/zone=x, and no node is left there"
    assert stranded.reason == f"volume pv-data-db-0 of claim data-db-0 {where}"


def test_the_reason_is_a_volume_that_is_lost_with_its_zone_rather_than_nodes_that_are_full(nodes):
    full = [owned(pod("web-0", "4", nodeName="b"))]
    (loss,) = survive(Cluster([*nodes, *full, *stateful(0, "a", "x")]), ZONE, only="x").losses
    assert [one.reason.partition(",")[0] for one in loss.stranded] == [
        "volume pv-data-db-0 of claim data-db-0 can be used from topology.kubernetes.io/zone=x"
    ]


def test_scaling_down_a_stateful_set(nodes):
    pods = [*stateful(1, "a", "x"), *stateful(0, "b", "y")]
    found = what_if(Cluster([*nodes, *pods]), Scale("StatefulSet", "default", "db", 1))
    assert found.displaced == {"default/db-1": ""}


def test_claims_of_others_are_kept_if_pods_have_no_uid(nodes):
    """As in hand-written manifests."""
    pods = [owned(pod(f"web-{i}", nodeName="a", volumes=EPHEMERAL)) for i in range(2)]
    claims = [one for i in range(2) for one in claim(f"web-{i}-scratch", zone="x", owner=f"web-{i}")]
    for one in (*pods, *claims):
        one["metadata"].pop("uid", None)
        for owner in one["metadata"].get("ownerReferences", ()):
            owner["uid"] = ""
    cluster = Cluster([*nodes, *pods, *claims])
    with cluster.transaction():
        Scale("Deployment", "default", "web", 1).apply(cluster)
        names = {claim.metadata.name for claim in cluster.state.objects.all(PersistentVolumeClaim)}
    assert names == {"web-0-scratch"}


@pytest.mark.parametrize("source", ["file", "dicts"])
def test_a_new_volume_is_available_to_a_claim_of_a_cluster(source, nodes, tmp_path):
    """The PV controller has seen the claim already, but not the volume."""
    (waiting,) = claim("data")
    waiting["metadata"]["resourceVersion"] = "7"
    _, volume = claim("other", zone="x")
    del volume["spec"]["claimRef"]
    volume.pop("status", None)
    local = CLASS | {"provisioner": "kubernetes.io/no-provisioner"}
    user = pod("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    objects = {"apiVersion": "v1", "kind": "List", "items": [*nodes, user, waiting, volume, local]}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(objects))
    cluster = Cluster.from_files(file) if source == "file" else Cluster(objects)
    assert [one.node_name for one in cluster.schedule()] == ["a"]


@pytest.mark.parametrize(("mode", "usable"), [("Immediate", f", usable from {ZONE}=a"), ("WaitForFirstConsumer", "")])
def test_the_note_names_the_zone_that_a_provisioner_is_assumed_to_choose(mode, usable):
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    cluster = Cluster([node("n-a", zone="a"), node("n-b", zone="b")])
    cluster.add(CLASS | {"volumeBindingMode": mode, "allowedTopologies": zones})
    cluster.add(claim("data")[0])
    cluster.add(pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
    assert fit(cluster, "p").notes == (f"assumed that csi.example.com creates the volumes of class csi{usable}",)
