"""Which victims and which node preemption chooses: budgets, priorities, counts, start times."""

import pytest

from support.api.manifests import budget, node
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.attempts import labelled
from support.scheduling.preempting import CLASSES, leaving, nodes, nominated_node, pending_pod, placed, pods

EARLY, LATE = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2))
TWO = [*CLASSES, *nodes(node("n1"), node("n2"))]


def allowing(disruptions, name="guard", **selector):
    """A budget with the status that its controller would set."""
    made = budget(name, labels={"guarded": "yes"}, minAvailable=1)
    if selector:
        made["spec"]["selector"] = selector
    status = {
        "disruptionsAllowed": disruptions,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
    }
    return made, status


def guarded(name, *args, **more):
    return labelled(placed(name, *args, **more), guarded="yes")


async def node_and_victims(server, namespace, before, budgets=(), web=None, everybody=()):
    """The nominated node, and the victims."""
    async with scheduled(server, namespace, before=before) as c:
        for made, status in budgets:
            await c.create("poddisruptionbudgets", made)
            name = made["metadata"]["name"]
            await c.objects.patch("poddisruptionbudgets", name, {"status": status}, subresource="status")
        await c.settle()
        await c.pods(web or pending_pod())
        return await nominated_node(c), await leaving(c, *everybody)


#: The worse choice if there were no budgets.
ELSEWHERE = placed("b", node_name="n2", priority="some")

BUDGETS = [
    pytest.param([guarded("a"), ELSEWHERE], [allowing(0)], ("n2", {"b"}), id="guarded pods are avoided"),
    pytest.param(
        [guarded("a"), ELSEWHERE],
        [allowing(1)],
        ("n1", {"a"}),
        id="one disruption allowed",
    ),
]


@pytest.mark.parametrize(("there", "budgets", "expected"), BUDGETS)
async def test_disruption_budgets(api_server, namespace, there, budgets, expected):
    everybody = [p["metadata"]["name"] for p in there]
    assert (
        await node_and_victims(api_server, namespace, [*TWO, *pods(*there)], budgets, everybody=everybody) == expected
    )


async def test_pods_in_disrupted_pods_do_not_use_up_the_budget(api_server, namespace):
    """Its eviction has already used up its disruption."""
    made, status = allowing(0)
    status["disruptedPods"] = {"a": EARLY}
    before = [*TWO, *pods(guarded("a"), placed("b", node_name="n2", priority="some"))]
    assert await node_and_victims(api_server, namespace, before, [(made, status)], everybody="ab") == ("n1", {"a"})


CHOICES = [
    pytest.param(
        [placed("a", started=EARLY), placed("b", node_name="n2", started=LATE)], ("n2", {"b"}), id="latest start"
    ),
]


@pytest.mark.parametrize(("there", "expected"), CHOICES)
async def test_choice_of_the_node(api_server, namespace, there, expected):
    everybody = [p["metadata"]["name"] for p in there]
    for before in (there, there[::-1]):
        found = await node_and_victims(
            api_server, namespace, [*TWO, *pods(*before)], web=pending_pod(), everybody=everybody
        )
        assert found == expected


async def test_nominated_resources_are_not_free(api_server, namespace):
    """A node freed for one pod is not offered to the next."""
    before = [*TWO, *pods(placed("a"), placed("b", node_name="n2", priority="some"))]
    async with scheduled(api_server, namespace, before=before) as c:
        await c.pods(pending_pod("first"))
        await c.pods(pending_pod("second"))
        assert (await nominated_node(c, "first"), await nominated_node(c, "second")) == ("n1", "n2")
        assert await leaving(c, "a", "b") == {"a", "b"}
        await c.pods(pending_pod("third"))
        assert await nominated_node(c, "third") == ""
        for name in "ab":
            await c.objects.delete("pods", name)
        await c.settle()
        placed_on = {name: await c.node_of(name) for name in ("first", "second", "third")}
        assert placed_on == {"first": "n1", "second": "n2", "third": ""}


async def test_min_candidate_nodes_limits_the_search(api_server, namespace):
    """With minCandidateNodes of one, the first candidate that violates no budget is taken."""
    args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}
    config = configuration({**profile(), "pluginConfig": [{"name": "DefaultPreemption", "args": args}]})
    small = [node(f"n{i}") for i in range(1, 6)]
    there = [placed(f"v{i}", node_name=f"n{i}") for i in range(1, 6)]
    async with scheduled(api_server, namespace, config=config, before=[*CLASSES, *nodes(*small), *pods(*there)]) as c:
        await c.pods(pending_pod())
        names = [f"v{i}" for i in range(1, 6)]
        chosen = await nominated_node(c)
        assert await leaving(c, *names) == {f"v{chosen[1:]}"}
