"""A change of each kind of object arrives over HTTP and wakes the pods that wait for it, and no others.

Which changes wake which pods: `test_requeueing_in_tree.py` of the queue, for every event that a plugin registers, and
tests/golden.
"""

import pytest

from support.api.manifests import node, pod
from support.api.storage_objects import claim, storage_class, volume
from support.scheduling.attempts import asking, on
from support.scheduling.waking import (
    change,
    check_row,
    create,
    delete,
    relabel,
    row,
)

ZONE = "topology.kubernetes.io/zone"
#: The provisioner of class `slow`.
DRIVER = "csi.example.com"
NODE = ("nodes", node("n1"))
ANNOTATED = change("nodes", "n1", {"metadata": {"annotations": {"x": "y"}}})


def waiting(made):
    """The pod, assigned to a scheduler that does not run."""
    made["spec"]["schedulerName"] = "nobody"
    return made


def data(name="c"):
    made = claim(name, class_="slow")
    # It is created in the namespace of the test.
    del made["metadata"]["namespace"]
    return made


def with_claim(name="web", claim="c"):
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def of_storage(kind, name, **fields):
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}


def capacity(name, amount):
    return of_storage("CSIStorageCapacity", name, storageClassName="slow", capacity=amount)


def drivers(count):
    return {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": count}}]}


def of_devices(kind, name, **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def device_claim(name="c"):
    # No such device exists.
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return of_devices("ResourceClaim", name, devices={"requests": [{"name": "r", "exactly": exactly}]})


def resource_slice(name):
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return of_devices("ResourceSlice", name, driver="d.example.com", nodeName="n1", pool=pool)


def restarting():
    """A pod that needs a feature of the kubelet."""
    made = pod()
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    made["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return made


THREE = asking(pod(), cpu="3")
FULL = [NODE, ("pods", on("n1", asking(pod("large"), cpu="2", memory="1Gi")))]
BOUND = [NODE, ("persistentvolumeclaims", data())]
WITH_DEVICE = pod(resourceClaims=[{"name": "device", "resourceClaimName": "c"}])
CLAIMED = [NODE, ("resourceclaims", device_claim())]
FEATURE = {"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}}

ROWS = [
    row(
        "NodeAffinity",
        "labels change",
        pod=pod(nodeSelector={"a": "b"}),
        before=[NODE],
        idle=[relabel("nodes", "n1", a="c")],
        wake=relabel("nodes", "n1", a="b"),
        cause="NodeUpdateNodeLabel",
        node_name="n1",
    ),
    row(
        "NodeDeclaredFeatures",
        "a node declares it",
        pod=restarting(),
        before=[NODE],
        idle=[ANNOTATED],
        wake=change("nodes", "n1", FEATURE, subresource="status"),
        cause="NodeUpdateNodeDeclaredFeature",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a pod goes",
        pod=THREE,
        before=[*FULL, ("pods", waiting(pod("pending")))],
        idle=[delete("pods", "pending")],
        wake=delete("pods", "large"),
        cause="AssignedPodDelete",
        node_name="n1",
    ),
    row(
        "VolumeRestrictions",
        "its claim comes",
        pod=with_claim(),
        before=[NODE],
        idle=[create("persistentvolumeclaims", data("d"))],
        wake=create("persistentvolumeclaims", data()),
        cause="PersistentVolumeClaimAdd",
        node_name="n1",
    ),
    row(
        "VolumeZone",
        "a class comes",
        pod=with_claim(),
        before=BOUND,
        idle=[create("storageclasses", storage_class("fast"))],
        wake=create("storageclasses", storage_class("slow", mode="WaitForFirstConsumer")),
        cause="storage.k8s.io/StorageClassAdd",
        node_name="n1",
    ),
    row(
        "VolumeZone",
        "a volume changes",
        pod=with_claim(),
        before=[*BOUND, ("persistentvolumes", volume("v", class_="other"))],
        idle=[change("persistentvolumes", "v", {"metadata": {"annotations": {"x": "y"}}})],
        wake=relabel("persistentvolumes", "v", **{ZONE: "b"}),
        cause="PersistentVolumeUpdate",
    ),
    row(
        "VolumeBinding",
        "capacity grows",
        pod=with_claim(),
        before=[
            *BOUND,
            ("csistoragecapacities", of_storage("CSIStorageCapacity", "x", storageClassName="slow", capacity="2Gi")),
        ],
        idle=[change("csistoragecapacities", "x", {"capacity": "1Gi"})],
        wake=change("csistoragecapacities", "x", {"capacity": "1025Mi"}),
        cause="storage.k8s.io/CSIStorageCapacityUpdate",
    ),
    row(
        "NodeVolumeLimits",
        "a limit grows",
        pod=with_claim(),
        before=[
            *BOUND,
            ("storageclasses", storage_class("slow")),
            ("persistentvolumeclaims", data("d")),
            ("csinodes", of_storage("CSINode", "n1", spec=drivers(1))),
            ("pods", on("n1", with_claim("holder", "d"))),
        ],
        idle=[relabel("csinodes", "n1", x="y")],
        wake=change("csinodes", "n1", {"spec": drivers(2)}),
        cause="storage.k8s.io/CSINodeUpdate",
        node_name="n1",
    ),
    row(
        "DynamicResources",
        "a device class comes",
        pod=WITH_DEVICE,
        before=CLAIMED,
        idle=[ANNOTATED],
        wake=create("deviceclasses", of_devices("DeviceClass", "x")),
        cause="resource.k8s.io/DeviceClassAdd",
    ),
    row(
        "DynamicResources",
        "a slice changes",
        pod=WITH_DEVICE,
        before=[*CLAIMED, ("resourceslices", resource_slice("x")), ("resourceslices", resource_slice("y"))],
        idle=[delete("resourceslices", "y")],
        wake=change("resourceslices", "x", {"spec": {"pool": {"generation": 2}}}),
        cause="resource.k8s.io/ResourceSliceUpdate",
    ),
]


@pytest.mark.parametrize("row", ROWS)
async def test_wakes(api_server, namespace, row):
    await check_row(api_server, namespace, row)
