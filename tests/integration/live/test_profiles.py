"""Several profiles in one scheduler share the queue and the cluster; each has its own plugins."""

from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.attempts import asking, labelled, on
from support.scheduling.preempting import CLASSES, nodes, pods


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
