"""The engine in virtual time: pods are placed, preempt and wait, deterministically."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from stowplan.drivers.virtual_time.latency import Latency, Uniform
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.interface import PreBindPlugin
from stowplan.scheduler.framework.requests import Bind, Delete, Patch
from stowplan.scheduler.framework.status import Code, Status
from support.paths import TESTS
from support.plugins.answering_plugins import answering, configuration, profile
from support.simulate.simulations import node, pod, simulation


def placements(time):
    return {one.metadata.name: one.spec.node_name for one in time.store.list(Pod)}


def test_finished_pods_free_their_resources():
    _, time = simulation(runs_for=lambda pod: 100.0)
    time.write(node("n1", cpu="1"))
    for i in range(3):
        time.write(pod(f"p{i}"))
    time.run()
    assert time.store.count(Pod) == 0
    assert time.now >= 300.0


def test_victims_with_a_grace_period():
    _, time = simulation(latency=Latency(requests=0.01, watches=0.01, deletions=30.0))
    time.write(node("n1", cpu="1"))
    time.write(pod("low", priority=1))
    time.run()
    time.write(pod("high", priority=100))
    began = time.now
    time.run()
    assert placements(time) == {"high": "n1"}
    assert 30.0 < time.now - began < 32.0


class Prepares(PreBindPlugin):
    """Labels its pod by the API, or awaits something unsupported."""

    name = "Prepares"
    awaits = staticmethod(lambda handle, pod: None)

    async def pre_bind(self, state, pod, node_name):
        await type(self).awaits(self.handle, pod)


async def labels(handle, pod):
    body = {"metadata": {"labels": {"prepared": "yes"}}}
    await handle.api.patch(Pod, pod.pod.metadata.name, body, type_="merge", namespace=pod.namespace)


async def foreign(handle, pod):
    import asyncio

    await asyncio.sleep(1)


@pytest.mark.parametrize("seconds", [0.0, 0.25])
def test_a_plugin_awaits_the_api(monkeypatch, seconds):
    monkeypatch.setattr(Prepares, "awaits", staticmethod(labels))
    config = configuration(profile(preBind=[Prepares]))
    _, time = simulation(Prepares, config=config, latency=Latency(requests=seconds))
    time.write(node("n1"))
    time.write(pod("web"))
    time.run()
    (web,) = time.store.list(Pod)
    assert (web.spec.node_name, web.metadata.labels) == ("n1", {"prepared": "yes"})


def test_a_plugin_that_awaits_something_else_fails_the_attempt(monkeypatch):
    monkeypatch.setattr(Prepares, "awaits", staticmethod(foreign))
    engine, time = simulation(Prepares, config=configuration(profile(preBind=[Prepares])))
    time.write(node("n1"))
    time.write(pod("web"))
    time.run()
    (web,) = time.store.list(Pod)
    assert web.spec.node_name == ""
    message = web.status.conditions[0].message
    assert 'plugin "Prepares" awaited something that needs an event loop in PreBind' in message
    assert engine.under_way == 0


def test_permit_waits_in_virtual_time():
    Waits = answering("Waits", permit=(Status(Code.Wait), 600.0))
    engine, time = simulation(Waits, config=configuration(profile(permit=[Waits])))
    time.write(node("n1"))
    time.write(pod("web"))
    time.run()
    assert len(engine.waiting_pods) == 1, "not idle until a timer"
    time.advance(300.0)
    assert len(engine.waiting_pods) == 1
    engine.waiting_pods.get(time.store.list(Pod)[0].metadata.uid).allow("Waits")
    time.run()
    assert placements(time) == {"web": "n1"}


# -- the same again ----------------------------------------------------------------------------------------------------


def a_day(seed, latency_seed=7):
    """Pods of two priorities are created and deleted, nodes are cordoned, and other clients bind; returns the effects'
    bytes."""
    world, chance = Random(seed), Random(latency_seed)
    seconds = Uniform(0.0, 0.3, random=chance.random)
    latency = Latency(requests=seconds, answers=seconds, watches=seconds, deletions=5.0)
    engine, time = simulation(latency=latency, runs_for=lambda pod: 40.0, checked=False)
    for i in range(4):
        time.write(node(f"n{i}"))
    for i in range(80):
        at = world.uniform(0.0, 100.0)
        time.at(at, pod(f"p{i}", cpu=world.choice(("1", "2")), priority=world.choice((1, 100))))
        if world.random() < 0.2:
            time.at(at + world.uniform(0.0, 2.0), Delete(kind=Pod, namespace="default", name=f"p{i}"))
        if world.random() < 0.1:
            time.at(at, Bind(namespace="default", name=f"p{i}", uid="", node="n0"))
        if world.random() < 0.1:
            body = {"spec": {"unschedulable": world.random() < 0.5}}
            time.at(at, Patch(kind=Node, namespace="", name="n1", body=body, type_="merge"))
    time.run()
    time.advance(30.0)
    return engine.written, time.now, time.store.version


def test_another_process_gives_the_same_bytes():
    """No order depends on string hashes, which differ between processes."""
    program = "from test_with_the_engine import a_day; import sys; sys.stdout.buffer.write(a_day(3)[0])"
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{TESTS}"}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert run.stdout == a_day(3)[0]
