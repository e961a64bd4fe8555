"""Device claims on an API server: contention for the last device, concurrent changes by drivers and other clients,
restarts."""

import asyncio

import pytest

from stowplan.kube.api.types import ResourceClaim
from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, exactly

CLAIMS = "resourceclaims"
NODE, CLASS = ("nodes", node("n1")), ("deviceclasses", a_class())
#: Longer than the backoff after a first failure.
BACKOFF = 11
CONDITIONS = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/broken"]}


def offered(*devices, name="n1", **fields):
    return "resourceslices", a_slice(name, *(devices or (a_device("g0"),)), pool="n1", nodeName="n1", **fields)


def claim(name="c"):
    """A claim as users write it."""
    found = a_claim(name, exactly())
    del found["metadata"]["uid"], found["metadata"]["namespace"], found["status"]
    return found


def user(name, of="c"):
    return pod(name, resourceClaims=[{"name": "device", "resourceClaimName": of}])


async def status_of(cluster, name="c"):
    return (await cluster.objects.get(CLAIMS, name)).get("status") or {}


async def devices_of(cluster, name="c"):
    allocation = (await status_of(cluster, name)).get("allocation") or {"devices": {}}
    return [result["device"] for result in allocation["devices"].get("results", ())]


async def users_of(cluster, name="c"):
    return [one["name"] for one in (await status_of(cluster, name)).get("reservedFor") or ()]


async def nodes_of(cluster, *names):
    return [await cluster.node_of(name) for name in names]


async def test_a_driver_is_removed_and_returns(api_server, namespace):
    """An allocated claim stays allocated and can be shared; nothing new is allocated until the driver is back."""
    before = [NODE, CLASS, offered(a_device("g0"), a_device("g1")), (CLAIMS, claim()), (CLAIMS, claim("d"))]
    async with scheduled(api_server, namespace, before=before) as c:
        await c.pods(user("p"))
        await c.objects.delete("resourceslices", "n1")
        await c.pods(user("p2"), user("q", "d"))
        await c.advance(BACKOFF)
        assert await nodes_of(c, "p", "p2", "q") == ["n1", "n1", ""]
        await c.create(*offered(a_device("g0"), a_device("g1")))
        await c.advance(BACKOFF)
        assert (await c.node_of("q"), await devices_of(c, "d")) == ("n1", ["g1"])


# -- concurrent writers ------------------------------------------------------------------------------------------------


class Meddled:
    """An Api that calls `meddle` once, before the first patch of a claim's status."""

    def __init__(self, api, meddle):
        self._api = api
        self._meddle = meddle

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def patch(self, kind, name, patch, **options):
        if kind is ResourceClaim and options.get("subresource") == "status" and self._meddle is not None:
            meddle, self._meddle = self._meddle, None
            await meddle()
        return await self._api.patch(kind, name, patch, **options)


def meddled(api_server, namespace, meddle, *, before):
    """A scheduler behind `Meddled`; `meddle` gets the objects of the cluster, which exist by the time it is called."""
    found = []
    running = scheduled(
        api_server, namespace, before=before, wrap=lambda api: Meddled(api, lambda: meddle(found[0].objects))
    )
    return running, found


async def test_a_write_that_conflicts_is_tried_again(api_server, namespace):
    async def annotate(objects):
        await objects.patch(CLAIMS, "c", {"metadata": {"annotations": {"example.com/x": "y"}}})

    running, found = meddled(api_server, namespace, annotate, before=[NODE, CLASS, offered(), (CLAIMS, claim())])
    async with running as c:
        found.append(c)
        await c.pods(user("p"))
        await c.advance(1)
        assert (await c.node_of("p"), await devices_of(c), await users_of(c)) == ("n1", ["g0"], ["p"])
        assert (await c.objects.get(CLAIMS, "c"))["metadata"]["annotations"] == {"example.com/x": "y"}


async def test_a_claim_deleted_while_it_is_written(api_server, namespace):
    """The claim already has its finalizer, so it stays; it is not allocated, and its device goes to another claim."""

    async def delete(objects):
        await objects.delete(CLAIMS, "c", grace=None)

    before = [NODE, CLASS, offered(), (CLAIMS, claim()), (CLAIMS, claim("d"))]
    running, found = meddled(api_server, namespace, delete, before=before)
    async with running as c:
        found.append(c)
        await c.pods(user("p"))
        await c.advance(BACKOFF)
        assert await c.node_of("p") == ""
        assert await devices_of(c) == []
        await c.pods(user("q", "d"))
        assert await devices_of(c, "d") == ["g0"]


