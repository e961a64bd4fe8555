"""Users' plugins that cancel themselves: their pods are tried again, and other pods are not affected."""

import asyncio

import pytest

from stowplan.plugins import BindPlugin, Code, PostBindPlugin, PreBindPlugin, Status
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.plugins.answering_plugins import configuration


async def cancelled():
    """Wait for something that is cancelled meanwhile."""
    task = asyncio.create_task(asyncio.sleep(0))
    task.cancel()
    await task


class Preparing(PreBindPlugin):
    name = "Odd"

    async def pre_bind(self, state, pod, node_name):
        if "odd" in pod.labels and not pod.pod.status.conditions:
            await cancelled()


class Binding(BindPlugin):
    name = "Odd"

    async def bind(self, state, pod, node_name):
        if "odd" in pod.labels and not pod.pod.status.conditions:
            await cancelled()
        return Status(Code.Skip)


class Told(PostBindPlugin):
    name = "Odd"

    async def post_bind(self, state, pod, node_name):
        await cancelled()


def config(point):
    plugins = {point: {"enabled": [{"name": "Odd"}]}}
    if point == "bind":
        plugins["bind"] = {"enabled": [{"name": "Odd"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    return configuration({"plugins": plugins})


@pytest.mark.parametrize(("point", "plugin"), [("PreBind", Preparing), ("Bind", Binding)])
async def test_a_cancellation_within_a_plugin_fails_the_attempt(point, plugin):
    async with live(a_node("a").obj(), config=config(f"{point[0].lower()}{point[1:]}"), plugins=[plugin]) as cluster:
        await cluster.create(a_pod("odd").labels(odd="yes").obj(), a_pod("good").obj())
        assert cluster.node_of("good") == "a"
        assert cluster.node_of("odd") == ""
        gave_up = "a plugin gave up: what it waited for was cancelled"
        assert cluster.condition("odd")["message"] == f'running {point} plugin "Odd": {gave_up}'
        assert not cluster.scheduler.state.is_assumed(cluster.pod("odd")["metadata"]["uid"])
        await cluster.advance(2.0)
        assert cluster.node_of("odd") == "a"


async def test_a_cancellation_after_the_binding_is_only_reported():
    async with live(a_node("a").obj(), config=config("postBind"), plugins=[Told]) as cluster:
        await cluster.create(a_pod("one").obj(), a_pod("two").obj())
        assert (cluster.node_of("one"), cluster.node_of("two")) == ("a", "a")
        assert not cluster.scheduler.busy
