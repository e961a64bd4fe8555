"""A simulation that starts from a dump continues like the engine that was dumped."""

from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.resuming import resumed
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.types import Pod
from stowplan.kube.config import load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.dumped import decode_dump, encode_dump
from stowplan.scheduler.engine.input_log.input_recorder import Recorder
from stowplan.scheduler.engine.input_log.recording import Replay
from stowplan.scheduler.framework.requests import Delete
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.engine_by_hand import EngineByHand
from support.simulate.simulations import StoppedWatch, WritingDown, node, pod, simulation

#: Long after the last event of the scripts.
END = 120.0


def resume(dump, random, **options):
    """Another engine and simulation, from the dump."""
    dump, registry = decode_dump(encode_dump(dump)), in_tree_registry()
    config = load_config(None, plugins=registry.declarations)
    meter, api = StoppedWatch(), VirtualApi()
    engine = WritingDown(config, registry=registry, now=dump.now, meter=meter, random=random, api=api)
    return engine, resumed(engine, dump, **options)


class RecordedEngine:
    """The engine as its driver sees it, with every step recorded."""

    def __init__(self, engine, recorder):
        self._engine = engine
        self._recorder = recorder
        self.attach = engine.attach
        self.run_plugin = engine.run_plugin

    @property
    def wants_turn(self):
        return self._engine.wants_turn

    def step(self, input_, now):
        return self._recorder.step(self._engine, input_, now)


def set_up(**options):
    engine, time = simulation(**options)
    for name in ("n0", "n1"):
        time.write(node(name))
    return engine, time


def copied(random):
    copy = Random()
    copy.setstate(random.getstate())
    return copy


@st.composite
def scripts(draw):
    """Pods that are created and deleted."""
    found = []
    for i in range(draw(st.integers(1, 14))):
        at, cpu = draw(st.integers(0, 80)) / 2, draw(st.sampled_from("123"))
        found.append((at, pod(f"p{i}", cpu=cpu, priority=draw(st.sampled_from((1, 100))))))
        if draw(st.booleans()):
            gone = Delete(kind=Pod, namespace="default", name=f"p{i}")
            found.append((at + draw(st.integers(1, 60)) / 2, gone))
    return found


def follow(time, script, *, until):
    for at, request in script:
        if time.now < at <= until or at == time.now == 0.0:
            time.at(at, request)
    time.advance(until - time.now)


@examples(60)
@given(script=scripts(), moment=st.integers(0, 40).map(lambda whole: whole + 0.25))
def test_a_dump_continues_identically(script, moment):
    engine, time = set_up()
    follow(time, script, until=moment)
    assert not engine.unfinished(), "unexpected latency"
    before, dump, random = len(engine.written), engine.dump(), copied(engine.random)
    version = time.store.version
    follow(time, script, until=END)
    other, after = resume(dump, random)
    # Deleted objects may have had later versions than the remaining ones, and a dump has only the latter.
    after.store.version = version
    follow(after, script, until=END)
    then = engine.written[before:]
    event("pods are bound" if b"Bind" in then else "no pod is bound")
    assert other.written == then
    assert nodes(after) == nodes(time)


def nodes(time):
    return {one.metadata.name: one.spec.node_name for one in time.store.list(Pod)}


@examples(40)
@given(script=scripts(), moment=st.integers(0, 40).map(lambda whole: whole + 0.25), seconds=st.sampled_from((0.0, 1.5)))
def test_a_recording_may_start_in_the_middle(script, moment, seconds):
    lines, begun = [], []
    engine, _ = set_up()

    def write(written):
        # More steps may follow at the time at which it starts.
        begun.append(len(engine.written))
        lines.append(written)

    recorder = Recorder(write)
    time = VirtualTime(RecordedEngine(engine, recorder), ObjectStore(), latency=Latency(requests=seconds))
    for name in ("n0", "n1"):
        time.write(node(name))
    follow(time, script, until=moment)
    recorder.join(engine, time.now)
    event("at once" if lines else "later")
    while not lines and time.now < END:
        time.advance(0.25)
    recorder.flush()
    follow(time, script, until=END)
    recorder.flush()
    replay = Replay(b"".join(lines).splitlines(keepends=True), in_tree_registry(), meter=ManualTime(), chance=Random())
    assert replay.header.dump is not None
    again = b"".join(b"%r %s\n" % (entry.now, one.encoded()) for entry, effects in replay.steps() for one in effects)
    assert again == engine.written[begun[0] :]


# -- writes that the engine has not observed ---------------------------------------------------------------------------


def taken_over(hand, **options):
    """A simulation from the state of an engine driven by a test."""
    return resume(hand.engine.dump(), copied(hand.engine.random), **options)


def test_an_unobserved_binding_is_delivered():
    hand = EngineByHand()
    hand.create(a_node("n").allocatable(cpu=1, pods=10), a_pod("p").uid("p").requests(cpu=1))
    hand.schedule()
    hand.answer_all()
    assert hand.engine.state.is_assumed("p")
    engine, time = taken_over(hand)
    time.run()
    assert nodes(time) == {"p": "n"}
    assert not engine.state.is_assumed("p")


def test_unobserved_deletions_of_victims_are_delivered():
    hand = EngineByHand()
    hand.create(a_node("n").allocatable(cpu=1, pods=10), a_pod("v").uid("v").requests(cpu=1).on("n"))
    hand.create(a_pod("p").uid("p").requests(cpu=1).priority(10))
    hand.schedule()
    hand.answer_all()
    assert len(hand.engine.evictions) == 1
    _, time = taken_over(hand, latency=Latency(deletions=30.0))
    assert nodes(time) == {"v": "n", "p": ""}
    time.advance(40.0)
    assert nodes(time) == {"p": "n"}


def test_an_unobserved_status_is_delivered():
    hand = EngineByHand()
    hand.create(a_node("n").allocatable(cpu=1, pods=10), a_pod("p").uid("p").requests(cpu=100))
    hand.schedule()
    hand.answer_all()
    assert hand.engine.statuses.dump(), "the patch's response is missing"
    engine, time = taken_over(hand)
    time.run()
    assert [one.reason for one in time.store.get(Pod, "default", "p").status.conditions] == ["Unschedulable"]
    assert engine.statuses.dump() == []


@pytest.mark.parametrize(("runs", "left"), [(None, ["a", "b"]), (30.0, ["b"]), (90.0, ["a", "b"])])
def test_running_pods_finish_at_their_time(runs, left):
    engine, time = set_up()
    time.write(pod("a"))
    time.advance(20.0)
    time.write(pod("b"))
    time.advance(5.0)
    _, after = resume(engine.dump(), copied(engine.random), runs_for=lambda pod: runs)
    after.advance(10.0)
    assert sorted(nodes(after)) == left
