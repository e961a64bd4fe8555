"""Pods gated before their first attempt: by their scheduling gates, and by a plugin's PreEnqueue."""

from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.status import error, unresolvable
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking, attempts, moves

OPENED = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
GATES = {"schedulingGates": [{"name": "a"}, {"name": "b"}]}


def gates(*names):
    return {"spec": {"schedulingGates": [{"name": name} for name in names] or None}}


def counts(c):
    found = c.scheduler.queue.counts()
    return {place: found[place] for place in ("active", "backoff", "unschedulable", "gated")}


def held(c, gating_plugin="SchedulingGates"):
    queued = c.queued("web")
    assert (c.place("web"), queued.gating_plugin, queued.attempts) == ("UNSCHEDULABLE", gating_plugin, 0)
    assert queued.unschedulable_plugins == {gating_plugin}
    assert counts(c)["gated"] == 1
    assert attempts(c, "web") == []
    return True


async def test_a_gated_pod_from_creation_to_binding(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("nodes", node("n1"))], wrap=Tampered) as c:
        await c.pods(pod(**GATES))
        assert held(c)
        assert moves(c, "web") == [("unschedulable", "UnschedulablePodAdd")]

        # Nothing else opens a gate: neither changes of the pod or the cluster, nor time.
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.objects.patch("pods", "web", gates("b"))
        await c.nodes(node("n2"))
        await c.pods(pod("other"))
        await c.objects.delete("pods", "other")
        await c.advance(700)
        assert held(c)
        assert moves(c, "web") == [("unschedulable", "UnschedulablePodAdd")]
        assert c.queued("web").pod.pod.spec.scheduling_gates[0].name == "b"

        # The condition is written by the API server; the scheduler writes nothing.
        assert (await c.condition("web"))["reason"] == "SchedulingGated"
        assert c.api.status_patches("web") == []
        assert await c.events("web") == []

        await c.objects.patch("pods", "web", gates())
        await c.settle()
        assert moves(c, "web")[1:] == [("active", OPENED)]
        assert len(attempts(c, "web")) == 1
        assert await c.node_of("web")
        assert counts(c) == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


async def test_a_pod_whose_gate_opened_may_not_fit(api_server, namespace):
    """Afterwards it is refused like any other pod, and no longer counts as gated."""
    async with scheduled(api_server, namespace, before=[("nodes", node("n1"))]) as c:
        await c.pods(asking(pod(**GATES), cpu="64"))
        await c.objects.patch("pods", "web", gates())
        await c.settle()
        queued = c.queued("web")
        assert (c.place("web"), queued.gating_plugin, queued.attempts) == ("UNSCHEDULABLE", "", 1)
        assert queued.unschedulable_plugins == {"NodeResourcesFit"}
        assert counts(c) == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
        assert (await c.condition("web"))["reason"] == "Unschedulable"


async def test_a_gated_pod_is_deleted(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("nodes", node("n1"))]) as c:
        await c.pods(pod(**GATES))
        await c.objects.delete("pods", "web")
        await c.settle()
        assert c.queued("web") is None
        assert counts(c)["gated"] == 0
        # Its name can be reused by a pod without gates.
        await c.pods(pod())
        assert await c.node_of("web") == "n1"


async def test_gated_pods_from_the_start(api_server, namespace):
    before = [("nodes", node("n1")), ("pods", pod(**GATES)), ("pods", pod("other"))]
    async with scheduled(api_server, namespace, before=before) as c:
        assert held(c)
        assert await c.node_of("other") == "n1"


async def test_a_plugin_that_gates_pods(api_server, namespace):
    """The plugin is called again after an event that it waits for."""
    a = answering("A", pre_enqueue=unresolvable("not yet"), wakes=[on(NODE, Action.Add)])
    config = configuration(profile(preEnqueue=[a]))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered) as c:
        await c.pods(pod())
        assert held(c, "A")
        await c.nodes(node("n2"))
        assert held(c, "A")
        a.answers["pre_enqueue"] = None
        await c.objects.patch("nodes", "n2", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert held(c, "A")
        assert c.api.calls == []
        await c.nodes(node("n3"))
        assert moves(c, "web")[-1] == ("active", "NodeAdd")
        assert await c.node_of("web")


async def test_a_second_gate_after_the_first_opens(api_server, namespace):
    a = answering("A", pre_enqueue=unresolvable("not yet"), wakes=[on(NODE, Action.Add)])
    config = configuration(profile(preEnqueue=[a]))
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=[("nodes", node("n1"))]) as c:
        await c.pods(pod(**GATES))
        assert held(c)
        await c.objects.patch("pods", "web", gates())
        await c.settle()
        assert (c.queued("web").gating_plugin, attempts(c, "web")) == ("A", [])
        # The first gate is open.
        a.answers["pre_enqueue"] = None
        await c.nodes(node("n2"))
        assert await c.node_of("web")


async def test_a_pre_enqueue_error_gates_the_pod(api_server, namespace):
    for problem in (error("bad"), RuntimeError("oops")):
        a = answering("A", pre_enqueue=problem, wakes=[on(NODE, Action.Add)])
        config = configuration(profile(preEnqueue=[a]))
        before = [("nodes", node("n1"))]
        async with scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered) as c:
            await c.pods(pod())
            assert held(c, "A")
            assert c.api.calls == []
            assert await c.events("web") == []
