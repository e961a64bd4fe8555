"""Pods gated before their first attempt: by their scheduling gates, and by a plugin's PreEnqueue."""

from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import attempts, moves

OPENED = "TargetPodUpdatePodSchedulingGatesEliminated"
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
        assert moves(c, "web") == [("unschedulable", "UnscheduledPodAdd")]

        # Nothing else opens a gate: neither changes of the pod or the cluster, nor time.
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.objects.patch("pods", "web", gates("b"))
        await c.nodes(node("n2"))
        await c.pods(pod("other"))
        await c.objects.delete("pods", "other")
        await c.advance(700)
        assert held(c)
        assert moves(c, "web") == [("unschedulable", "UnscheduledPodAdd")]
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
