"""Which events wake a pod that was refused for its volumes, and which do not.

The claims have no namespace here; they are created in the namespace of the test.
"""

import pytest

from support.api.manifests import node, pod
from support.api.storage_objects import claim, storage_class, volume
from support.scheduling.attempts import labelled, on
from support.scheduling.waking import change, check_row, create, delete, relabel, retaint, row, taint

ZONE = "topology.kubernetes.io/zone"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
NODE_ADD, NODE_TAINT, NODE_LABEL = "NodeAdd", "NodeUpdateNodeTaint", "NodeUpdateNodeLabel"
POD_DELETE = "AssignedPodDelete"
#: The provisioner of class `slow`; the CSI driver that GCE disks are migrated to.
DRIVER, GCE = "csi.example.com", "pd.csi.storage.gke.io"


def data(name="c", **spec):
    made = claim(name, class_="slow", **spec)
    del made["metadata"]["namespace"]
    return made


def alone(name):
    return data(name, modes=["ReadWriteOncePod"])


def with_claim(name="web", claim="c", *more):
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}, *more])


def with_disk(name="web", disk="x"):
    return pod(name, volumes=[{"name": "v", "gcePersistentDisk": {"pdName": disk}}])


def with_scratch(name="web"):
    template = {"spec": data()["spec"]}
    return pod(name, volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])


def of_storage(kind, name, **fields):
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}


def csi_node(name="n1", **limits):
    """`limits` maps drivers to numbers of volumes; None means no limit."""
    return of_storage("CSINode", name, spec={"drivers": drivers(**limits)})


def drivers(**limits):
    found = [{"name": driver, "nodeID": "n", "allocatable": {"count": count}} for driver, count in limits.items()]
    return [d if d["allocatable"]["count"] else {"name": d["name"], "nodeID": "n"} for d in found]


def limit(name, **limits):
    return change("csinodes", name, {"spec": {"drivers": drivers(**limits)}})


def driver(name, *, capacity):
    return of_storage("CSIDriver", name, spec={"storageCapacity": capacity, "attachRequired": True})


def attachment(name, attacher):
    source = {"persistentVolumeName": "v"}
    return of_storage("VolumeAttachment", name, spec={"attacher": attacher, "nodeName": "n1", "source": source})


def capacity(name, amount):
    return of_storage("CSIStorageCapacity", name, storageClassName="slow", capacity=amount)


def in_csi(driver):
    return {"name": "w", "csi": {"driver": driver}}


def a_volume(name="v", **labels):
    # Nothing binds it to a claim.
    return volume(name, class_="other", labels=labels)


def in_driver(name, driver):
    made = volume(name)
    del made["spec"]["hostPath"]
    made["spec"]["csi"] = {"driver": driver, "volumeHandle": name}
    return made


NODE = ("nodes", node("n1"))
TAINTED = ("nodes", node("n1", taints=[taint("t")]))
CLAIM = ("persistentvolumeclaims", data())
BOUND = [NODE, CLAIM]
ANOTHER = relabel("nodes", "n1", x="y")
ANNOTATED = change("nodes", "n1", {"metadata": {"annotations": {"x": "y"}}})


def its_claim_comes(plugin):
    return row(
        plugin,
        "its claim comes",
        pod=with_claim(),
        before=[NODE],
        idle=[create("persistentvolumeclaims", data("d"))],
        wake=create("persistentvolumeclaims", data()),
        cause="PersistentVolumeClaimAdd",
        # The claim is unbound, which these plugins ignore.
        node_name="n1" if plugin in ("VolumeRestrictions", "NodeVolumeLimits") else "",
    )


def its_claim_changes(plugin):
    return row(
        plugin,
        "its claim changes",
        pod=with_claim(),
        before=[*BOUND, ("persistentvolumeclaims", data("d"))],
        idle=[relabel("persistentvolumeclaims", "d", x="y")],
        wake=relabel("persistentvolumeclaims", "c", x="y"),
        cause="PersistentVolumeClaimUpdate",
    )


async def make_its_claim(objects):
    owner = (await objects.get("pods", "web"))["metadata"]
    made = data("web-v")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner["uid"], "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    await objects.create("persistentvolumeclaims", made)


def the_claim_made_for_it_comes(plugin):
    return row(
        plugin,
        "the claim made for it comes",
        pod=with_scratch(),
        before=[NODE],
        idle=[create("persistentvolumeclaims", data("other-v"))],
        wake=make_its_claim,
        cause="PersistentVolumeClaimAdd",
        node_name="n1" if plugin == "NodeVolumeLimits" else "",
    )