@pytest.mark.parametrize("node_name", ["n1", "n2"])
async def test_the_pod_follows_an_allocation_by_another_client(api_server, namespace, node_name):
    """Also without devices or a timestamp: only the allocation's node selector counts."""
    before = [NODE, ("nodes", node("n2")), CLASS, (CLAIMS, claim())]
    async with scheduled(api_server, namespace, before=before) as c:
        await c.pods(user("p"))
        field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
        allocation = {"devices": {}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
        await c.objects.patch(CLAIMS, "c", {"status": {"allocation": allocation}}, subresource="status")
        await c.settle()
        assert (await c.node_of("p"), await users_of(c)) == (node_name, ["p"])


async def report(cluster, condition):
    """Set the condition of the device, as its driver does."""
    now = "2026-01-01T00:00:00Z"
    met = {"type": condition, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": now}
    told = [{"driver": DRIVER, "pool": "n1", "device": "g0", "conditions": [met]}]
    await cluster.objects.patch(CLAIMS, "c", {"status": {"devices": told}}, subresource="status")
    await cluster.advance(6)


ATTACHED = [NODE, CLASS, offered(a_device("g0", **CONDITIONS)), (CLAIMS, claim())]


# -- restarts ---------------------------------------------------------------------------------------------------------


async def finalized(cluster):
    return (await cluster.objects.get(CLAIMS, "c"))["metadata"].get("finalizers")


async def test_a_restart_between_reserve_and_pre_bind(api_server, namespace):
    """What was not written is decided again by the next process, without a double allocation."""
    before = [NODE, CLASS, offered(), (CLAIMS, claim()), (CLAIMS, claim("d"))]
    never = asyncio.Event()
    async with scheduled(api_server, namespace, wrap=lambda api: Meddled(api, never.wait), before=before) as c:
        await c.objects.create("pods", user("p"))
        await c.until(lambda: finalized(c))
        await c.stop()
        assert (await c.node_of("p"), await devices_of(c)) == ("", [])
        async with scheduled(api_server, namespace) as again:
            await again.pods(user("q", "d"))
            await again.advance(BACKOFF)
            assert await nodes_of(again, "p", "q") == ["n1", ""]
            assert (await devices_of(again), await users_of(again)) == (["g0"], ["p"])
            assert await devices_of(again, "d") == []


async def test_a_restart_between_the_allocation_and_the_binding(api_server, namespace):
    """The next process binds the pod with the existing allocation."""
    async with scheduled(api_server, namespace, before=ATTACHED) as c:
        await c.objects.create("pods", user("p"))
        await c.until(lambda: users_of(c))
        await c.stop()
        async with scheduled(api_server, namespace) as again:
            await again.until(lambda: again.events("p", "BindingConditionsPending"))
            await report(again, CONDITIONS["bindingConditions"][0])
            await again.advance(BACKOFF)
            assert (await again.node_of("p"), await users_of(again)) == ("n1", ["p"])


#: As Python's json.dumps writes them; the API server compares them byte by byte, and has another form in its JSON.
OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"sharing": "<time>", "slices": [1, 2]}}}


async def test_parameters_that_json_does_not_preserve(api_server, namespace):
    """A claim is allocated, and reserved for another pod, whatever form its author gave the driver's parameters."""
    configured = claim()
    configured["spec"]["devices"]["config"] = [OPAQUE]
    before = [NODE, CLASS, offered(), (CLAIMS, configured)]
    async with scheduled(api_server, namespace, before=before) as c:
        await c.pods(user("p1"))
        assert (await c.node_of("p1"), await devices_of(c)) == ("n1", ["g0"])
        made = await c.objects.get(CLAIMS, "c")
        assert made["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        await c.pods(user("p2"))
        # A patch that merges puts a new entry first.
        assert (await c.node_of("p2"), sorted(await users_of(c))) == ("n1", ["p1", "p2"])


async def test_parameters_in_an_allocation_of_another_client(api_server, namespace):
    async with scheduled(api_server, namespace, before=[NODE, CLASS, offered(), (CLAIMS, claim())]) as c:
        made = await c.objects.get(CLAIMS, "c")
        results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "g0"}]
        config = [{"source": "FromClass", **OPAQUE}]
        made["status"] = {"allocation": {"devices": {"results": results, "config": config}}}
        made["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        path = c.objects.path(CLAIMS, "c")
        made["metadata"] |= (await c.objects.call("PUT", path, made))["metadata"]
        await c.objects.call("PUT", f"{path}/status", made)
        await c.pods(user("p1"))
        assert (await c.node_of("p1"), await users_of(c)) == ("n1", ["p1"])
