"""The cluster for tests of plugins: operations take effect at once, and time advances only when told to."""

import asyncio
import sys
from types import SimpleNamespace

import aiohttp
import pytest

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.types import Pod
from stowplan.plugins import (
    Code,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    Status,
    Wait,
    unschedulable,
)
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, NeverIdleError, live_cluster
from support.plugins.answering_plugins import configuration
from support.plugins.fake_plugins import fake

NODE = a_node("n1").obj()


def with_plugins(*names):
    return configuration({"plugins": {"multiPoint": {"enabled": [{"name": name} for name in names]}}})


def cluster_of(*plugins, objects=(NODE,), **options):
    return live_cluster(*objects, config=with_plugins(*(one.name for one in plugins)), plugins=plugins, **options)


# -- doing and looking -------------------------------------------------------------------------------------------------


def test_pods_are_placed_before_create_returns():
    with live_cluster(NODE) as cluster:
        cluster.create(a_pod("a").obj(), a_pod("b", "kube-system").obj())
        assert cluster.node_of("a") == cluster.node_of("b", namespace="kube-system") == "n1"
        assert [event["reason"] for event in cluster.events("a")] == ["Scheduled"]
        assert cluster.why_pending("a") == ""


def test_initial_pods_are_scheduled():
    with live_cluster(NODE, a_pod("a").obj()) as cluster:
        assert cluster.node_of("a") == "n1"


def test_the_story_of_a_pod(monkeypatch):
    small = a_node("n1").allocatable(cpu="1", pods="10").tainted("x").obj()
    with live_cluster(small) as cluster:
        cluster.create(a_pod("<a>").obj())
        cluster.patch("nodes", "n1", {"spec": {"taints": None}})
        cluster.advance(1)
        story = cluster.story("<a>")
        with pytest.raises(LookupError, match='pod "default/b" has no story'):
            cluster.story("b")
    assert [step.node for step in story.steps if step.decided] == ["", "n1"]
    assert story.to_dict()["pod"] == "default/<a>"
    assert repr(story).startswith(f"<Story of default/<a>, {len(story.steps)} steps, the last one: ")
    page = story._repr_html_()
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    assert page.count("<tr><td ") == len(story.steps)
    # An attempt takes no time.
    assert [step.milliseconds for step in story.steps if step.decided] == [0.0, 0.0]
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert [row["text"] for row in story.to_frame()] == [step.text() for step in story.steps]


def test_patching_and_deleting_wake_pods_after_their_backoff():
    small = a_node("n1").allocatable(cpu="1", pods="10").tainted("x").obj()
    with live_cluster(small) as cluster:
        cluster.create(a_pod("a").requests(cpu="1").obj(), a_pod("b").requests(cpu="1").obj())
        assert "untolerated taint" in cluster.why_pending("a")
        cluster.patch("nodes", "n1", {"spec": {"taints": None}})
        assert (cluster.node_of("a"), cluster.node_of("b")) == ("n1", "")
        cluster.advance(2)
        cluster.delete("pods", "a")
        with pytest.raises(NotFound):
            cluster.get("pods", "a")
        cluster.advance(3)
        assert cluster.node_of("b") == "n1"


def test_a_status_is_patched_as_a_subresource():
    with live_cluster(a_node("n1").allocatable(cpu="1", pods="10").obj()) as cluster:
        cluster.create(a_pod("a").requests(cpu="2").obj())
        bigger = {"status": {"allocatable": {"cpu": "4"}}}
        cluster.patch("nodes", "n1", bigger)
        cluster.advance(3)
        assert cluster.node_of("a") == ""
        cluster.patch("nodes", "n1", bigger, subresource="status")
        cluster.advance(3)
        assert cluster.node_of("a") == "n1"


def test_advancing_time():
    with live_cluster() as cluster:
        began = cluster.now
        cluster.advance(90)
        assert cluster.now - began == 90


def test_plugin_instances_are_accessible():
    plugin = fake("No", filter=unschedulable("no"))
    with cluster_of(plugin) as cluster:
        cluster.create(a_pod("a").obj())
        assert cluster.why_pending("a").startswith("0/1 nodes are available: 1 no.")
        assert isinstance(cluster.plugin("No"), plugin)