def nodes_change(plugin, before=BOUND, pod=None, *, labels=True):
    """A node is added; its labels change; a taint is removed."""
    pod = pod or with_claim()
    yield row(plugin, "a node comes", pod=pod, before=before, idle=[ANNOTATED], wake=create("nodes", node("n2")),
              cause=NODE_ADD, node_name="" if labels else "n2")  # fmt: skip
    yield row(plugin, "a taint goes", pod=pod, before=[TAINTED, *before[1:]], idle=[ANNOTATED], wake=retaint("n1"),
              cause=NODE_TAINT)  # fmt: skip
    if labels:
        yield row(plugin, "labels change", pod=pod, before=before, idle=[ANNOTATED], wake=ANOTHER, cause=NODE_LABEL)


#: A node that can attach one volume of the class, and has one attached.
FULL = [
    *BOUND,
    ("storageclasses", storage_class("slow")),
    ("persistentvolumeclaims", data("d")),
    ("csinodes", csi_node(**{DRIVER: 1})),
    ("pods", on("n1", with_claim("holder", "d"))),
]
DISK_TAKEN = [NODE, ("pods", on("n1", with_disk("holder"))), ("pods", on("n1", with_disk("other", "y")))]

ROWS = [
    row(
        "VolumeRestrictions",
        "who shared its claim goes",
        pod=with_claim(),
        before=[
            NODE,
            ("persistentvolumeclaims", alone("c")),
            ("pods", on("n1", with_claim("holder"))),
            ("pods", on("n1", with_claim("other", "d"))),
        ],
        idle=[delete("pods", "other")],
        wake=delete("pods", "holder"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "VolumeRestrictions",
        "who held its disk goes",
        pod=with_disk(),
        before=DISK_TAKEN,
        idle=[delete("pods", "other")],
        wake=delete("pods", "holder"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    *nodes_change("VolumeRestrictions", DISK_TAKEN, with_disk(), labels=False),
    its_claim_comes("VolumeRestrictions"),
    row(
        "NodeVolumeLimits",
        "a CSINode comes",
        pod=with_claim(),
        before=FULL,
        # Parity: the plugin does not register for nodes.
        idle=[create("nodes", node("n2"))],
        wake=create("csinodes", csi_node("n2")),
        cause="storage.k8s.io/CSINodeAdd",
        node_name="n2",
    ),
    row(
        "NodeVolumeLimits",
        "a limit grows",
        pod=with_claim(),
        before=FULL,
        # Parity: removing a limit looks like lowering it.
        idle=[limit("n1", **{DRIVER: 1, "e": None}), limit("n1", e=None)],
        wake=limit("n1", e=None, **{DRIVER: 2}),
        cause="storage.k8s.io/CSINodeUpdate",
        node_name="n1",
    ),
    row(
        "NodeVolumeLimits",
        "a pod with a claim goes",
        pod=with_claim(),
        before=[*FULL, ("pods", on("n1", pod("other")))],
        idle=[delete("pods", "other")],
        wake=delete("pods", "holder"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "NodeVolumeLimits",
        "a pod with a disk that counts goes",
        pod=with_disk(),
        before=[NODE, ("csinodes", csi_node(**{GCE: 1})), ("pods", on("n1", with_disk("holder", "y")))],
        wake=delete("pods", "holder"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    its_claim_comes("NodeVolumeLimits"),
    the_claim_made_for_it_comes("NodeVolumeLimits"),
    row(
        "NodeVolumeLimits",
        "a volume is detached",
        pod=with_disk(),
        before=[
            NODE,
            ("csinodes", csi_node(**{GCE: 1})),
            ("persistentvolumes", in_driver("v", GCE)),
            ("volumeattachments", attachment("a", "other.example.com")),
            ("volumeattachments", attachment("b", GCE)),
        ],
        idle=[delete("volumeattachments", "a")],
        wake=delete("volumeattachments", "b"),
        cause="storage.k8s.io/VolumeAttachmentDelete",
        node_name="n1",
    ),
    row(
        "VolumeBinding",
        "a storage class comes",
        pod=with_claim(),
        before=BOUND,
        wake=create("storageclasses", storage_class("slow")),
        cause="storage.k8s.io/StorageClassAdd",
    ),
    row(
        "VolumeBinding",
        "its topologies change",
        pod=with_claim(),
        before=[*BOUND, ("storageclasses", storage_class("slow"))],
        idle=[relabel("storageclasses", "slow", x="y")],
        wake=change(
            "storageclasses",
            "slow",
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]},
        ),
        cause="storage.k8s.io/StorageClassUpdate",
    ),
    its_claim_comes("VolumeBinding"),
    its_claim_changes("VolumeBinding"),
    the_claim_made_for_it_comes("VolumeBinding"),
    row(
        "VolumeBinding",
        "a volume comes",
        pod=with_claim(),
        before=BOUND,
        wake=create("persistentvolumes", a_volume()),
        cause="PersistentVolumeAdd",
    ),
    row(
        "VolumeBinding",
        "a volume changes",
        pod=with_claim(),
        before=[*BOUND, ("persistentvolumes", a_volume())],
        wake=relabel("persistentvolumes", "v", x="y"),
        cause="PersistentVolumeUpdate",
    ),
    *nodes_change("VolumeBinding"),
    row(
        "VolumeBinding",
        "a CSINode comes",
        pod=with_claim(),
        before=BOUND,
        wake=create("csinodes", csi_node()),
        cause="storage.k8s.io/CSINodeAdd",
    ),
    row(
        "VolumeBinding",
        "plugins migrate",
        pod=with_claim(),
        before=[*BOUND, ("csinodes", csi_node())],
        idle=[limit("n1", d=1), change("csinodes", "n1", {"metadata": {"annotations": {"x": "y"}}})],
        wake=change("csinodes", "n1", {"metadata": {"annotations": {MIGRATED: "kubernetes.io/gce-pd"}}}),
        cause="storage.k8s.io/CSINodeUpdate",
    ),
    row(
        "VolumeBinding",
        "its driver no longer counts storage",
        pod=with_claim("web", "c", in_csi("mine.example.com")),
        before=[
            *BOUND,
            ("csidrivers", driver("mine.example.com", capacity=True)),
            ("csidrivers", driver("other.example.com", capacity=True)),
        ],
        idle=[
            relabel("csidrivers", "mine.example.com", x="y"),
            change("csidrivers", "other.example.com", {"spec": {"storageCapacity": False}}),
        ],
        wake=change("csidrivers", "mine.example.com", {"spec": {"storageCapacity": False}}),
        cause="storage.k8s.io/CSIDriverUpdate",
    ),
    row(
        "VolumeBinding",
        "capacity comes",
        pod=with_claim(),
        before=BOUND,
        wake=create("csistoragecapacities", capacity("x", "1Gi")),
        cause="storage.k8s.io/CSIStorageCapacityAdd",
    ),
    row(
        "VolumeBinding",
        "capacity grows",
        pod=with_claim(),
        before=[*BOUND, ("csistoragecapacities", capacity("x", "2Gi"))],
        idle=[change("csistoragecapacities", "x", {"capacity": "1Gi"})],
        wake=change("csistoragecapacities", "x", {"capacity": "1025Mi"}),
        cause="storage.k8s.io/CSIStorageCapacityUpdate",
    ),
    row(
        "VolumeZone",
        "a class that waits for pods comes",
        pod=with_claim(),
        before=BOUND,
        idle=[create("storageclasses", storage_class("fast"))],
        wake=create("storageclasses", storage_class("slow", mode="WaitForFirstConsumer")),
        cause="storage.k8s.io/StorageClassAdd",
        node_name="n1",
    ),
    *nodes_change("VolumeZone"),
    its_claim_comes("VolumeZone"),
    its_claim_changes("VolumeZone"),
    row(
        "VolumeZone",
        "a volume comes",
        pod=with_claim(),
        before=BOUND,
        wake=create("persistentvolumes", a_volume()),
        cause="PersistentVolumeAdd",
    ),
    row(
        "VolumeZone",
        "a volume moves",
        pod=with_claim(),
        before=[*BOUND, ("persistentvolumes", labelled(a_volume(), **{ZONE: "a"}))],
        idle=[relabel("persistentvolumes", "v", x="y")],
        wake=relabel("persistentvolumes", "v", **{ZONE: "b"}),
        cause="PersistentVolumeUpdate",
    ),
]


@pytest.mark.parametrize("row", ROWS)
async def test_wakes(api_server, namespace, row):
    await check_row(api_server, namespace, row)
