"""What-if questions about pods with claims of devices and volumes: recreated pods and copies have their own."""

import json

import pytest

from stowplan import Cluster
from stowplan.ask.explain.text.overview import Group
from stowplan.ask.what_if import Scale, drain, fit, survive, what_if
from stowplan.ask.what_if.hypothetical_claims import release_claims
from stowplan.ask.what_if.relief import relief
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import PersistentVolumeClaim, ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly
from support.what_if.objects import node, owned, pod
from support.what_if.random_clusters import ZONE


def gpu_node(name, devices):
    sized = a_node(name).allocatable(cpu=4000, memory="64Gi", pods=100).obj()
    return [sized, a_slice(name, *(a_device(f"g{i}") for i in range(devices)), nodeName=name)]


def worker(name, node="", device=""):
    """A ReplicaSet's pod with a claim from a template."""
    pod = a_pod(name).obj()
    metadata = pod["metadata"]
    metadata["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}
    ]
    metadata["uid"] = f"{name}-uid"
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"], "controller": True}
    status = {}
    if node:
        pod["spec"]["nodeName"] = node
        user = {"resource": "pods", "name": name, "uid": owner["uid"]}
        status = {**allocation(device, pool=node), "reservedFor": [user]}
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [here]}
    return [pod, a_claim(f"{name}-gpu-x", exactly(), status=status, ownerReferences=[owner])]


def cluster_of(*parts):
    return Cluster([a_class(), *(obj for part in parts for obj in part)])


def claims(cluster):
    return {claim.metadata.name: claim for claim in cluster.state.objects.all(ResourceClaim)}


def test_copies_allocate_devices():
    cluster = cluster_of(gpu_node("a", 2), gpu_node("b", 3), worker("w-1", "a", "g0"))
    before = claims(cluster)
    record = fit(cluster, "default/w-1")
    assert (record.fits, record.per_node) == (4, {"a": 1, "b": 3})
    assert [limit.reason for limit in record.limited_by] == ["cannot allocate all claims"]
    assert claims(cluster) == before


def test_added_nodes_have_devices():
    cluster = cluster_of(gpu_node("a", 2), worker("w-1", "a", "g0"))
    record = fit(cluster, "default/w-1", replicas=4)
    assert record.fits == 1
    assert [(one.like, one.count) for one in record.nodes_to_add] == [("a", 2)]


def test_a_shared_claim_is_shared():
    shared = a_claim("c", exactly())
    cluster = cluster_of(gpu_node("a", 1), gpu_node("b", 1), [shared])
    pod = decode_object(a_pod("p").claims_devices("c").obj())
    record = fit(cluster, pod, replicas=5)
    assert (record.fits, len(record.per_node)) == (5, 1)


def test_a_drain_moves_pods_to_free_devices():
    cluster = cluster_of(
        gpu_node("a", 2), gpu_node("b", 2), worker("w-1", "a", "g0"), worker("w-2", "a", "g1"), worker("w-3", "b", "g0")
    )
    before = claims(cluster)
    record = drain(cluster, ["a"])
    assert [(move.pod, move.to) for move in record.moves] == [("default/w-1", "b")]
    (stranded,) = record.stranded
    assert stranded.pod == "default/w-2"
    assert "1 cannot allocate all claims" in stranded.reason
    assert claims(cluster) == before


def test_rolling_drains_free_devices():
    cluster = cluster_of(gpu_node("a", 1), gpu_node("b", 2), worker("w-1", "a", "g0"), worker("w-2", "b", "g0"))
    record = drain(cluster, ["a", "b"], rolling=1)
    # Two pods leave b, and a has one device; the other pod returns to its own.
    assert (record.moves[0].pod, record.moves[0].to) == ("default/w-1", "b")
    assert (len(record.moves), record.stranded) == (3, ())


def test_devices_are_freed_by_the_last_user_of_a_claim():
    pod = a_pod("p").claims_devices("c").obj()
    pod["metadata"] |= {"uid": "p-uid"}
    pod["spec"]["nodeName"] = "a"
    user = {"resource": "pods", "name": "p", "uid": "p-uid"}
    held = a_claim("c", exactly(), status={**allocation("g0", pool="a"), "reservedFor": [user]})
    cluster = cluster_of(gpu_node("a", 1), [pod, held])
    with cluster.transaction():
        cluster.evict("default/p")
        release_claims(cluster, [decode_object(pod)])
        assert claims(cluster)["c"].status.allocation is None
    assert claims(cluster)["c"].status.allocation is not None


def test_a_workload_without_pods_gets_claims_from_the_template():
    cluster = cluster_of(gpu_node("a", 3), worker("w-1", "a", "g0"))
    template = a_pod("new").obj()
    template["spec"]["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "t"}]
    assert fit(cluster, decode_object(template)).fits == 2


def lone(name, node, device):
    """A pod without a controller, with a named claim."""
    pod, claim = worker(name, node, device)
    pod["metadata"].pop("ownerReferences")
    claim["metadata"].pop("ownerReferences")
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
    return [pod, claim]


def test_pods_lost_with_a_node_free_their_devices():
    """Both nodes reach the devices: those of the lost pod serve the recreated one."""
    shared = a_slice("pool", a_device("g0"), a_device("g1"), allNodes=True)
    nodes = [a_node(name).allocatable(cpu=4000, memory="64Gi", pods=100).obj() for name in ("a", "b")]
    away, lost = worker("w-1", "a", "g0"), lone("solo", "a", "g1")
    for part in (away, lost):
        part[1]["status"]["allocation"]["devices"]["results"][0]["pool"] = "pool"
        del part[1]["status"]["allocation"]["nodeSelector"]
    waiting = worker("w-2")
    cluster = cluster_of([shared, *nodes], away, lost, waiting)
    record = survive(cluster, by="node")
    loss = next(one for one in record.losses if one.lost == "a")
    assert (loss.gone, loss.stranded) == (("default/solo",), ())


def test_relief_frees_devices():
    cluster = cluster_of(gpu_node("a", 1), lone("solo", "a", "g0"), worker("w-1"))
    (found,) = [
        one for one in relief(cluster, [Group(cluster.explain("default/w-1"))]) if "move default/solo" in one.text
    ]
    assert found.pods == 1


def test_a_template_that_is_not_used_yet():
    cluster = cluster_of(gpu_node("a", 2))
    pod = a_pod("new").obj()
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod = decode_object(pod)
    assert fit(cluster, pod).fits == 0
    spec = decode_object(a_claim("c", exactly("r", count=1))).spec
    assert fit(cluster, pod, claim_templates={"default/t": spec}).fits == 2
    assert fit(cluster, pod, claim_templates={"other/t": spec}).fits == 0


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


def test_the_note_names_the_zones_of_all_pods_that_come_one_after_the_other():
    nodes = [node(name, "8", zone=name) for name in ("a", "b")]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}}
    ordered = owner | {"spec": {"podManagementPolicy": "OrderedReady"}}
    cluster = Cluster([*nodes, CLASS | {"volumeBindingMode": "Immediate"}, ordered, *stateful(0, "a", "a")])
    found = what_if(cluster, Scale("StatefulSet", "default", "db", 3))
    assert sorted(found.placed.values()) == ["a", "b"]
    assert found.notes == (
        f"assumed that csi.example.com creates the volumes of class csi, usable from {ZONE}=a and {ZONE}=b",
    )
