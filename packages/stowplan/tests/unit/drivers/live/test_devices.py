"""Pods with device claims on an API server: writes, concurrent changes by others, deallocation."""

from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, exactly

CONDITIONS = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}


def node(name, *devices, **fields):
    found = devices or (a_device("g0"),)
    sized = a_node(name).allocatable(cpu=4000, memory="64Gi", pods=100).obj()
    return [sized, a_slice(name, *found, nodeName=name, **fields)]


def claim(name="c"):
    """As users write it: the API server sets the UID."""
    found = a_claim(name, exactly())
    del found["metadata"]["uid"], found["status"]
    return found


def pod(name, of="c"):
    return a_pod(name).claims_devices(of).obj()


def status_of(cluster, name="c"):
    return cluster.get("resourceclaims.resource.k8s.io", name).get("status", {})


async def test_pods_share_a_claim_and_compete_for_the_last_device():
    async with live(a_class(), *node("n")) as cluster:
        await cluster.create(claim(), claim("d"), pod("p1"), pod("p2"), pod("q", "d"))
        await cluster.advance(10)
        assert [cluster.node_of(name) for name in ("p1", "p2", "q")] == ["n", "n", ""]
        found = cluster.get("resourceclaims.resource.k8s.io", "c")
        assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert {user["name"] for user in found["status"]["reservedFor"]} == {"p1", "p2"}
        assert "cannot allocate all claims" in cluster.why_pending("q")


async def test_a_replaced_slice_wakes_waiting_pods():
    async with live(a_class(), *node("n")) as cluster:
        await cluster.create(claim(), claim("d"), pod("p"), pod("q", "d"))
        assert cluster.node_of("q") == ""
        two = a_slice("n", a_device("g0"), a_device("g1"), generation=2)["spec"]
        spec = {"pool": two["pool"], "devices": two["devices"]}
        await cluster.patch("resourceslices.resource.k8s.io", "n", {"spec": spec})
        await cluster.advance(10)
        assert cluster.node_of("q") == "n"
        assert status_of(cluster, "d")["allocation"]["devices"]["results"][0]["device"] == "g1"


async def test_extended_resources_get_a_claim_of_their_own():
    async with live(a_class("gpu", extendedResourceName="x.com/gpu"), *node("n")) as cluster:
        await cluster.create(a_pod("p").requests({"x.com/gpu": "1"}).limits({"x.com/gpu": "1"}).obj())
        await cluster.advance(10)
        assert cluster.node_of("p") == "n"
        served = cluster.pod("p")["status"]["extendedResourceClaimStatus"]
        found = cluster.get("resourceclaims.resource.k8s.io", served["resourceClaimName"])
        assert found["status"]["reservedFor"][0]["name"] == "p"


async def test_binding_waits_until_devices_are_attached():
    async with live(a_class(), *node("n", a_device("g0", **CONDITIONS))) as cluster:
        await cluster.create(claim(), pod("p"))
        assert cluster.node_of("p") == ""
        assert cluster.events("p", "BindingConditionsPending")
        await report(cluster, "Attached")
        assert cluster.node_of("p") == "n"


async def test_failed_devices_are_deallocated():
    async with live(a_class(), *node("n", a_device("g0", **CONDITIONS))) as cluster:
        await cluster.create(claim(), pod("p"))
        await report(cluster, "Broken")
        assert "deallocation of ResourceClaim completed" in cluster.why_pending("p")
        # It is allocated again, and the driver has not reported the devices yet.
        assert not status_of(cluster).get("devices")


async def report(cluster, condition):
    """Let the driver report the condition of the device in the claim's status."""
    now = "2026-01-01T00:00:00Z"
    met = {"type": condition, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": now}
    device = {"driver": DRIVER, "pool": "n", "device": "g0", "conditions": [met]}
    registry, resource = cluster.server.registry, cluster.api.resource("resourceclaims.resource.k8s.io")
    registry.patch(resource, "default", "c", {"status": {"devices": [device]}}, kind="merge", subresource="status")
    await cluster.settle()
    await cluster.advance(6)
