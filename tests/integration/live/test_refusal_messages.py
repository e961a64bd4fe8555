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


async def test_a_claim_that_is_missing(api_server, namespace):
    """The last two words come from a plugin whose PreFilter was not reached."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1"), node("n2"), node("n3"))
        await c.pods(pod("web", volumes=[claim]))
        assert await messages(c) == '0/3 nodes are available: persistentvolumeclaim "missing" not found. not found'
