"""Preemption as the API sees it: the writes to victims, the preemptor and other pods, and their order."""

import pytest

from support.api.manifests import node
from support.api.tampered_api import Held, Tampered
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import attempts, moves, sized
from support.scheduling.failed_attempts import condition_time, is_now
from support.scheduling.preempting import CLASSES, leaving, nodes, nominated_node, pending_pod, placed, pods

NO_CLAIMS = "no new claims to deallocate, preemption: "
TERMINATING = "not eligible due to a terminating pod on the nominated node."
FULL = [*CLASSES, *nodes(node("n1"))]


def tainted(name):
    return node(name, taints=[{"key": "t", "effect": "NoSchedule"}])


def running(server, namespace, *more, **options):
    return scheduled(server, namespace, before=[*FULL, *more], wrap=Tampered, **options)


async def message(c, name="web"):
    return (await c.condition(name))["message"]


# -- one victim -------------------------------------------------------------------------------------------------------


async def test_what_is_written_to_a_victim(api_server, namespace):
    async with running(api_server, namespace, *pods(placed("victim"))) as c:
        before = c.objects.made("pods", "victim")
        await c.pods(pending_pod())
        preemptor = c.objects.made("pods", "web")["metadata"]

        assert await c.condition("victim", "DisruptionTarget") == {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
            "observedGeneration": before["metadata"]["generation"],
            "lastProbeTime": None,
            "lastTransitionTime": condition_time(c),
        }
        found = await c.pod("victim")
        # The victim's own grace period applies.
        assert found["metadata"]["deletionGracePeriodSeconds"] == 30
        assert c.api.verbs("victim") == ["patch", "delete"]
        (deletion,) = [call for call in c.api.calls if call.verb == "delete"]
        assert "grace_period_seconds" not in deletion.options

        (event,) = await c.events("victim")
        regarding, related = event["regarding"], event["related"]
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Preempted", "Preempting")
        assert event["note"] == f"Preempted by pod {preemptor['uid']} on node n1"
        assert (regarding["kind"], regarding["namespace"], regarding["name"]) == ("Pod", namespace, "victim")
        assert regarding["uid"] == before["metadata"]["uid"]
        assert (related["kind"], related["name"], related["uid"]) == ("Pod", "web", preemptor["uid"])
        assert event["reportingController"] == "default-scheduler"
        assert event["reportingInstance"] == "default-scheduler-host"
        assert is_now(c, event["eventTime"])
        assert not event.get("series")


async def test_what_is_written_to_the_preemptor(api_server, namespace):
    """It waits with its nomination until the victim is gone."""
    async with running(api_server, namespace, *pods(placed("victim"))) as c:
        await c.pods(pending_pod())
        condition = await c.condition("web")
        assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
        assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert [e["note"] for e in await c.events("web")] == [condition["message"]]
        (body,) = c.api.status_patches("web")
        assert body["status"]["nominatedNodeName"] == "n1"
        assert await nominated_node(c) == "n1"
        assert (c.place("web"), c.queued("web").unschedulable_plugins) == ("UNSCHEDULABLE", {"NodeResourcesFit"})
        # The deletionTimestamp of its victim does not wake it.
        assert len(attempts(c, "web")) == 1

        await c.objects.delete("pods", "victim")
        await c.settle()
        assert moves(c, "web")[-1] == ("backoff", "AssignedPodDelete")
        found = await c.pod("web")
        assert (found["spec"]["nodeName"], found["status"].get("nominatedNodeName", "")) == ("n1", "")
        assert not c.scheduler.state.nominator
        assert c.api.verbs("web") == ["patch", "bind"]
        assert [e["reason"] for e in await c.events("web")] == ["FailedScheduling", "Scheduled"]


async def test_terminating_victims_are_waited_for(api_server, namespace):
    """No further victims are chosen meanwhile, and the nomination stays."""
    more = [*nodes(node("n2")), *pods(placed("victim"), placed("other", node_name="n2", priority="some"))]
    async with running(api_server, namespace, *more) as c:
        await c.pods(pending_pod())
        assert await leaving(c, "victim", "other") == {"victim"}
        await c.nodes(tainted("n3"))
        assert len(attempts(c, "web")) == 2
        text = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        assert await message(c) == f"{text}{NO_CLAIMS}{TERMINATING}"
        assert await nominated_node(c) == "n1"
        assert await leaving(c, "victim", "other") == {"victim"}
        assert c.api.verbs("other") == []


async def test_a_nomination_of_a_node_that_no_longer_fits(api_server, namespace):
    """The nominated node got a taint: the pod preempts on another node although its victim on the first still
    terminates."""
    more = [*nodes(node("n2")), *pods(placed("victim"), placed("other", node_name="n2", priority="some"))]
    async with running(api_server, namespace, *more) as c:
        await c.pods(pending_pod())
        taint = {"key": "t", "effect": "NoSchedule"}
        await c.objects.patch("nodes", "n1", {"spec": {"taints": [taint]}})
        await c.settle()
        assert await nominated_node(c) == "n2"
        assert await leaving(c, "victim", "other") == {"victim", "other"}
        text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        # Losing n1 may have caused one more attempt before its next victim terminated.
        assert await message(c) in (text, f"{text} {NO_CLAIMS}{TERMINATING}")


# -- pods that may not preempt -----------------------------------------------------------------------------------------


