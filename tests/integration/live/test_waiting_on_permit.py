"""Pods that wait on Permit until they are allowed, rejected, timed out, deleted, or preempted."""

import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
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
        pytest.param(0.5, "500ms", id="500ms"),
        pytest.param(90.0, "1m30s", id="1m30s"),
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


async def test_all_plugins_must_allow_it(api_server, namespace):
    a, b = waits("A", 10.0), waits("B", 5.0)
    async with waiting(api_server, namespace, a, b) as c:
        await c.pods(pod("web"))
        assert waiting_pod(c).pending_plugins == ("A", "B")
        await c.advance(4.0)
        waiting_pod(c).allow("B")
        await c.settle()
        # B's timeout would have expired by now.
        await c.advance(2.0)
        assert waiting_pod(c).pending_plugins == ("A",)
        waiting_pod(c).allow("A")
        await c.settle()
        assert await c.node_of("web") == "n1"


@pytest.mark.parametrize(("allowed", "late"), [((), ("B", "5s")), (("B",), ("A", "10s"))], ids=["earliest", "left"])
async def test_the_earliest_timeout_counts(api_server, namespace, allowed, late):
    async with waiting(api_server, namespace, waits("A", 10.0), waits("B", 5.0)) as c:
        await c.pods(pod("web"))
        for name in allowed:
            waiting_pod(c).allow(name)
        plugin, shown = late
        await c.advance(10.0 if allowed else 5.0)
        text = f"rejected due to timeout after waiting {shown} at plugin {plugin}"
        assert (await c.condition("web"))["message"] == f"0/1 nodes are available: 1 {text}."
        assert c.queued("web").unschedulable_plugins == {plugin}


async def test_one_rejection_ends_the_wait_of_all_plugins(api_server, namespace):
    b = answering("B", permit=(unschedulable("no"), 0.0))
    async with waiting(api_server, namespace, waits("A", 10.0), b) as c:
        await c.pods(pod("web"))
        assert not len(c.scheduler.waiting_pods)
        assert (await c.condition("web"))["message"] == "0/1 nodes are available: 1 no."
        assert c.queued("web").unschedulable_plugins == {"B"}


async def test_other_pods_are_scheduled_while_one_waits(api_server, namespace):
    """A waiting pod only keeps its resources."""
    only_web = lambda state, pod, node: (WAIT, 10.0) if pod.pod.metadata.name == "web" else (None, 0.0)  # noqa: E731
    async with waiting(api_server, namespace, answering("A", permit=only_web)) as c:
        await c.pods(pod("web"), pod("other"))
        assert await c.node_of("other") == "n1"
        assert [p.pod.pod.metadata.name for p in c.scheduler.waiting_pods] == ["web"]
        assert len(c.scheduler.state.placed_pods()) == 2


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


async def test_a_deletion_with_finalizers_while_waiting(api_server, namespace):
    """With a finalizer the pod stays for a while; the wait goes on until it is gone."""
    async with waiting(api_server, namespace, waits("A", 10.0)) as c:
        kept = pod("web")
        kept["metadata"]["finalizers"] = ["example.com/kept"]
        await c.pods(kept)
        await c.objects.delete("pods", "web")
        await c.settle()
        assert (c.place("web"), c.queued("web").unschedulable_plugins) == ("UNSCHEDULABLE", {""})
        assert nothing_in_flight(c)
        await c.advance(20.0)
        assert [e["note"] for e in await c.events("web")] == ["0/1 nodes are available: 1 removed."]
        await c.objects.patch("pods", "web", {"metadata": {"finalizers": None}})
        await c.settle()
        assert c.place("web") == ""


async def test_an_event_during_the_wait_counts_after_rejection(api_server, namespace):
    """A node is added while the pod waits, which is the event that the rejecting plugin registered for."""
    a = waits("A", 10.0, wakes=[on(NODE, Action.Add)])
    async with waiting(api_server, namespace, a) as c:
        await c.pods(pod("web"))
        await c.nodes(node("n2"))
        a.answers["permit"] = None, 0.0
        waiting_pod(c).reject("A", "not on this one")
        await c.settle()
        # The queue is otherwise empty, so the pod may be popped at once.
        assert await c.node_of("web")
        assert [e["reason"] for e in await c.events("web")] == ["FailedScheduling", "Scheduled"]


async def test_an_unregistered_event_during_the_wait_does_not_count(api_server, namespace):
    a = waits("A", 10.0, wakes=[on(NODE, Action.UpdateNodeLabel)])
    async with waiting(api_server, namespace, a) as c:
        await c.pods(pod("web"))
        await c.nodes(node("n2"))
        waiting_pod(c).reject("A", "not on this one")
        await c.settle()
        assert c.place("web") == "UNSCHEDULABLE"


async def test_a_preflight_that_fails_ends_the_wait(api_server, namespace):
    a = waits("A", 10.0, pre_bind_pre_flight=error("bad"))
    config = configuration(profile(permit=[a], preBind=[a]))
    async with waiting(api_server, namespace, a, config=config) as c:
        await c.pods(pod("web"))
        assert c.place("web") == "ERROR_BACKOFF"
        assert (await c.condition("web"))["message"] == 'running PreBindPreFlight "A": bad'
        assert nothing_in_flight(c)
        assert c.api.status_patches("web")[0]["status"].keys() == {"conditions"}


async def test_a_failed_nomination_patch_does_not_end_the_wait(api_server, namespace):
    def wrap(api):
        api = Tampered(api)
        api.instead["patch"] = raising(Forbidden("you may not"), times=1)
        return api

    async with waiting(api_server, namespace, waits("A", 10.0), wrap=wrap) as c:
        await c.pods(pod("web"))
        waiting_pod(c).allow("A")
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert c.api.verbs("web") == ["patch", "bind"]


async def test_a_pod_may_be_allowed_before_its_nomination_is_written(api_server, namespace):
    async with waiting(api_server, namespace, waits("A", 10.0)) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        waiting_pod(c).allow("A")
        held.let_go()
        await c.settle()
        assert c.api.verbs("web") == ["patch", "bind"]
        assert nothing_in_flight(c)
