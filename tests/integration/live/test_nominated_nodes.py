"""Nominated nodes: which pods leave their resources free, and how nominations are set and lost."""

import pytest

from stowplan.kube.api.api_errors import Conflict
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered, raising
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import asking, attempts, moves
from support.scheduling.preempting import CLASSES, nodes, pending_pod, placed, pods


def nominated_pod(name="web", node_name="n1", **more):
    return {**pending_pod(name, **more), "status": {"nominatedNodeName": node_name}}


def spec_of(made, **spec):
    made["spec"] |= spec
    return made


def set_nomination(c, node_name, name="web"):
    return c.objects.patch("pods", name, {"status": {"nominatedNodeName": node_name}}, subresource="status")


# -- the nominated node is tried first ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nomination", "there", "expected"),
    [
        # The other nodes are empty and would score higher.
        pytest.param("n2", [placed("a", "2", "n2")], "n2", id="taken"),
        pytest.param("n2", [placed("a", "3", "n2"), placed("b", "1")], "n3", id="full"),
    ],
)
async def test_the_nominated_node_is_tried_first(api_server, namespace, nomination, there, expected):
    before = [
        *CLASSES,
        *nodes(node("n1"), node("n2"), node("n3")),
        *pods(*there, nominated_pod(node_name=nomination, cpu="2")),
    ]
    async with scheduled(api_server, namespace, before=before) as c:
        assert await c.node_of("web") == expected
        assert not c.scheduler.state.nominator


# -- pods that respect a nomination ------------------------------------------------------------------------------------

#: Two of the four CPUs of n1 are in use; three are nominated to a pod that waits for those two.
TAKEN = [*CLASSES, *nodes(node("n1")), *pods(placed("leaving", "2", priority="most"), nominated_pod(priority="more"))]


@pytest.mark.parametrize(
    ("priority", "fits"),
    [
        pytest.param("", False, id="lesser"),
        pytest.param("more", False, id="equal"),
        pytest.param("most", True, id="greater"),
    ],
)
async def test_pods_of_equal_or_lower_priority_respect_a_nomination(api_server, namespace, priority, fits):
    async with scheduled(api_server, namespace, before=TAKEN) as c:
        # No event wakes the nominated pod: a nomination stays in memory as long as it is in the status.
        await set_nomination(c, "n1")
        await c.settle()
        other = asking(pod("other"), cpu="1")
        await c.pods(spec_of(other, priorityClassName=priority) if priority else other)
        assert await c.node_of("other") == ("n1" if fits else "")
        if not fits:
            assert (await c.condition("other"))["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


# -- nominations are set and lost --------------------------------------------------------------------------------------


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


async def test_another_client_binds_the_nominated_pod(api_server, namespace):
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))]) as c:
        await c.pods(large())
        await set_nomination(c, "n1")
        await c.settle()
        assert nominated_in_memory(c) == "n1"
        await c.objects.bind("web", "n1")
        await c.settle()
        assert (nominated_in_memory(c), c.place("web")) == ("", "")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda c: set_nomination(c, None), id="taken back"),
        pytest.param(lambda c: set_nomination(c, "n9"), id="moved"),
        pytest.param(lambda c: c.objects.delete("pods", "web"), id="deleted"),
    ],
)
async def test_a_lost_nomination_wakes_pods_that_respected_it(api_server, namespace, end):
    """Wakes pods of at most the priority of the pod that lost it."""
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))]) as c:
        await c.pods(large())
        await set_nomination(c, "n1")
        await c.settle()
        await c.pods(asking(pod("lesser"), cpu="1"), large("greater", "most"))
        assert await c.node_of("lesser") == ""
        tried = len(attempts(c, "greater"))
        await end(c)
        await c.settle()
        assert await c.node_of("lesser") == "n1"
        assert moves(c, "lesser")[-1] == ("backoff", "AssignedPodDelete")
        assert len(attempts(c, "greater")) == tried


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
