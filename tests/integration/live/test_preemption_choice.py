"""Whom preemption makes leave, and where: budgets, priorities, numbers, starts."""

import pytest

from support.api.manifests import budget, node
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.attempts import labelled, sized
from support.scheduling.preempting import CLASSES, leaving, nodes, nominated_node, pending_pod, placed, pods

EARLY, LATE, LATEST = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))
TWO = [*CLASSES, *nodes(node("n1"), node("n2"))]


def allowing(disruptions, name="guard", **selector):
    """A budget as its controller would leave it."""
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


async def preempted(server, namespace, before, budgets=(), web=None, everybody=()):
    """Who leaves, and for which node."""
    async with scheduled(server, namespace, before=before) as c:
        for made, status in budgets:
            await c.create("poddisruptionbudgets", made)
            name = made["metadata"]["name"]
            await c.objects.patch("poddisruptionbudgets", name, {"status": status}, subresource="status")
        await c.settle()
        await c.pods(web or pending_pod())
        return await nominated_node(c), await leaving(c, *everybody)


#: Would be the worse choice but for budgets.
ELSEWHERE = placed("b", node_name="n2", priority="some")

BUDGETS = [
    pytest.param([guarded("a"), ELSEWHERE], [allowing(0)], ("n2", {"b"}), id="avoided"),
    pytest.param([guarded("a"), ELSEWHERE], [], ("n1", {"a"}), id="no budget"),
    pytest.param(
        [guarded("a"), ELSEWHERE],
        [allowing(1)],
        ("n1", {"a"}),
        id="one may go",
    ),
    pytest.param(
        [guarded("a"), guarded("b", node_name="n2", priority="some")],
        [allowing(0)],
        ("n1", {"a"}),
        id="violated everywhere",
    ),
    pytest.param(
        [guarded("a"), placed("b", node_name="n2", priority="most")],
        [allowing(0)],
        ("n1", {"a"}),
        id="violated when there is no other way",
    ),
    pytest.param(
        [guarded("a", "1500m"), guarded("c", "1500m"), ELSEWHERE],
        [allowing(1)],
        ("n2", {"b"}),
        id="one of two may go",
    ),
    pytest.param(
        [guarded("a", "1500m"), guarded("c", "1500m"), ELSEWHERE],
        [allowing(2)],
        ("n1", {"a", "c"}),
        id="two of two may go",
    ),
    pytest.param(
        [guarded("a"), ELSEWHERE],
        [allowing(5), allowing(0, "another")],
        ("n2", {"b"}),
        id="the strictest counts",
    ),
    pytest.param(
        [guarded("a"), ELSEWHERE],
        [allowing(0, matchLabels={"guarded": "no"})],
        ("n1", {"a"}),
        id="somebody else's",
    ),
    pytest.param(
        [guarded("a", "2"), placed("c", "2", priority="some"), placed("b", "4", "n2", "most")],
        [allowing(0)],
        ("n1", {"a", "c"}),
        id="both are needed",
    ),
]


@pytest.mark.parametrize(("there", "budgets", "expected"), BUDGETS)
async def test_budgets(api_server, namespace, there, budgets, expected):
    everybody = [p["metadata"]["name"] for p in there]
    assert await preempted(api_server, namespace, [*TWO, *pods(*there)], budgets, everybody=everybody) == expected


async def test_on_one_node_who_is_guarded_stays(api_server, namespace):
    """Even if it is the less important one."""
    before = [*CLASSES, *nodes(node("n1")), *pods(guarded("a", "2"), placed("b", "2", priority="some"))]
    web = pending_pod(cpu="2")
    assert await preempted(api_server, namespace, before, [allowing(0)], web, "ab") == ("n1", {"b"})


async def test_a_pod_that_is_known_to_go_uses_up_nothing(api_server, namespace):
    """Who is told to go by an eviction is counted there already."""
    made, status = allowing(0)
    status["disruptedPods"] = {"a": EARLY}
    before = [*TWO, *pods(guarded("a"), placed("b", node_name="n2", priority="some"))]
    assert await preempted(api_server, namespace, before, [(made, status)], everybody="ab") == ("n1", {"a"})


