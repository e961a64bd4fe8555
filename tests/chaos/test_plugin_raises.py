"""A user's plugin raises any exception at any point: its pod is tried again, and other pods are not affected."""

import asyncio

import pytest

from stowplan.plugins import Status
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.plugins import hanging_plugins as hanging
from support.soak.checks import equals_a_rebuild, nothing_is_under_way


def recursion():
    return recursion()


def raising(error):
    def way():
        raise error

    return way


#: What users' code raises, intentionally or not; exceptions that end a program must not end the scheduler.
WAYS = {
    "ValueError": raising(ValueError("boom")),
    "without a text": raising(Exception()),
    "KeyError": lambda: {}["absent"],
    "RecursionError": recursion,
    "MemoryError": raising(MemoryError()),
    "AssertionError": raising(AssertionError()),
    "StopIteration": raising(StopIteration(1)),
    "TimeoutError": raising(TimeoutError()),
    "a group": raising(ExceptionGroup("several", [ValueError("one"), OSError("two")])),
    "cancelled": raising(asyncio.CancelledError()),
    "SystemExit": raising(SystemExit(3)),
}
POINTS = ["sign", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "normalize", "reserve"]
POINTS += ["unreserve", "permit", "preBindPreFlight", "preBind", "preBind, later", "bind", "postBind", "hint"]
NAMES = ["odd", *(f"good-{i}" for i in range(3))]


class Raises(hanging.Everywhere):
    @classmethod
    def at(cls, point, way, times=1):
        return type("Hanging", (cls,), {"point": point, "way": staticmethod(way), "left": [times]})


def nodes():
    return [a_node(f"n{i}").allocatable(cpu="8", pods="20").obj() for i in range(3)]


async def every_pod_is_bound(cluster, plugin):
    await cluster.patch("nodes", "n1", {"metadata": {"labels": {"open": "yes"}}}, namespace="")
    # Includes pods that are retried only every five minutes.
    await cluster.advance(25.0)
    assert {name: bool(cluster.node_of(name)) for name in NAMES} == dict.fromkeys(NAMES, True)
    assert plugin.left == [0], "the plugin was not called"
    nothing_is_under_way(cluster.scheduler)
    equals_a_rebuild(cluster.api, cluster.scheduler.state)
    for name in NAMES:
        uid = cluster.pod(name)["metadata"]["uid"]
        told = [e for e in cluster.events(name, "Scheduled") if e["regarding"]["uid"] == uid]
        assert len(told) == 1


async def run(point, way):
    plugin = Raises.at(point, way)
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        labels = {"hangs": "yes"} | ({"refused": "yes"} if point in ("postFilter", "hint") else {})
        await cluster.create(a_pod("odd").labels(**labels).obj(), *(a_pod(name).obj() for name in NAMES[1:]))
        assert all(cluster.node_of(name) for name in NAMES[1:])
        await every_pod_is_bound(cluster, plugin)


@pytest.mark.parametrize("point", POINTS)
async def test_at_each_point(point):
    await run(point, WAYS["ValueError"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "point", ["preEnqueue", "filter", "reserve", "unreserve", "permit", "preBind", "bind", "postBind"]
)
async def test_any_exception_in_a_filter(point, way):
    await run(point, WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", ["sign", "preFilter", "postFilter", "score", "normalize", "hint"])
async def test_any_exception_at_another_point(point, way):
    await run(point, WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", ["filter", "score"])
async def test_column_level_plugins(point, way):
    plugin = type("Hanging", (hanging.Columns,), {"point": point, "way": staticmethod(WAYS[way]), "left": [1]})
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        await cluster.create(a_pod("odd").labels(hangs="yes").obj(), *(a_pod(name).obj() for name in NAMES[1:]))
        await every_pod_is_bound(cluster, plugin)


@pytest.mark.parametrize("way", WAYS)
async def test_queue_sort_plugins(way):
    plugin = type("Hanging", (hanging.Sorting,), {"point": "queueSort", "way": staticmethod(WAYS[way]), "left": [1]})
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        cluster.server.create_all([a_pod(name).labels(hangs="yes").obj() for name in NAMES])
        await cluster.settle()
        await every_pod_is_bound(cluster, plugin)


@pytest.mark.parametrize(
    "nonsense", [1, "yes", object(), (), Status], ids=["number", "text", "object", "tuple", "class"]
)
@pytest.mark.parametrize("point", ["preFilter", "filter", "reserve", "permit", "preBind", "bind", "score"])
async def test_invalid_return_values(point, nonsense):
    left = [1]

    def answering(name):
        original = getattr(hanging.Everywhere, name)

        def method(self, *args):
            if "hangs" in args[1].labels and left[0]:
                left[0] -= 1
                return nonsense
            return original(self, *args)

        return method

    def answering_late(name):
        original = getattr(hanging.Everywhere, name)

        async def method(self, *args):
            if "hangs" in args[1].labels and left[0]:
                left[0] -= 1
                return nonsense
            return await original(self, *args)

        return method

    names = {"preFilter": "pre_filter", "filter": "filter_node", "preBind": "pre_bind", "score": "score_node"}
    name = names.get(point, point)
    make = answering_late if point in ("preBind", "bind") else answering
    plugin = type("Hanging", (hanging.Everywhere,), {name: make(name), "left": left})
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        await cluster.create(a_pod("odd").labels(hangs="yes").obj(), *(a_pod(one).obj() for one in NAMES[1:]))
        await every_pod_is_bound(cluster, plugin)