def test_preemption():
    with live_cluster(a_node("n1").allocatable(cpu="1", pods="10").obj()) as cluster:
        cluster.create(a_pod("low").requests(cpu="1").obj(), a_pod("high").requests(cpu="1").priority(100).obj())
        cluster.advance(3)
        assert cluster.node_of("high") == "n1"
        with pytest.raises(NotFound):
            cluster.get("pods", "low")
        assert [event["reason"] for event in cluster.events("low")] == ["Scheduled", "Preempted"]


def test_deletions_by_the_test_are_immediate():
    with live_cluster(NODE, a_pod("a").obj(), latency=Latency(deletions=30)) as cluster:
        cluster.delete("pods", "a")
        with pytest.raises(NotFound):
            cluster.get("pods", "a")


def test_events_by_object_and_reason():
    with live_cluster(NODE) as cluster:
        cluster.create(a_pod("a").obj(), a_pod("b").node_selector({"x": "y"}).obj())
        told = {(event["regarding"]["name"], event["reason"]) for event in cluster.events()}
        assert told == {("a", "Scheduled"), ("b", "FailedScheduling")}
        assert [event["reason"] for event in cluster.events("b")] == ["FailedScheduling"]
        assert [event["regarding"]["name"] for event in cluster.events(reason="Scheduled")] == ["a"]
        assert cluster.events("a", "FailedScheduling") == []


def test_unknown_names_are_errors():
    with live_cluster() as cluster, pytest.raises(ValueError, match="the cluster has no 'deployments'"):
        cluster.get("deployments", "web")


def test_results_are_deterministic():
    """Ties are broken at random with a fixed seed."""

    def placed(seed):
        with live_cluster(*(a_node(f"n{i}").obj() for i in range(20)), seed=seed) as cluster:
            cluster.create(*(a_pod(f"p{i}").obj() for i in range(10)))
            return [cluster.node_of(f"p{i}") for i in range(10)]

    assert placed(1) == placed(1)
    assert placed(1) != placed(2)


async def test_within_a_running_event_loop():
    with live_cluster(NODE, a_pod("a").obj()) as cluster:
        assert cluster.node_of("a") == "n1"


# -- plugins that wait -------------------------------------------------------------------------------------------------


class Gate(PermitPlugin):
    name = "Gate"

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 60


def test_allowing_and_rejecting_a_waiting_pod():
    with cluster_of(Gate) as cluster:
        cluster.create(a_pod("a").obj(), a_pod("b").obj())
        first, second = cluster.engine.waiting_pods
        first.allow("Gate")
        second.reject("Gate", "not today")
        cluster.settle()
        assert cluster.node_of("a") == "n1"
        assert "not today" in cluster.why_pending("b")


class Patient(PreBindPlugin):
    """As steps."""

    name = "Patient"

    def pre_bind(self, state, pod, node_name):
        yield Wait(seconds=600)


def test_steps_wait_for_time():
    with cluster_of(Patient) as cluster:
        cluster.create(a_pod("a").obj())
        cluster.advance(599)
        assert cluster.node_of("a") == ""
        cluster.advance(1)
        assert cluster.node_of("a") == "n1"


class Careful(PreBindPlugin):
    """Writes to the API, and records its end."""

    name = "Careful"
    ended = ()

    async def pre_bind(self, state, pod, node_name):
        try:
            await self.handle.api.patch(
                Pod, pod.name, {"metadata": {"labels": {"a": "b"}}}, type_="merge", namespace=pod.namespace
            )
        finally:
            type(self).ended = (*type(self).ended, pod.key)


def test_a_coroutine_awaits_the_api(monkeypatch):
    monkeypatch.setattr(Careful, "ended", ())
    with cluster_of(Careful, latency=Latency(requests=0.5)) as cluster:
        cluster.create(a_pod("a").obj())
        assert (cluster.node_of("a"), Careful.ended) == ("", ())
        cluster.advance(2)
        assert cluster.get("pods", "a")["metadata"]["labels"] == {"a": "b"}
        assert (cluster.node_of("a"), Careful.ended) == ("n1", ("default/a",))


