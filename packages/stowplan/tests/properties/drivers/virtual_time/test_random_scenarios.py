"""Random scenarios in simulated time: the engine is valid after each step, agrees with the store, and is
deterministic.

Pods of two priorities are created, wait on Permit, are prepared by a coroutine, are deleted or bound by another
client; nodes are added, deleted and cordoned; requests, responses and events have latencies, and some writes are
refused.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.latency import Latency, Uniform
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import ServiceUnavailable
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.interface import PreBindPlugin
from stowplan.scheduler.framework.requests import Bind, Delete, Patch
from stowplan.scheduler.framework.status import Code, Status
from support.examples import examples
from support.plugins.answering_plugins import answering, configuration, profile
from support.simulate.simulations import node, pod, simulation


class FaultyStore(ObjectStore):
    """Refuses some of the writes after the first ones."""

    def __init__(self, chance, share):
        super().__init__()
        self._chance, self._share = chance, share
        self.begun = False

    def write(self, request, now):
        if self.begun and self._chance.random() < self._share:
            raise ServiceUnavailable("not now")
        return super().write(request, now)


class Prepares(PreBindPlugin):
    """Labels pods whose name is odd."""

    name = "Prepares"

    async def pre_bind(self, state, pod, node_name):
        meta = pod.pod.metadata
        if int(meta.name[1:]) % 2:
            body = {"metadata": {"labels": {"prepared": "yes"}}}
            await self.handle.api.patch(Pod, meta.name, body, type_="merge", namespace=meta.namespace)


def permit(state, pod, node_name):
    waits = int(pod.pod.metadata.name[1:]) % 5 == 0
    return (Status(Code.Wait), 20.0) if waits else (None, 0.0)


Holds = answering("Holds", permit=permit)

times = st.integers(0, 120).map(lambda quarters: quarters / 4)
names = st.integers(0, 11).map("p{}".format)
nodes = st.sampled_from(("n0", "n1", "n2"))


def _delete(kind, name):
    return Delete(kind=kind, namespace="" if kind is Node else "default", name=name)


def _cordon(name, cordoned):
    return Patch(kind=Node, namespace="", name=name, body={"spec": {"unschedulable": cordoned}}, type_="merge")


events = st.one_of(
    st.builds(pod, names, cpu=st.sampled_from(("1", "2", "3")), priority=st.sampled_from((1, 100))),
    st.builds(pod, names, cpu=st.just("2"), priority=st.sampled_from((1, 100))),
    st.builds(_delete, st.just(Pod), names),
    st.builds(lambda name, node: Bind(namespace="default", name=name, uid="", node=node), names, nodes),
    st.builds(node, nodes, cpu=st.sampled_from(("2", "4"))),
    st.builds(_delete, st.just(Node), nodes),
    st.builds(_cordon, nodes, st.booleans()),
)


def simulated(script, seconds, share, seed):
    chance = Random(seed)
    delay = Uniform(0.0, seconds, random=chance.random) if seconds else 0.0
    store = FaultyStore(chance, share)
    engine, time = simulation(
        Prepares,
        Holds,
        config=configuration(profile(permit=[Holds], preBind=[Prepares])),
        store=store,
        latency=Latency(requests=delay, answers=delay, watches=delay, deletions=3.0),
        runs_for=lambda pod: 15.0 if pod.metadata.name < "p6" else None,
    )
    for name in ("n0", "n1"):
        time.write(node(name))
    store.begun = True
    for at, event in script:
        time.at(at, event)
    time.run()
    time.advance(60.0)
    return engine, time


@examples(40)
@given(
    st.lists(st.tuples(times, events), max_size=25),
    st.sampled_from((0.0, 0.0, 0.5, 2.0)),
    st.sampled_from((0.0, 0.1)),
    st.integers(0, 3),
)
def test_the_engine_and_the_store_agree_in_the_end(script, seconds, share, seed):
    engine, time = simulated(script, seconds, share, seed)
    assert time.under_way == 0
    assert engine.under_way == engine.resting
    bound = {one.metadata.uid: one.spec.node_name for one in time.store.list(Pod) if one.spec.node_name}
    placed = {info.uid: info.node_name for info in engine.state.placed_pods() if not engine.state.is_assumed(info.uid)}
    assert placed == bound
    again, _ = simulated(script, seconds, share, seed)
    assert again.written == engine.written
