"""Messages of the default profile, character by character."""

from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
CLAIMS = "no new claims to deallocate"


def asking(name="web", cpu="3", **spec):
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return made


async def messages(c, name="web"):
    """The condition's message and the events' notes, which are the same."""
    message = (await c.condition(name))["message"]
    assert {e["note"] for e in await c.events(name)} == {message}
    return message


async def test_nothing_helps(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1", taints=[TAINT]), node("n2"), node("n3"))
        await c.pods(asking(cpu="100"))
        assert await messages(c) == (
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            f"{CLAIMS}, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )


async def test_no_pod_can_be_preempted(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1", taints=[TAINT]), node("n2"))
        await c.pods(asking("first"))
        await c.pods(asking())
        assert await messages(c) == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            f"{CLAIMS}, preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        )


async def test_a_pod_that_may_not_preempt(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        never = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"polite-{namespace}"[:60].strip("-")},
            "value": 100,
            "preemptionPolicy": "Never",
        }
        await c.create("priorityclasses", never)
        await c.nodes(node("n1"))
        await c.pods(asking("first"))
        await c.pods(asking(priorityClassName=never["metadata"]["name"]))
        assert await messages(c) == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            f"{CLAIMS}, preemption: not eligible due to preemptionPolicy=Never."
        )


async def test_pre_filter_excludes_most_nodes(api_server, namespace):
    """Nodes that PreFilter excludes count as refused by the plugin that excluded them."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    async with scheduled(api_server, namespace) as c:
        await c.nodes(*(node(f"n{i}") for i in range(1, 5)))
        await c.pods(asking("first"), asking(cpu="100", affinity={"nodeAffinity": required}))
        assert await messages(c) == (
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            f"{CLAIMS}, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
        )


async def test_a_claim_that_is_missing(api_server, namespace):
    """The last two words come from a plugin whose PreFilter was not reached."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1"), node("n2"), node("n3"))
        await c.pods(pod("web", volumes=[claim]))
        assert await messages(c) == '0/3 nodes are available: persistentvolumeclaim "missing" not found. not found'
