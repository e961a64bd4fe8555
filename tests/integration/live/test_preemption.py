"""Preemption as the API sees it: the writes to victims and the preemptor, and budgets.

Which victims and nodes are chosen: test_default_preemption of the engine, tests/golden.
"""

import pytest

from support.api.manifests import budget, node
from support.api.tampered_api import Held, Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.attempts import attempts, labelled, moves
from support.scheduling.failed_attempts import condition_time, is_now
from support.scheduling.preempting import CLASSES, leaving, nodes, nominated_node, pending_pod, placed, pods

FULL = [*CLASSES, *nodes(node("n1"))]


def running(server, namespace, *more, **options):
    return scheduled(server, namespace, before=[*FULL, *more], wrap=Tampered, **options)


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


async def test_the_last_victim_is_deleted_after_all_others(api_server, namespace):
    victims = pods(*(placed(f"v{i}", "1", priority="some" if i == 0 else "") for i in range(3)))
    async with running(api_server, namespace, *victims) as c:
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


@pytest.mark.parametrize(("allowed", "expected"), [(0, ("n2", {"b"})), (1, ("n1", {"a"}))])
async def test_disruption_budgets(api_server, namespace, allowed, expected):
    """The victim on n2 is the worse choice if there were no budgets."""
    guarded = labelled(placed("a"), guarded="yes")
    there = pods(guarded, placed("b", node_name="n2", priority="some"))
    async with running(api_server, namespace, *nodes(node("n2")), *there) as c:
        await c.create("poddisruptionbudgets", budget("guard", labels={"guarded": "yes"}, minAvailable=1))
        # As its controller would set it.
        counts = {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1}
        status = {"disruptionsAllowed": allowed, **counts}
        await c.objects.patch("poddisruptionbudgets", "guard", {"status": status}, subresource="status")
        await c.settle()
        await c.pods(pending_pod())
        assert (await nominated_node(c), await leaving(c, "a", "b")) == expected


async def test_min_candidate_nodes_limits_the_search(api_server, namespace):
    """With minCandidateNodes of one, the first candidate that violates no budget is taken."""
    args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}
    config = configuration({**profile(), "pluginConfig": [{"name": "DefaultPreemption", "args": args}]})
    numbers = range(1, 6)
    there = [*nodes(*(node(f"n{i}") for i in numbers)), *pods(*(placed(f"v{i}", node_name=f"n{i}") for i in numbers))]
    async with scheduled(api_server, namespace, config=config, before=[*CLASSES, *there]) as c:
        await c.pods(pending_pod())
        chosen = await nominated_node(c)
        assert await leaving(c, *(f"v{i}" for i in numbers)) == {f"v{chosen[1:]}"}
