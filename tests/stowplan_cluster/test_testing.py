"""The cluster that plugin authors test with: what they do to it happens at once, time passes when they say so."""

import asyncio

import pytest

from stowplan.api.api_errors import NotFound
from stowplan.live.scheduler import Scheduler
from stowplan.plugins import Code, PreBindPlugin, Status, unschedulable
from stowplan.testing import a_node, a_pod
from stowplan_cluster.testing import live_cluster
from support.plugins.fake_plugins import fake


def with_plugin(name):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}],
    }


async def test_pods_are_placed_before_create_returns():
    async with live_cluster(a_node("n1").obj()) as cluster:
        await cluster.create(a_pod("a").obj(), a_pod("b", "kube-system").obj())
        assert cluster.node_of("a") == cluster.node_of("b", namespace="kube-system") == "n1"
        assert [event["reason"] for event in cluster.events("a")] == ["Scheduled"]
        assert cluster.why_pending("a") == ""


async def test_what_is_there_at_the_start_is_scheduled_at_the_start():
    async with live_cluster(a_node("n1").obj(), a_pod("a").obj()) as cluster:
        assert cluster.node_of("a") == "n1"


async def test_patching_and_deleting_wake_pods_after_their_backoff():
    small = a_node("n1").allocatable(cpu="1", pods="10").tainted("x").obj()
    async with live_cluster(small) as cluster:
        await cluster.create(a_pod("a").requests(cpu="1").obj(), a_pod("b").requests(cpu="1").obj())
        assert "untolerated taint" in cluster.why_pending("a")
        await cluster.patch("nodes", "n1", {"spec": {"taints": None}})
        assert (cluster.node_of("a"), cluster.node_of("b")) == ("n1", "")
        await cluster.advance(2)
        await cluster.delete("pods", "a")
        with pytest.raises(NotFound):
            cluster.get("pods", "a")
        await cluster.advance(3)
        assert cluster.node_of("b") == "n1"


async def test_plugins_can_be_looked_at():
    plugin = fake("No", filter=unschedulable("no"))
    async with live_cluster(a_node("n1").obj(), config=with_plugin("No"), plugins=[plugin]) as cluster:
        await cluster.create(a_pod("a").obj())
        assert cluster.why_pending("a").startswith("0/1 nodes are available: 1 no.")
        assert type(cluster.plugin("No")) is plugin


async def test_a_plugin_that_waits_for_something_real_is_left_to_it():
    go_on = asyncio.Event()

    class Slow(PreBindPlugin):
        name = "Slow"

        async def pre_bind(self, state, pod, node_name):
            await go_on.wait()

    async with live_cluster(a_node("n1").obj(), config=with_plugin("Slow"), plugins=[Slow]) as cluster:
        await cluster.create(a_pod("a").obj())
        assert cluster.node_of("a") == ""
        assert not await cluster.settle()
        go_on.set()
        assert await cluster.settle()
        assert cluster.node_of("a") == "n1"


async def test_what_time_brings_about_is_over_before_advance_returns():
    class Slow(PreBindPlugin):
        name = "Slow"
        tries = 0

        async def pre_bind(self, state, pod, node_name):
            Slow.tries += 1
            if Slow.tries == 1:
                return Status(Code.Error, ("not yet",))
            for _ in range(500):
                await asyncio.sleep(0)
            return None

    async with live_cluster(a_node("n1").obj(), config=with_plugin("Slow"), plugins=[Slow]) as cluster:
        await cluster.create(a_pod("a").obj())
        assert (Slow.tries, cluster.node_of("a")) == (1, "")
        await cluster.advance(2)
        assert (Slow.tries, cluster.node_of("a")) == (2, "n1")


async def test_a_plugin_that_waits_for_ever_does_not_hold_up_the_end():
    ended = []

    class Stuck(PreBindPlugin):
        name = "Stuck"

        async def pre_bind(self, state, pod, node_name):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(pod.key)

    async with live_cluster(a_node("n1").obj(), config=with_plugin("Stuck"), plugins=[Stuck]) as cluster:
        await cluster.create(a_pod("a").obj())
        assert ended == []
    assert ended == ["default/a"]


async def test_events_by_object_and_reason():
    async with live_cluster(a_node("n1").obj()) as cluster:
        await cluster.create(a_pod("a").obj(), a_pod("b").node_selector({"x": "y"}).obj())
        told = {(event["regarding"]["name"], event["reason"]) for event in cluster.events()}
        assert told == {("a", "Scheduled"), ("b", "FailedScheduling")}
        assert [event["reason"] for event in cluster.events("b")] == ["FailedScheduling"]
        assert [event["regarding"]["name"] for event in cluster.events(reason="Scheduled")] == ["a"]
        assert cluster.events("a", "FailedScheduling") == []


async def test_names_of_nothing_are_told():
    async with live_cluster() as cluster:
        with pytest.raises(ValueError, match="the cluster has no 'deployments'"):
            cluster.get("deployments", "web")


async def test_a_scheduler_that_dies_is_heard_of(monkeypatch):
    def broken():
        raise RuntimeError("bug")

    async with live_cluster(a_node("n1").obj()) as cluster:
        monkeypatch.setattr(cluster.scheduler.queue, "pop", broken)
        with pytest.raises(RuntimeError, match="bug"):
            await cluster.create(a_pod("a").obj())


async def test_a_scheduler_that_cannot_begin_is_heard_of(monkeypatch):
    async def broken(self):
        raise RuntimeError("bug")

    monkeypatch.setattr(Scheduler, "run", broken)
    with pytest.raises(RuntimeError, match="bug"):
        async with live_cluster():
            pytest.fail("there is nothing to work with")
