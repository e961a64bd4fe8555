"""Several profiles in one scheduler share the queue and the cluster; each has its own plugins."""

import pytest

from stowplan.scheduler.framework.events import NODE, Action
from stowplan.scheduler.framework.events import on as registered
from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking, attempts, labelled, moves, on
from support.scheduling.preempting import CLASSES, nodes, pods

NO = (unschedulable("no"), 0.0)


def of(scheduler, name="web", **spec):
    return pod(name, schedulerName=scheduler, **spec)


def with_args(profile, plugin, **args):
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {**profile, "pluginConfig": [{"name": plugin, "args": {**kind, **args}}]}


async def test_profiles_choose_differently(api_server, namespace):
    """Pods that one profile places count for the other."""
    packing = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    config = configuration(
        profile(without={"score": ["NodeResourcesBalancedAllocation"]}),
        with_args(
            profile("packing", without={"score": ["NodeResourcesBalancedAllocation"]}),
            "NodeResourcesFit",
            scoringStrategy=packing,
        ),
    )
    before = [*nodes(node("n1"), node("n2")), *pods(on("n1", asking(pod("there"), cpu="1")))]
    async with scheduled(api_server, namespace, config=config, before=before) as c:
        await c.pods(asking(of("packing", "one"), cpu="1"))
        await c.pods(asking(of("default-scheduler", "two"), cpu="1"))
        await c.pods(asking(of("packing", "three"), cpu="2"))
        assert [await c.node_of(name) for name in ("one", "two", "three")] == ["n1", "n2", "n1"]
        # n1 is full, so both profiles choose the same.
        await c.pods(asking(of("packing", "four"), cpu="1"), asking(of("default-scheduler", "five"), cpu="3"))
        assert [await c.node_of(name) for name in ("four", "five")] == ["n2", ""]


async def test_profiles_have_different_plugins(api_server, namespace):
    config = configuration(profile(), profile("bold", without={"filter": ["TaintToleration"]}))
    tainted = node("n1", taints=[{"key": "t", "effect": "NoSchedule"}])
    async with scheduled(api_server, namespace, config=config, before=nodes(tainted)) as c:
        await c.pods(of("default-scheduler", "careful"), of("bold", "bold"))
        assert (await c.node_of("careful"), await c.node_of("bold")) == ("", "n1")


async def test_profiles_have_different_args(api_server, namespace):
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    config = configuration(with_args(profile("gpu"), "NodeAffinity", addedAffinity=affinity), profile())
    async with scheduled(api_server, namespace, config=config, before=nodes(node("n1"))) as c:
        await c.pods(of("gpu", "one"), of("default-scheduler", "two"))
        assert (await c.node_of("one"), await c.node_of("two")) == ("", "n1")
        text = "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity. "
        assert (await c.condition("one"))["message"].startswith(text)
        await c.nodes(labelled(node("n2"), gpu="yes"))
        assert await c.node_of("one") == "n2"


@pytest.mark.parametrize("name", ["first", "second"])
async def test_events_name_their_profile(api_server, namespace, name):
    config = configuration(profile("first"), profile("second"))
    async with scheduled(api_server, namespace, config=config, before=nodes(node("n1"))) as c:
        await c.pods(of(name), asking(of(name, "large"), cpu="64"))
        for pod_name, reason in (("web", "Scheduled"), ("large", "FailedScheduling")):
            (event,) = await c.events(pod_name)
            assert event["reason"] == reason
            assert (event["reportingController"], event["reportingInstance"]) == (name, f"{name}-host")


async def test_pods_of_other_schedulers(api_server, namespace):
    """Ignored until another scheduler binds them; then they use resources like any pod, until they are deleted."""
    async with scheduled(api_server, namespace, before=nodes(node("n1"))) as c:
        await c.pods(asking(of("nobody", "foreign"), cpu="3"))
        assert (c.place("foreign"), await c.events("foreign"), await c.condition("foreign")) == ("", [], None)
        await c.objects.bind("foreign", "n1")
        await c.settle()
        await c.pods(asking(pod(), cpu="2"))
        assert c.place("web") == "UNSCHEDULABLE"
        await c.objects.delete("pods", "foreign")
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert moves(c, "web")[-1] == ("backoff", "AssignedPodDelete")


async def test_an_event_wakes_only_pods_whose_profile_waits_for_it(api_server, namespace):
    """The same plugin refused both pods, but one profile's args make it wait for another event."""
    a = answering("A", permit=NO, wakes=[registered(NODE, Action.Add)])
    b = answering("B", permit=NO, wakes=[registered(NODE, Action.UpdateNodeLabel)])
    config = configuration(profile("first", permit=[a]), profile("second", permit=[b]))
    before = [*nodes(node("n1")), *pods(of("first", "one"), of("second", "two"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=before) as c:
        await c.nodes(node("n2"))
        assert (len(attempts(c, "one")), len(attempts(c, "two"))) == (2, 1)
        await c.objects.patch("nodes", "n1", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert (len(attempts(c, "one")), len(attempts(c, "two"))) == (2, 2)


async def test_profiles_share_one_queue(api_server, namespace):
    """Ordered by priority across profiles."""
    config = configuration(profile("first"), profile("second"))
    waiting = [
        of("first", "a"),
        of("second", "b", priorityClassName="most"),
        of("first", "c", priorityClassName="more"),
        of("second", "d", priorityClassName="some"),
    ]
    before = [*CLASSES, *nodes(node("n1")), *pods(*waiting)]
    async with scheduled(api_server, namespace, config=config, before=before) as c:
        decided = [decision.key.split("/")[1] for decision in c.scheduler.stories.last_decisions(10)]
        assert sorted(decided) == ["a", "b", "c", "d"]
        assert decided in (["b", "c", "d", "a"], ["a", "d", "c", "b"])
        assert len({(await c.pod(name))["spec"]["nodeName"] for name in "abcd"}) == 1
