"""Pods that wait on Permit until they are allowed, rejected, timed out, deleted, or preempted."""

import pytest

from stowplan.scheduler.framework.status import Code, Status
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import check, nothing_in_flight, rejected

WAIT = Status(Code.Wait)


def waits(name, seconds, **more):
    return answering(name, permit=(WAIT, seconds), **more)


def waiting(api_server, namespace, *plugins, before=("n1",), **options):
    """A scheduler whose profile has the plugins at Permit, on a cluster with nodes."""
    nodes = [("nodes", node(name)) for name in before]
    config = configuration(profile(permit=plugins))
    options = {"config": config, "plugins": plugins, "wrap": Tampered, **options}
    return scheduled(api_server, namespace, before=nodes, **options)


def waiting_pod(c):
    (found,) = c.scheduler.waiting_pods
    return found


async def test_a_pod_that_is_allowed_is_bound(api_server, namespace):
    a = waits("A", 10.0)
    async with waiting(api_server, namespace, a) as c:
        await c.pods(pod("web"))
        assert waiting_pod(c).pending_plugins == ("A",)
        uid = waiting_pod(c).uid
        assert c.scheduler.state.is_assumed(uid)
        assert c.scheduler.queue.is_in_flight(uid)
        assert c.place("web") == ""
        assert (await c.pod("web"))["status"]["nominatedNodeName"] == "n1"
        waiting_pod(c).allow("A")
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert nothing_in_flight(c)
        # The nomination is written when the wait starts; nothing is written afterwards.
        assert c.api.status_patches("web") == [{"status": {"nominatedNodeName": "n1"}}]
        assert [e["reason"] for e in await c.events("web")] == ["Scheduled"]
        assert c.api.verbs("web") == ["patch", "bind"]


async def test_a_pod_that_is_rejected(api_server, namespace):
    a = waits("A", 10.0)
    log = a.log
    config = configuration(profile(permit=[a], reserve=[a]))
    async with waiting(api_server, namespace, a, config=config) as c:
        await c.pods(pod("web"))
        held = waiting_pod(c)
        assert held.reject("A", "not today")
        assert not held.reject("A", "the first word counts")
        held.allow("A")
        await c.settle()
        expected = rejected("0/1 nodes are available: 1 not today.", "A", announced=True)
        await check(c, "web", c.objects.made("pods", "web"), expected)
        assert log == ["A.reserve", "A.permit", "A.unreserve"]
        assert nothing_in_flight(c)
        assert c.api.status_patches("web")[1]["status"]["nominatedNodeName"] is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(10.0, "10s", id="10s"),
        pytest.param(3600.0, "15m0s", id="never-more-than-15m"),
    ],
)
async def test_a_pod_that_times_out(api_server, namespace, seconds, shown):
    async with waiting(api_server, namespace, waits("A", seconds)) as c:
        await c.pods(pod("web"))
        limit = min(seconds, 900.0)
        await c.advance(limit - 0.1)
        assert waiting_pod(c).decision is None
        await c.advance(0.1)
        message = f"0/1 nodes are available: 1 rejected due to timeout after waiting {shown} at plugin A."
        assert (await c.condition("web"))["message"] == message
        assert [e["note"] for e in await c.events("web")] == [message]
        assert c.place("web") == "UNSCHEDULABLE"
        assert c.queued("web").unschedulable_plugins == {"A"}
        assert (await c.pod("web"))["status"].get("nominatedNodeName") is None
        assert nothing_in_flight(c)


async def test_deletion_while_waiting(api_server, namespace):
    async with waiting(api_server, namespace, waits("A", 10.0)) as c:
        await c.pods(pod("web"))
        await c.objects.delete("pods", "web")
        await c.settle()
        assert c.place("web") == ""
        assert nothing_in_flight(c)
        assert not c.scheduler.state.placed_pods()
        (event,) = await c.events("web")
        assert (event["reason"], event["note"]) == ("FailedScheduling", "0/1 nodes are available: 1 removed.")
        assert event["regarding"]["uid"] == c.objects.made("pods", "web")["metadata"]["uid"]
        await c.advance(20.0)
        # Servers may send an update with deletionTimestamp before the deletion, so the pod may get events at its end.
        assert "bind" not in c.api.verbs("web")
