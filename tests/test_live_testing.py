"""The cluster that plugin authors test with: what they do to it happens at once, time passes when they say so."""

import asyncio

import pytest

from fakes import fake
from stowplan.api.api_errors import NotFound
from stowplan.live_testing import live_cluster
from stowplan.plugins import PreBindPlugin, unschedulable
from stowplan.testing import a_node, a_pod


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
        go_on.set()
        await cluster.settle()
        assert cluster.node_of("a") == "n1"


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
