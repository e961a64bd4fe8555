"""Which events wake a pod that was refused for its devices or for features that nodes lack, and which do not."""

import pytest

from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import moves, only_these
from support.scheduling.waking import change, check_row, create, delete, reallocate, relabel, retaint, row, taint


def of_devices(kind, name, **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(name="c", **metadata):
    # No such device exists.
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    made = of_devices("ResourceClaim", name, devices={"requests": [{"name": "r", "exactly": exactly}]})
    made["metadata"] |= metadata
    return made


def device_class(name, **spec):
    return of_devices("DeviceClass", name, **spec)


def resource_slice(name, generation=1):
    pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
    return of_devices("ResourceSlice", name, driver="d.example.com", nodeName="n1", pool=pool)


def with_claim(name="c"):
    return pod(resourceClaims=[{"name": "device", "resourceClaimName": name}])


def with_template():
    return pod(resourceClaims=[{"name": "device", "resourceClaimTemplateName": "t"}])


def with_device(name):
    made = pod()
    made["spec"]["containers"][0]["resources"] = {"requests": {name: "1"}, "limits": {name: "1"}}
    return made


def restarting():
    """A pod that needs a feature of the kubelet."""
    made = pod()
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    made["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return made


def status(plural, name, **fields):
    return change(plural, name, {"status": fields}, subresource="status")


def declare(name, *features):
    return status("nodes", name, declaredFeatures=[*features])


ALLOCATED = {"allocation": {"devices": {}}}
NODE = ("nodes", node("n1"))
TAINTED = ("nodes", node("n1", taints=[taint("t")]))
CLAIM = ("resourceclaims", claim())
ANNOTATED = change("nodes", "n1", {"metadata": {"annotations": {"x": "y"}}})


def node_changes(title, wake, cause, node=NODE):
    return row(
        "DynamicResources", title, pod=with_claim(), before=[node, CLAIM], idle=[ANNOTATED], wake=wake, cause=cause
    )


ROWS = [
    node_changes("a node comes", create("nodes", node("n2")), "NodeAdd"),
    node_changes("labels change", relabel("nodes", "n1", x="y"), "NodeUpdateNodeLabel"),
    node_changes("a node grows", reallocate("n1", cpu="64"), "NodeUpdateNodeAllocatable"),
    node_changes("a taint goes", retaint("n1"), "NodeUpdateNodeTaint", TAINTED),
    row(
        "DynamicResources",
        "its claim comes",
        pod=with_claim(),
        before=[NODE],
        idle=[create("resourceclaims", claim("d")), relabel("nodes", "n1", x="y")],
        wake=create("resourceclaims", claim()),
        cause="resource.k8s.io/ResourceClaimAdd",
    ),
    row(
        "DynamicResources",
        "a device class comes",
        pod=with_claim(),
        before=[NODE, CLAIM],
        wake=create("deviceclasses", device_class("x")),
        cause="resource.k8s.io/DeviceClassAdd",
    ),
    row(
        "DynamicResources",
        "a device class changes",
        pod=with_claim(),
        before=[NODE, CLAIM, ("deviceclasses", device_class("x")), ("deviceclasses", device_class("y"))],
        idle=[delete("deviceclasses", "x")],
        wake=relabel("deviceclasses", "y", x="y"),
        cause="resource.k8s.io/DeviceClassUpdate",
    ),
    row(
        "DynamicResources",
        "a slice comes",
        pod=with_claim(),
        before=[NODE, CLAIM],
        wake=create("resourceslices", resource_slice("x")),
        cause="resource.k8s.io/ResourceSliceAdd",
    ),
    row(
        "DynamicResources",
        "a slice changes",
        pod=with_claim(),
        before=[NODE, CLAIM, ("resourceslices", resource_slice("x")), ("resourceslices", resource_slice("y"))],
        idle=[delete("resourceslices", "y")],
        wake=change("resourceslices", "x", {"spec": {"pool": {"generation": 2}}}),
        cause="resource.k8s.io/ResourceSliceUpdate",
    ),
    row(
        "NodeResourcesFit",
        "a class of its devices comes",
        pod=with_device("deviceclass.resource.kubernetes.io/x"),
        before=[NODE],
        idle=[create("deviceclasses", device_class("y"))],
        wake=create("deviceclasses", device_class("x")),
        cause="resource.k8s.io/DeviceClassAdd",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a class gets its resource",
        pod=with_device("example.com/gpu"),
        before=[NODE, ("deviceclasses", device_class("x"))],
        idle=[relabel("deviceclasses", "x", x="y")],
        wake=change("deviceclasses", "x", {"spec": {"extendedResourceName": "example.com/gpu"}}),
        cause="resource.k8s.io/DeviceClassUpdate",
        node_name="n1",
    ),
    row(
        "NodeDeclaredFeatures",
        "a node comes",
        pod=restarting(),
        before=[NODE],
        idle=[relabel("nodes", "n1", x="y")],
        wake=create("nodes", node("n2")),
        cause="NodeAdd",
    ),
    row(
        "NodeDeclaredFeatures",
        "a node declares it",
        pod=restarting(),
        before=[NODE],
        idle=[ANNOTATED],
        wake=declare("n1", "RestartAllContainersOnContainerExits"),
        cause="NodeUpdateNodeDeclaredFeature",
        node_name="n1",
    ),
    row(
        "NodeDeclaredFeatures",
        "a taint goes",
        pod=restarting(),
        before=[TAINTED],
        idle=[ANNOTATED],
        wake=retaint("n1"),
        cause="NodeUpdateNodeTaint",
    ),
]


@pytest.mark.parametrize("row", ROWS)
async def test_wakes(api_server, namespace, row):
    await check_row(api_server, namespace, row)


async def test_the_status_of_its_claim_changes(api_server, namespace):
    before = [NODE, CLAIM, ("resourceclaims", claim("d"))]
    async with scheduled(api_server, namespace, config=only_these("DynamicResources"), before=before) as c:
        await c.pods(with_claim())
        moved = len(moves(c, "web"))
        await c.objects.patch("resourceclaims", "d", {"status": ALLOCATED}, subresource="status")
        await c.settle()
        assert len(moves(c, "web")) == moved
        await c.objects.patch("resourceclaims", "c", {"status": ALLOCATED}, subresource="status")
        await c.settle()
        assert moves(c, "web")[moved] == ("backoff", "resource.k8s.io/ResourceClaimUpdate")


async def test_a_claim_is_deallocated(api_server, namespace):
    """The first status of a claim wakes no other pod; deleting it wakes all."""
    before = [NODE, CLAIM, ("resourceclaims", claim("d"))]
    async with scheduled(api_server, namespace, config=only_these("DynamicResources"), before=before) as c:
        await c.objects.patch("resourceclaims", "d", {"status": ALLOCATED}, subresource="status")
        await c.pods(with_claim())
        moved = len(moves(c, "web"))
        await c.objects.patch("resourceclaims", "d", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert len(moves(c, "web")) == moved
        await c.objects.patch("resourceclaims", "d", {"status": {"allocation": None}}, subresource="status")
        await c.settle()
        assert moves(c, "web")[moved] == ("backoff", "resource.k8s.io/ResourceClaimUpdate")


async def test_a_claim_is_created_for_the_pod(api_server, namespace):
    """Writing the claim's name to the pod's status opens its gate, once the claim belongs to the pod."""
    async with scheduled(api_server, namespace, config=only_these("DynamicResources"), before=[NODE]) as c:
        await c.pods(with_template())
        assert (c.queued("web").gating_plugin, c.queued("web").attempts) == ("DynamicResources", 0)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "controller": True}
        owner["uid"] = c.objects.made("pods", "web")["metadata"]["uid"]
        await c.create("resourceclaims", claim("web-device", ownerReferences=[owner]))
        assert (c.queued("web").gating_plugin, c.queued("web").attempts) == ("DynamicResources", 0)
        statuses = [{"name": "device", "resourceClaimName": "web-device"}]
        await c.objects.patch("pods", "web", {"status": {"resourceClaimStatuses": statuses}}, subresource="status")
        await c.settle()
        assert ("active", "UnschedulablePodUpdatePodGeneratedResourceClaim") in moves(c, "web")
        assert (c.queued("web").gating_plugin, c.queued("web").attempts) == ("", 1)
