import pytest

from stowplan_cluster.controllers.volumes.volume_controllers import Provisioner, VolumeBinder
from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController, VolumeProtectionController
from support.api.storage_objects import claim, storage_class, volume
from support.live.living_cluster import Living, node

PV, PVC = "persistentvolumes", "PersistentVolumeClaim"
ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
def cluster():
    made = Living(VolumeBinder, Provisioner, ClaimProtectionController, VolumeProtectionController)
    made.create(node("node-0"))
    return made


def provisioned(cluster, name="data"):
    """The volume provisioned for a claim, or None."""
    wanted = cluster.get(PVC, name)
    if wanted["status"]["phase"] != "Bound":
        assert cluster.names(PV) == []
        return None
    return cluster.get(PV, wanted["spec"]["volumeName"])


def terms(made):
    """{key: values} of the volume's topology."""
    if "nodeAffinity" not in made["spec"]:
        return {}
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return {one["key"]: one["values"] for one in term["matchExpressions"]}


def select(cluster, name="node-1"):
    cluster.change(PVC, "data", lambda obj: obj["metadata"].setdefault("annotations", {}).update({SELECTED: name}))
    cluster.settle()


def test_a_volume_is_provisioned_for_the_claim(cluster):
    cluster.create(storage_class(mountOptions=["ro"]))
    cluster.create(claim(size="7Gi", modes=["ReadWriteMany"], class_="fast", volumeMode="Block"))
    cluster.settle()
    made = provisioned(cluster)
    wanted = cluster.get(PVC, "data")
    spec = made["spec"]
    assert made["metadata"]["name"] == f"pvc-{wanted['metadata']['uid']}"
    assert made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "csi.example.com"
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "7Gi"}, ["ReadWriteMany"])
    assert (spec["volumeMode"], spec["storageClassName"], spec["mountOptions"]) == ("Block", "fast", ["ro"])
    assert spec["csi"] == {"driver": "csi.example.com", "volumeHandle": made["metadata"]["name"]}
    assert (spec["persistentVolumeReclaimPolicy"], made["status"]["phase"]) == ("Delete", "Bound")
    assert wanted["status"]["capacity"] == {"storage": "7Gi"}
    assert [reason for _, reason, _ in cluster.events("data")] == [
        "ExternalProvisioning",
        "Provisioning",
        "ProvisioningSucceeded",
    ]


def test_on_the_first_consumers_node(cluster):
    cluster.create(node(labels={ZONE: "zone-a"}))
    cluster.create(storage_class(mode="WaitForFirstConsumer"))
    cluster.create(claim(class_="fast"))
    cluster.advance(100)
    assert provisioned(cluster) is None
    select(cluster)
    assert terms(provisioned(cluster)) == {ZONE: ["zone-a"]}


LABELS = {ZONE: "zone-a", "csi.example.com/rack": "r1", "kubernetes.io/hostname": "node-1"}


@pytest.mark.parametrize(
    ("keys", "allowed", "expected"),
    [
        pytest.param(None, None, {ZONE: ["zone-a"]}, id="the zone by default"),
        pytest.param(["csi.example.com/rack"], None, {"csi.example.com/rack": ["r1"]}, id="the driver's keys"),
        pytest.param(
            None, {"kubernetes.io/hostname": ["node-0", "node-1"]}, {"kubernetes.io/hostname": ["node-1"]}, id="allowed"
        ),
        pytest.param(["csi.example.com/rack"], {ZONE: ["zone-a"]}, {"csi.example.com/rack": ["r1"]}, id="both"),
    ],
)
def test_topology(cluster, keys, allowed, expected):
    cluster.create(node(labels=LABELS))
    if keys is not None:
        driver = {"name": "csi.example.com", "nodeID": "n", "topologyKeys": keys}
        csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"}}
        cluster.create({**csi, "spec": {"drivers": [driver]}})
    rest = {}
    if allowed is not None:
        expressions = [{"key": key, "values": values} for key, values in allowed.items()]
        rest["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
    cluster.create(storage_class(mode="WaitForFirstConsumer", **rest))
    cluster.create(claim(class_="fast", annotations={SELECTED: "node-1"}))
    cluster.settle()
    assert terms(provisioned(cluster)) == expected


def test_immediate_provisioning_within_allowed_topologies(cluster):
    """It waits for a node there."""
    expressions = [{"key": ZONE, "values": ["zone-b", "zone-c"]}]
    cluster.create(storage_class(allowedTopologies=[{"matchLabelExpressions": expressions}]))
    cluster.create(claim(class_="fast"))
    cluster.settle()
    assert provisioned(cluster) is None
    assert cluster.events("data")[-1][1:] == (
        "ProvisioningFailed",
        'failed to provision volume with StorageClass "fast": there is no node in the topologies that it allows',
    )
    cluster.create(node("node-a", labels={ZONE: "zone-a"}))
    cluster.create(node("node-b", labels={ZONE: "zone-b"}))
    cluster.settle()
    assert terms(provisioned(cluster)) == {ZONE: ["zone-b"]}


def test_immediate_volumes_of_a_set_are_spread_over_the_zones(cluster):
    for zone in "abc":
        cluster.create(node(f"node-{zone}", labels={ZONE: zone}))
    cluster.create(storage_class())
    for number in range(6):
        cluster.create(claim(f"data-db-{number}", class_="fast"))
    cluster.settle()
    zones = [terms(provisioned(cluster, f"data-db-{number}"))[ZONE] for number in range(6)]
    assert sorted(zones[:3]) == [["a"], ["b"], ["c"]]
    assert zones[:3] == zones[3:]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", 'error getting selected node "nowhere": node "nowhere" not found'),
        ("node-1", 'selected node "node-1" is not in the allowed topologies'),
    ],
    ids=["no such node", "not allowed"],
)
def test_an_unsuitable_selected_node_is_rejected(cluster, name, message):
    cluster.create(node(labels={ZONE: "zone-a"}))
    expressions = [{"key": ZONE, "values": ["zone-b"]}]
    topologies = [{"matchLabelExpressions": expressions}]
    cluster.create(storage_class(mode="WaitForFirstConsumer", allowedTopologies=topologies))
    cluster.create(claim(class_="fast", annotations={SELECTED: name}))
    cluster.settle()
    assert SELECTED not in cluster.get(PVC, "data")["metadata"]["annotations"]
    assert provisioned(cluster) is None
    text = f'failed to provision volume with StorageClass "fast": {message}'
    assert ("Warning", "ProvisioningFailed", text) in cluster.events("data")


@pytest.mark.parametrize(
    ("policy", "left"), [("Delete", False), ("Retain", True)], ids=["deleted with the claim", "kept"]
)
def test_reclaim_policies(cluster, policy, left):
    cluster.create(storage_class(reclaimPolicy=policy))
    cluster.create(claim(class_="fast"))
    cluster.settle()
    name = provisioned(cluster)["metadata"]["name"]
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.names(PVC) == []
    assert cluster.names(PV) == ([name] if left else [])
    if left:
        assert cluster.get(PV, name)["status"]["phase"] == "Released"


def test_volumes_not_provisioned_here_are_deleted_too(cluster):
    cluster.create(volume(policy="Delete"))
    cluster.create(claim())
    cluster.settle()
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.names(PV) == []


def test_without_the_provisioner_a_claim_waits():
    cluster = Living(VolumeBinder)
    cluster.create(storage_class())
    cluster.create(claim(class_="fast"))
    cluster.advance(1_000)
    assert cluster.get(PVC, "data")["status"]["phase"] == "Pending"