CHOICES = [
    pytest.param(
        [placed("a", "2", priority="some"), placed("b", "2"), placed("c", node_name="n2")],
        ("n2", {"c"}),
        id="the most important victim is the least important one",
    ),
    pytest.param(
        [
            placed("a", "2", priority="some"),
            placed("b", "2", priority="some"),
            placed("c", "2", "n2", "some"),
            placed("d", "2", "n2"),
        ],
        ("n2", {"c", "d"}),
        id="the sum of priorities",
    ),
    pytest.param([placed("a", "2"), placed("b", "2"), placed("c", "3", "n2")], ("n2", {"c"}), id="the fewest victims"),
    pytest.param(
        [placed("a", started=EARLY), placed("b", node_name="n2", started=LATE)], ("n2", {"b"}), id="the latest start"
    ),
    pytest.param(
        [
            placed("a", "2", started=EARLY),
            placed("b", "2", started=LATEST),
            placed("c", "2", "n2", started=LATE),
            placed("d", "2", "n2", started=LATE),
        ],
        ("n2", {"c", "d"}),
        id="of the earliest starts the latest",
    ),
]


@pytest.mark.parametrize(("there", "expected"), CHOICES)
async def test_nodes(api_server, namespace, there, expected):
    everybody = [p["metadata"]["name"] for p in there]
    for before in (there, there[::-1]):
        found = await preempted(api_server, namespace, [*TWO, *pods(*before)], web=pending_pod(), everybody=everybody)
        assert found == expected


VICTIMS = [
    pytest.param([placed("a", "2", priority="some"), placed("b", "2")], "2", {"b"}, id="the less important one"),
    pytest.param([placed("a", "2", started=EARLY), placed("b", "2", started=LATE)], "2", {"b"}, id="who came later"),
    pytest.param([placed("a", "3", priority="some"), placed("b", "1")], "3", {"a"}, id="who must, not who is least"),
    pytest.param(
        [placed("a", "1"), placed("b", "2"), placed("c", "1", priority="most")], "3", {"a", "b"}, id="not equals"
    ),
]


@pytest.mark.parametrize(("there", "cpu", "expected"), VICTIMS)
async def test_victims(api_server, namespace, there, cpu, expected):
    before = [*CLASSES, *nodes(node("n1")), *pods(*there)]
    everybody = [p["metadata"]["name"] for p in there]
    found = await preempted(api_server, namespace, before, web=pending_pod(cpu=cpu), everybody=everybody)
    assert found == ("n1", expected)


async def test_room_that_is_nominated_is_no_room(api_server, namespace):
    """A node that was made free for one pod is not the next one's."""
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


async def test_only_some_nodes_are_tried(api_server, namespace):
    """minCandidateNodes…: with one candidate asked for, whichever is found first is taken, if no budget forbids it."""
    args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}
    config = configuration({**profile(), "pluginConfig": [{"name": "DefaultPreemption", "args": args}]})
    small = [node(f"n{i}") for i in range(1, 6)]
    there = [placed(f"v{i}", node_name=f"n{i}") for i in range(1, 6)]
    async with scheduled(api_server, namespace, config=config, before=[*CLASSES, *nodes(*small), *pods(*there)]) as c:
        await c.pods(pending_pod())
        names = [f"v{i}" for i in range(1, 6)]
        chosen = await nominated_node(c)
        assert await leaving(c, *names) == {f"v{chosen[1:]}"}


async def test_a_smaller_node_is_no_candidate(api_server, namespace):
    before = [
        *CLASSES,
        *nodes(sized(node("n1"), cpu="2"), node("n2")),
        *pods(placed("a", "1"), placed("b", "2", "n2", "some")),
    ]
    assert await preempted(api_server, namespace, before, everybody="ab") == ("n2", {"b"})
