"""The scheduling loop: setup, skipped pods, concurrency limits, and shutdown."""

import asyncio
from itertools import pairwise

import pytest

from stowplan.drivers.live import scheduler as loop
from stowplan.drivers.live.scheduler import SchedulerSettings
from stowplan.kube.api.types import Node
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.engine import engine
from stowplan.scheduler.framework.events import POD, Action, on
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.api.embedded import binding
from support.live.live_scheduler import live
from support.observing.log_lines import logged
from support.plugins.answering_plugins import answering, configuration, profile
from support.plugins.claims import claim, held, volume
from support.scheduling.worlds import struct

NODE = a_node("n").obj()


def answers(plugin, *points, **options):
    """A scheduler with the plugin at these points."""
    without = {"bind": ["DefaultBinder"]} if "bind" in points else None
    fields = options.pop("fields", {})
    config = configuration(profile(without=without, **{point: [plugin] for point in points}), **fields)
    return live(NODE, config=config, plugins=[plugin], **options)


def backoff_of(cluster, name="p"):
    queued = cluster.scheduler.queue.get(f"default/{name}")
    return queued.backoff_expiration - queued.timestamp


# -- configuration -----------------------------------------------------------------------------------------------------


async def test_backoff_times():
    broken = answering("A", bind=error("no"))
    fields = {"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 5}
    features = DEFAULT_FEATURES.with_gates({"SchedulerPopFromBackoffQ": False})
    async with answers(broken, "bind", fields=fields, features=features) as cluster:
        await cluster.create(a_pod("p").obj())
        assert backoff_of(cluster) == pytest.approx(3.0)
        await cluster.advance(5.0)
        assert backoff_of(cluster) == pytest.approx(5.0)


@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
async def test_popping_from_the_backoff_queue(gate):
    """A pod in backoff that its own update wakes."""
    picky = answering("A", pre_filter=unschedulable("no"), wakes=[on(POD, Action.UpdatePodLabel)])
    features = DEFAULT_FEATURES.with_gates({"SchedulerPopFromBackoffQ": gate})
    async with answers(picky, "preFilter", features=features) as cluster:
        await cluster.create(a_pod("p").obj())
        picky.answers["pre_filter"] = None
        cluster.api.patch("pods", "default", "p", {"metadata": {"labels": {"a": "b"}}})
        await cluster.settle()
        assert (cluster.node_of("p") == "n") is gate


@pytest.mark.parametrize(("seconds", "tried_again"), [(60.0, True), (300.0, False)])
async def test_maximum_time_in_the_unschedulable_pool(seconds, tried_again):
    moody = answering("A", pre_filter=unschedulable("no"))
    settings = SchedulerSettings(max_in_unschedulable=seconds)
    async with answers(moody, "preFilter", settings=settings) as cluster:
        await cluster.create(a_pod("p").obj())
        moody.answers["pre_filter"] = None
        await cluster.advance(100.0)
        assert (cluster.node_of("p") == "n") is tried_again


async def test_percentage_of_nodes_to_score():
    nodes = [a_node(f"n{i}").obj() for i in range(150)]
    async with live(*nodes, config=configuration(percentageOfNodesToScore=1)) as cluster:
        with logged(2) as found:
            await cluster.create(a_pod("p").obj())
        [(_, _, keys)] = [line for line in found.of("binding_cycle") if line[1].startswith("Successfully bound")]
        assert keys["feasibleNodes"] == 100


async def test_plugins_can_activate_pods():
    moody = answering("A", pre_filter=unschedulable("no"))
    async with answers(moody, "preFilter") as cluster:
        await cluster.create(a_pod("p").obj())
        moody.answers["pre_filter"] = None
        handle = cluster.scheduler.frameworks["default-scheduler"].handle
        handle.activate([cluster.scheduler.queue.get("default/p").pod])
        await cluster.settle()
        assert cluster.node_of("p") == "n"


async def test_plugins_are_disabled_and_enabled():
    """Pods that it refused are retried without it, and no earlier evaluation is reused."""
    async with live(a_node("n").tainted("k").obj()) as cluster:
        await cluster.create(a_pod("p").obj())
        assert cluster.place("p") is Place.UNSCHEDULABLE
        cluster.scheduler.switch_off(frozenset({"TaintToleration"}))
        await cluster.advance(3.0)
        assert cluster.node_of("p") == "n"
        cluster.scheduler.switch_on(frozenset({"TaintToleration"}))
        await cluster.create(a_pod("q").obj())
        assert cluster.place("q") is Place.UNSCHEDULABLE


async def test_the_newest_object_of_a_pod():
    gated = answering("A", permit=(Status(Code.Wait, ()), 10.0))
    async with answers(gated, "permit") as cluster:
        newest = cluster.scheduler.state.newest
        await cluster.create(a_pod("p").obj(), a_pod("q").on("n").obj())
        pending, placed = (cluster.pod(name)["metadata"]["uid"] for name in ("p", "q"))
        cluster.api.patch("pods", "default", "p", {"metadata": {"labels": {"a": "b"}}})
        await cluster.settle()
        assert newest(pending).metadata.labels == {"a": "b"}
        assert newest(placed).spec.node_name == "n"
        assert newest("another") is None


# -- skipped pods ------------------------------------------------------------------------------------------------------


async def test_a_pod_of_an_unknown_profile(caplog):
    async with live(NODE, validate=False) as cluster:
        scheduler = cluster.scheduler
        scheduler.queue.add(scheduler.state.pod_info(stranger()))
        await cluster.settle()
        assert "profile not found for scheduler name" in caplog.text
        assert scheduler.queue.in_flight() == []
        assert scheduler.state.placed_pods() == []


def stranger():
    return struct(a_pod("p").uid("u").scheduler("nobody"))


async def test_a_pod_that_is_being_deleted():
    held = a_pod("p").obj()
    held["metadata"]["finalizers"] = ["example.com/f"]
    held["spec"]["schedulingGates"] = [{"name": "g"}]
    async with live(NODE) as cluster:
        await cluster.create(held)
        cluster.api.delete("pods", "default", "p")
        cluster.api.patch("pods", "default", "p", {"spec": {"schedulingGates": None}})
        await cluster.settle()
        (event,) = cluster.events("p", "FailedScheduling")
        assert event["note"] == "skip schedule deleting pod: default/p"
        assert (event["type"], event["action"]) == ("Warning", "Scheduling")
        assert (cluster.node_of("p"), cluster.place("p")) == ("", None)
        assert cluster.scheduler.queue.in_flight() == []


async def test_a_pod_that_is_assumed_already():
    gated = answering("A", permit=(Status(Code.Wait, ()), 10.0))
    async with answers(gated, "permit", validate=False) as cluster:
        await cluster.create(a_pod("p").obj())
        scheduler = cluster.scheduler
        scheduler.queue.done(cluster.pod("p")["metadata"]["uid"])
        scheduler.queue.add(scheduler.state.pending.get("default/p"))
        await cluster.settle()
        assert (cluster.place("p"), scheduler.queue.in_flight()) == (None, [])
        assert cluster.condition("p") is None
        assert [call for call in gated.log if call == "A.permit"] == ["A.permit"]


# -- concurrency -------------------------------------------------------------------------------------------------------


class Bottleneck:
    """Blocks all binds until it is opened."""

    def __init__(self):
        self.open = asyncio.Event()
        self.waiting = 0
        self.cluster = None

    async def bind(self, state, pod, node_name):
        self.waiting += 1
        await self.open.wait()
        self.waiting -= 1
        name = pod.pod.metadata.name
        self.cluster.api.registry.bind(pod.namespace, name, binding(name, node_name))


async def some_turns(turns=400):
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_the_number_of_binding_pods_is_limited(monkeypatch):
    monkeypatch.setattr(engine, "MAX_BINDING_WRITES", 3)
    bottleneck = Bottleneck()
    async with answers(answering("A", bind=bottleneck.bind), "bind") as cluster:
        bottleneck.cluster = cluster
        cluster.api.server.create_all([a_pod(f"p{i}").obj() for i in range(8)])
        await some_turns()
        assert (bottleneck.waiting, cluster.scheduler.queue.counts()["active"]) == (3, 5)
        bottleneck.open.set()
        await some_turns()
        assert cluster.scheduler.queue.counts()["active"] == 0


async def test_pods_waiting_on_permit_do_not_count(monkeypatch):
    monkeypatch.setattr(engine, "MAX_BINDING_WRITES", 1)
    patient = answering("A", permit=(Status(Code.Wait, ()), 10.0))
    async with answers(patient, "permit") as cluster:
        await cluster.create(*(a_pod(f"p{i}").obj() for i in range(4)))
        assert len(cluster.scheduler.waiting_pods) == 4


async def test_the_loop_yields_after_its_time_slice(monkeypatch):
    """Each pod takes longer than a turn: other tasks run between any two."""
    order = []
    slow = answering("A", reserve=lambda state, pod, node_name: take_long(pod.pod.metadata.name))

    def take_long(name):
        order.append(name)
        cluster.time.now += 2 * loop.TURN_SECONDS

    async def somebody_else():
        for _ in range(200):
            order.append("somebody else")
            await asyncio.sleep(0)

    async with answers(slow, "reserve") as cluster:
        task = asyncio.create_task(somebody_else())
        cluster.api.server.create_all([a_pod(f"p{i}").obj() for i in range(4)])
        await task
        await cluster.settle()
    at = [order.index(f"p{i}") for i in range(4)]
    assert all("somebody else" in order[a:b] for a, b in pairwise(at))


# -- startup -----------------------------------------------------------------------------------------------------------


async def test_pods_are_not_tried_before_claims_that_were_made_for_them():
    """The watches of pods, claims and volumes are streams of their own, and other pods have their turns in between."""
    for iterations in (4, 6, 8):
        async with live(a_node("n").allocatable(cpu="9", pods="200").obj(), validate=False) as cluster:
            cluster.server.create_all([a_pod(f"busy-{i}").obj() for i in range(100)])
            for _ in range(iterations):
                await asyncio.sleep(0)
            for i in range(5):
                spec = {"csi": {"driver": "d", "volumeHandle": f"h{i}"}, **held(f"c{i}", uid="")}
                made = volume(f"v{i}", class_name="", phase="Bound", spec=spec)
                pod = a_pod(f"p{i}").claims_volume(f"c{i}").obj()
                cluster.server.create_all([made, claim(f"c{i}", class_name="", volume=f"v{i}"), pod])
                await asyncio.sleep(0)
            await cluster.settle()
            assert [cluster.node_of(f"p{i}") for i in range(5)] == ["n"] * 5
            assert cluster.events(reason="FailedScheduling") == []


async def test_it_is_ready_after_all_first_lists():
    listed = asyncio.Event()

    class Late(Slow):
        async def list(self, kind, **options):
            if kind is Node:
                await listed.wait()
            return await self._api.list(kind, **options)

    starting = live(NODE, wrap=Late)
    entering = asyncio.create_task(starting.__aenter__())
    await some_turns()
    assert not entering.done()
    listed.set()
    cluster = await entering
    try:
        await cluster.create(a_pod("p").obj())
        assert cluster.node_of("p") == "n"
    finally:
        await starting.__aexit__(None, None, None)


# -- shutdown ----------------------------------------------------------------------------------------------------------


async def end(cluster, turns=400):
    """Ask it to stop, which the harness then waits for."""
    (running,) = (task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Scheduler.run")
    running.cancel()
    await some_turns(turns)
    return running


async def test_a_binding_in_progress_is_finished_with_its_event():
    bottleneck = Bottleneck()
    async with answers(answering("A", bind=bottleneck.bind), "bind") as cluster:
        bottleneck.cluster = cluster
        cluster.api.server.create_all([a_pod("p").obj()])
        await some_turns()
        running = await end(cluster)
        assert (bottleneck.waiting, running.done()) == (1, False)
        bottleneck.open.set()
        await some_turns()
        assert running.done()
        assert cluster.node_of("p") == "n"
        assert [event["reason"] for event in cluster.events("p")] == ["Scheduled"]


async def test_shutdown_does_not_wait_for_permit():
    patient = answering("A", permit=(Status(Code.Wait, ()), 10.0))
    async with answers(patient, "permit") as cluster:
        await cluster.create(a_pod("p").obj())
        assert (await end(cluster)).done()


async def test_a_slow_binding_is_abandoned_silently():
    async def forever(state, pod, node_name):
        await asyncio.Event().wait()

    stuck = answering("A", pre_bind=forever)
    async with answers(stuck, "preBind") as cluster:
        cluster.api.server.create_all([a_pod("p").obj()])
        await some_turns()
        running = await end(cluster)
        await cluster.time.advance(loop.SHUTDOWN_TIMEOUT - 0.1, settle=some_turns)
        assert not running.done()
        await cluster.time.advance(0.2, settle=some_turns)
        assert running.done()
        assert cluster.condition("p") is None
        assert cluster.events("p") == []


class Slow:
    """An API that delays some verbs."""

    def __init__(self, api, *verbs):
        self._api = api
        self._verbs = verbs

    def __getattr__(self, name):
        method = getattr(self._api, name)
        return self._later(method) if name in self._verbs else method

    def _later(self, method):
        async def call(*args, **options):
            await some_turns(60)
            return await method(*args, **options)

        return call


@pytest.mark.parametrize("verb", ["patch", "create"], ids=["statuses", "events"])
async def test_pending_messages_are_written_before_the_end(verb):
    """Many pods fail at once, and their messages are written a few at a time."""
    names = [f"p{i}" for i in range(60)]
    plugin = answering("A", pre_filter=unschedulable("no"))
    async with answers(plugin, "preFilter", wrap=lambda api: Slow(api, verb)) as cluster:
        cluster.api.server.create_all([a_pod(name).obj() for name in names])
        told = []
        cluster.scheduler.stories.decided = lambda outcome: told.append(outcome.key)
        for _ in range(10_000):
            if len(told) == len(names):
                break
            await asyncio.sleep(0)
        running = await end(cluster, turns=0)
        for _ in range(10_000):
            if running.done():
                break
            await asyncio.sleep(0)
        assert [name for name in names if cluster.condition(name) is None] == []
        assert [name for name in names if not cluster.events(name)] == []