def test_waiting_coroutines_are_cancelled_at_the_end(monkeypatch):
    monkeypatch.setattr(Careful, "ended", ())
    with cluster_of(Careful, latency=Latency(requests=60)) as cluster:
        cluster.create(a_pod("a").obj())
        # First, the nomination is written.
        cluster.advance(61)
        assert Careful.ended == ()
    assert Careful.ended == ("default/a",)


async def _sleeps(handle):
    await asyncio.sleep(1)


async def _asks_over_http(handle):
    async with aiohttp.ClientSession() as session:
        await session.get("http://localhost:1/")


class Foreign(PreBindPlugin):
    name = "Foreign"
    awaits = None

    async def pre_bind(self, state, pod, node_name):
        await type(self).awaits(self.handle)


@pytest.mark.parametrize("foreign", [_sleeps, _asks_over_http])
def test_awaiting_real_time_fails_the_attempt_with_advice(monkeypatch, foreign):
    monkeypatch.setattr(Foreign, "awaits", staticmethod(foreign))
    with cluster_of(Foreign) as cluster:
        cluster.create(a_pod("a").obj())
        assert cluster.node_of("a") == ""
        why = cluster.why_pending("a")
        assert 'plugin "Foreign" awaited something that needs an event loop in PreBind' in why
        assert "a plugin may await only the handle's api" in why
        assert "steps (a generator) can wait for time" in why


async def test_awaiting_real_time_within_a_running_event_loop(monkeypatch):
    monkeypatch.setattr(Foreign, "awaits", staticmethod(_sleeps))
    with cluster_of(Foreign) as cluster:
        cluster.create(a_pod("a").obj())
        assert 'plugin "Foreign" awaited a Future in PreBind' in cluster.why_pending("a")


# -- plugins that go wrong ---------------------------------------------------------------------------------------------


class Polls(PreBindPlugin):
    name = "Polls"

    async def pre_bind(self, state, pod, node_name):
        while True:
            await self.handle.api.get(Pod, pod.name, namespace=pod.namespace)


def test_endless_requests_fail_the_attempt():
    with cluster_of(Polls) as cluster:
        cluster.create(a_pod("a").obj())
        assert 'plugin "Polls" asked for 10000 things at one moment in PreBind' in cluster.why_pending("a")


class Talks(PostBindPlugin):
    name = "Talks"

    async def post_bind(self, state, pod, node_name):
        raise SystemExit("mine")


class Insists(PreBindPlugin):
    """Refuses every pod, and activates all others."""

    name = "Insists"

    async def pre_bind(self, state, pod, node_name):
        self.handle.activate([one for one in self.handle.cluster.pending.values() if one.uid != pod.uid])
        return unschedulable("no")


@pytest.mark.slow
def test_endless_retries_are_an_error():
    with cluster_of(Insists) as cluster, pytest.raises(NeverIdleError, match=r"pod default/\w was tried 1000 times"):
        cluster.create(a_pod("a").obj(), a_pod("b").obj())


def test_an_exception_fails_only_its_pod():
    with cluster_of(Talks) as cluster:
        cluster.create(a_pod("a").obj(), a_pod("b").obj())
        assert cluster.node_of("a") == cluster.node_of("b") == "n1"


def test_plugins_are_always_closed():
    closed = []

    class Closes(PreBindPlugin):
        name = "Closes"

        async def pre_bind(self, state, pod, node_name):
            return None

        def close(self):
            closed.append(self.name)
            raise RuntimeError("mine")

    with pytest.raises(AssertionError), cluster_of(Closes):
        raise AssertionError
    assert closed == ["Closes"]


def test_exceptions_of_the_scheduler_are_raised(monkeypatch):
    def broken(outcome):
        raise RuntimeError("bug")

    with live_cluster(NODE) as cluster:
        monkeypatch.setattr(cluster.engine.stories, "decided", broken)
        with pytest.raises(RuntimeError, match="bug"):
            cluster.create(a_pod("a").obj())
