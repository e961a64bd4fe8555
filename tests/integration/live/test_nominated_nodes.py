"""Nominated nodes: which pods leave their resources free, and how nominations are set and lost."""

from stowplan.kube.api.api_errors import Conflict
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered, raising
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import asking
from support.scheduling.preempting import CLASSES, nodes, pending_pod, placed, pods


def spec_of(made, **spec):
    made["spec"] |= spec
    return made


def set_nomination(c, node_name, name="web"):
    return c.objects.patch("pods", name, {"status": {"nominatedNodeName": node_name}}, subresource="status")


def large(name="web", priority="more"):
    """A pod that fits no node, so that its nomination depends on its status alone."""
    return pending_pod(name, "64", priority)


def nominated_in_memory(c, name="web"):
    return c.scheduler.state.nominator.node_of(c.objects.made("pods", name)["metadata"]["uid"])


async def test_the_nomination_follows_the_status(api_server, namespace):
    """While the pod is not tried, its nomination follows its status."""
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"), node("n2"))]) as c:
        await c.pods(spec_of(large(), schedulingGates=[{"name": "a"}]))
        assert nominated_in_memory(c) == ""
        for node_name in ("n1", "n2", None, "n1"):
            await set_nomination(c, node_name)
            await c.settle()
            assert nominated_in_memory(c) == (node_name or "")
        # Other changes have no effect.
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert nominated_in_memory(c) == "n1"
        await c.objects.delete("pods", "web")
        await c.settle()
        assert not c.scheduler.state.nominator


async def test_a_nomination_is_kept_in_memory_if_the_patch_fails(api_server, namespace):
    """The node stays nominated in memory although the status does not say so."""
    before = [*CLASSES, *nodes(node("n1")), *pods(placed("victim"))]
    async with scheduled(api_server, namespace, before=before, wrap=Tampered) as c:
        failing = raising(Conflict("etcd is tired"))

        async def not_for_web(call, go_on):
            return await (failing(call, go_on) if call.name == "web" else go_on())

        c.api.instead["patch"] = not_for_web
        await c.pods(pending_pod())
        assert nominated_in_memory(c) == "n1"
        assert (await c.pod("web"))["status"].get("nominatedNodeName", "") == ""
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert nominated_in_memory(c) == "n1"
        await c.pods(asking(pod("other"), cpu="1500m"))
        assert await c.node_of("other") == ""
