"""Waiting pods delay no others: PreBind plugins that take ten minutes, and extenders that are slow or unreachable."""

import asyncio
from random import Random

import pytest

from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.engine.engine import MAX_BINDING_WRITES
from stowplan.scheduler.engine.suspension.suspended_cycles import MAX_CYCLES
from stowplan.scheduler.framework.interface import PreBindPlugin
from stowplan.scheduler.framework.requests import Wait
from stowplan.scheduler.framework.status import SKIP
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.preempting import priority_class

TEN_MINUTES = 600.0
GOOD = 2000


def nodes():
    return [a_node(f"n{i}").allocatable(cpu=4000, pods=4000).obj() for i in range(2)]


class Slow(PreBindPlugin):
    """Makes pods with the label wait."""

    name = "Slow"
    #: Set ten minutes after a coroutine has started to wait for it; steps use a timer.
    gate = None

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if "slow" in pod.labels else SKIP


class SlowCoroutine(Slow):
    async def pre_bind(self, state, pod, node_name):
        await type(self).gate.wait()


class SlowSteps(Slow):
    def pre_bind(self, state, pod, node_name):
        yield Wait(seconds=TEN_MINUTES)


class DeadProvisioner(Slow):
    def pre_bind(self, state, pod, node_name):
        yield Wait(keys=frozenset({("PersistentVolumeClaim", f"{pod.namespace}/{pod.name}")}))


def bound(cluster):
    """Bound according to the API server."""
    state = cluster.scheduler.state
    return [info.name for info in state.placed_pods() if not state.is_assumed(info.uid)]


async def some_turns(count=3000):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("plugin", "slow"), [(SlowCoroutine, 1), (SlowSteps, 1), (DeadProvisioner, MAX_BINDING_WRITES + 44)]
)
async def test_pods_waiting_in_pre_bind_delay_no_others(plugin, slow):
    plugin.gate = asyncio.Event()
    config = configuration(profile(preBind=[plugin]))
    async with live(*nodes(), config=config, plugins=[plugin], validate=False) as cluster:
        cluster.server.create_all([a_pod(f"slow{i}").labels(slow="yes").obj() for i in range(slow)])
        await some_turns(500)
        began = cluster.scheduler.clock()
        cluster.server.create_all([a_pod(f"p{i}").obj() for i in range(GOOD)])
        while len(cluster.scheduler.engine.bindings.under_way) > slow or len(bound(cluster)) < GOOD:
            await some_turns(50)
        assert cluster.scheduler.clock() == began, "time had to pass"
        assert sorted(bound(cluster)) == sorted(f"p{i}" for i in range(GOOD))
        assert cluster.scheduler.engine.bindings.writes == 0
        cluster.scheduler.engine.validate()
        if plugin is SlowCoroutine:
            plugin.gate.set()
            await cluster.settle()
        else:
            await cluster.advance(TEN_MINUTES)
        assert ("slow0" in bound(cluster)) == (plugin is not DeadProvisioner)


class SlowExtender:
    """Answers once allowed, and records its calls."""

    def __init__(self, answer):
        self.asked, self.open, self._answer = [], asyncio.Event(), answer

    async def ask(self, verb, question):
        self.asked.append((verb, question))
        await self.open.wait()
        return self._answer(verb, question)


def first_node(verb, question):
    return question["nodes"][:1] if verb == "filter" else {question["nodes"][0]: 10}


async def test_a_slow_extender_delays_only_its_own_pods():
    extender_client = SlowExtender(first_node)
    extender = FakeExtender("e", filters=True, only="slow")
    async with live(*nodes(), extenders=[extender], extender_clients={"e": extender_client}, validate=False) as cluster:
        cluster.server.create_all([a_pod(f"slow{i}").labels(slow="yes").obj() for i in range(300)])
        cluster.server.create_all([a_pod(f"p{i}").obj() for i in range(500)])
        while len(bound(cluster)) < 500:
            await some_turns(50)
        engine = cluster.scheduler.engine
        assert len(engine.suspended.under_way) == engine.under_way == 300
        assert len(extender_client.asked) == MAX_CYCLES
        assert cluster.scheduler.busy
        extender_client.open.set()
        await cluster.settle()
        assert len(bound(cluster)) == 800
        assert engine.under_way == 0


async def test_shutdown_cancels_calls_of_extenders():
    extender_client = SlowExtender(first_node)
    async with live(
        *nodes(), extenders=[FakeExtender("e", filters=True)], extender_clients={"e": extender_client}
    ) as cluster:
        cluster.server.create_all([a_pod("p").obj()])
        await some_turns(200)
        assert len(extender_client.asked) == 1
        scheduler = cluster.scheduler
        await scheduler.drain()
        assert scheduler.engine.under_way == 0
        await some_turns(10)
        assert not scheduler._effects.tasks
        extender_client.open.set()
        await some_turns(200)
        assert bound(cluster) == []


async def test_a_lost_lease_ends_suspended_cycles():
    extender_client = SlowExtender(first_node)
    async with live(
        *nodes(), extenders=[FakeExtender("e", filters=True)], extender_clients={"e": extender_client}
    ) as cluster:
        cluster.server.create_all([a_pod("p").obj()])
        await some_turns(200)
        await cluster.scheduler.halt()
        assert cluster.scheduler.engine.under_way == 0
        extender_client.open.set()
        await some_turns(200)
        assert bound(cluster) == []


class Unreliable:
    """Answers from a random stream, sometimes not at all."""

    def __init__(self, seed):
        self._random = Random(seed)

    async def ask(self, verb, question):
        for _ in range(self._random.randrange(40)):
            await asyncio.sleep(0)
        if self._random.random() < 0.1:
            raise Unreachable("moody")
        if verb == "preempt":
            return dict([self._random.choice(sorted(question.items()))])
        nodes = question["nodes"]
        chosen = sorted(self._random.sample(nodes, self._random.randint(1, len(nodes))))
        if verb == "prioritize":
            return {name: self._random.randrange(11) for name in chosen}
        refused = {name: "moody" for name in nodes if name not in chosen}
        return {"kept": chosen, "failed": refused}


def extenders():
    return [
        FakeExtender("filter", filters=True),
        FakeExtender("prioritize", prioritizes=True, weight=2),
        FakeExtender("preempt", preempts=True, ignorable=True),
    ]


async def test_a_run_with_extenders_is_replayed():
    recorded, extender_clients = Recorded(), {extender.name: Unreliable(i) for i, extender in enumerate(extenders())}
    rooms = [a_node(f"n{i}").allocatable(cpu=4, pods=6).obj() for i in range(5)]
    async with live(
        *rooms, recorder=recorded.recorder, extenders=extenders(), extender_clients=extender_clients
    ) as cluster:
        await cluster.create(*(a_pod(f"p{i}").requests(cpu="700m").obj() for i in range(40)))
        await cluster.advance(20.0)
        await cluster.create(priority_class("high", 10))
        await cluster.create(
            *(a_pod(f"high{i}").priority(10, class_name="high").requests(cpu=2).obj() for i in range(5))
        )
        await cluster.delete("pods", "p3")
        await cluster.advance(60.0)
        assert len(bound(cluster)) >= 20
    recorded.check(extenders=extenders())
    asked = b"".join(b"".join(step) for step in recorded.effects)
    for verb in ("filter", "prioritize", "preempt"):
        assert f'"verb":"{verb}"'.encode() in asked