async def test_a_non_preempting_pod_keeps_its_nomination(api_server, namespace):
    """With preemptionPolicy Never there are no victims, and an existing nomination is kept."""
    polite = {**pending_pod(priority="polite"), "status": {"nominatedNodeName": "n1"}}
    async with running(api_server, namespace, *pods(placed("victim"), polite)) as c:
        text = f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS}not eligible due to preemptionPolicy=Never."
        assert await message(c) == text
        assert await nominated_node(c) == "n1"
        assert c.api.verbs("victim") == []
        assert all("nominatedNodeName" not in body["status"] for body in c.api.status_patches("web"))


@pytest.mark.parametrize(
    ("there", "cpu", "tail"),
    [
        pytest.param(
            [placed("equal", priority="most")],
            "3",
            "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
            id="equals",
        ),
    ],
)
async def test_no_candidates(api_server, namespace, there, cpu, tail):
    """An earlier nomination is removed."""
    web = {**pending_pod(cpu=cpu), "status": {"nominatedNodeName": "n1"}}
    async with running(api_server, namespace, *nodes(tainted("n2")), *pods(*there, web)) as c:
        text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        assert await message(c) == f"{text} {NO_CLAIMS}0/2 nodes are available: {tail}"
        assert await nominated_node(c) == ""
        assert await leaving(c, *(p["metadata"]["name"] for p in there)) == set()


# -- several victims ---------------------------------------------------------------------------------------------------


def three_victims():
    return pods(*(placed(f"v{i}", "1", priority="some" if i == 0 else "") for i in range(3)))


async def test_the_last_victim_is_deleted_after_all_others(api_server, namespace):
    async with running(api_server, namespace, *three_victims()) as c:
        slow = c.api.instead["delete"] = _SlowFor("v0")
        await c.objects.create("pods", pending_pod(cpu="4"))
        await slow.waiting.wait()
        await c.until(lambda: len([call for call in c.api.calls if call.verb == "delete"]) == 2)
        # The least important victim is not deleted before the others are done.
        names = [call.name for call in c.api.calls if call.verb == "delete"]
        (last,) = {"v1", "v2"} - set(names)
        assert c.api.verbs(last) == []
        slow.let_go()
        await c.settle()
        assert await leaving(c, "v0", "v1", "v2") == {"v0", "v1", "v2"}
        assert [call.name for call in c.api.calls if call.verb == "delete"][-1] == last
        assert len(await c.events(reason="Preempted")) == 3


class _SlowFor(Held):
    def __init__(self, name):
        super().__init__()
        self._name = name

    async def __call__(self, call, go_on):
        return await (super().__call__(call, go_on) if call.name == self._name else go_on())


# -- while the evictions run -------------------------------------------------------------------------------------------


async def test_the_preemptor_is_gated_during_evictions(api_server, namespace):
    """The preemptor is not tried while its victims are being evicted; afterwards only deletions of
    pods open its gate."""
    async with running(api_server, namespace, *pods(placed("victim"))) as c:
        held = c.api.instead["delete"] = Held()
        await c.objects.create("pods", pending_pod())
        await held.waiting.wait()
        await c.objects.create("nodes", node("n2"))
        await c.until(lambda: c.queued("web").gating_plugin == "DefaultPreemption")
        assert (c.place("web"), len(attempts(c, "web"))) == ("UNSCHEDULABLE", 1)
        assert c.scheduler.queue.counts()["gated"] == 1
        held.let_go()
        await c.settle()
        # Its PreEnqueue only registers for deletions of pods.
        await c.nodes(node("n3"))
        assert (c.queued("web").gating_plugin, len(attempts(c, "web"))) == ("DefaultPreemption", 1)
        await c.objects.delete("pods", "victim")
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert len(attempts(c, "web")) == 2


async def test_a_victim_that_is_already_gone(api_server, namespace):
    """Its failed deletion is not reported, and the pod is scheduled."""
    async with running(api_server, namespace, *pods(placed("victim"))) as c:

        async def late(call, go_on):
            await c.objects.delete("pods", "victim")
            return await go_on()

        c.api.instead["delete"] = late
        await c.pods(pending_pod())
        await c.until(lambda: c.node_of("web"))
        assert await c.events("victim") == []


# -- lower-priority nominations ----------------------------------------------------------------------------------------


async def test_lower_priority_nominations_are_removed(api_server, namespace):
    big = nodes(sized(node("n2"), cpu="8"))
    there = pods(placed("first", node_name="n2"), placed("second", node_name="n2", priority="some"))
    async with running(api_server, namespace, *big, *there, *pods(placed("rest", "4", priority="most"))) as c:
        await c.pods(pending_pod("lesser", "4", "more"))
        assert await nominated_node(c, "lesser") == "n2"
        assert await leaving(c, "first", "second") == {"first"}
        await c.pods(pending_pod("web", "7"))
        assert await leaving(c, "first", "second") == {"first", "second"}
        assert await nominated_node(c, "web") == "n2"
        assert await nominated_node(c, "lesser") == ""
        # First, before any eviction: pods nominated to the node no longer wait for it.
        order = [(call.name, call.body) for call in c.api.calls if call.name in ("lesser", "second")]
        names = [name for name, _ in order]
        assert order.index(("lesser", {"status": {"nominatedNodeName": None}})) < names.index("second")
        for name in ("first", "second"):
            await c.objects.delete("pods", name)
        await c.settle()
        assert (await c.node_of("web"), await c.node_of("lesser")) == ("n2", "")


# -- profiles ----------------------------------------------------------------------------------------------------------
