"""An engine that continues from another's dump: the same inputs give the same effects."""

from random import Random

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.dumped import DumpError, UnfinishedDumpError, decode_dump, encode_dump
from stowplan.scheduler.engine.engine import SCHEDULE, TICK
from stowplan.scheduler.engine.input_log.recording import Header, Recording, read_entries, read_header
from stowplan.scheduler.engine.inputs import WallClock
from stowplan.scheduler.engine.written_objects import LAST_APPLIED
from stowplan.scheduler.framework.interface import PermitPlugin, PreFilterPlugin
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.examples import examples, times
from support.scheduling.engine_by_hand import START, EngineByHand
from support.scheduling.engine_histories import History, actions, random_actions


class Twin:
    """A second engine, loaded from a dump, that gets the first one's inputs."""

    def __init__(self, hand):
        self._hand = hand
        dump = hand.engine.dump()
        dumped = encode_dump(dump)
        self.engine = hand.new_engine()
        self.engine.load(decode_dump(dumped))
        self.engine.validate()
        assert encode_dump(self.engine.dump()) == dumped
        #: Further inputs are recorded, and read as a recording that starts with the dump.
        self._lines = []
        header = Header(now=START, configuration={}, gates={}, max_in_unschedulable=300.0, dump=dump)
        self._recording = Recording(self._lines.append, header)
        header = read_header(self._lines.pop())
        self._entries = read_entries(iter(self._lines.pop, None), header)
        #: Number of steps that were compared.
        self.steps = self.effects = 0
        hand.heard.append(self._hear)

    def _hear(self, input_, effects):
        self._recording.add(input_, self._hand.now)
        self._recording.flush()
        also = self.engine.step(next(self._entries).input, self._hand.now)
        assert [effect.encoded() for effect in also] == [effect.encoded() for effect in effects], input_
        self.engine.validate()
        assert self.engine.wants_turn == self._hand.engine.wants_turn
        self.steps, self.effects = self.steps + 1, self.effects + len(effects)


def twin_of(hand):
    """None while the engine has unfinished work; records what."""
    unfinished = hand.engine.unfinished()
    if not unfinished:
        return Twin(hand)
    with pytest.raises(UnfinishedDumpError, match="cannot dump while something is in progress") as raised:
        hand.engine.dump()
    assert raised.value.unfinished == tuple(unfinished)
    return None


def played(history, done, *, quiet_from):
    """Run all actions, with a twin from the first quiet moment after this number of actions."""
    twin = None
    for i, (action, *arguments) in enumerate(done):
        history.apply(action, *arguments)
        if twin is None and i >= quiet_from:
            if i % 3 == 0:
                # Otherwise something is nearly always in progress.
                history.hand.answer_all()
            twin = twin_of(history.hand)
    return twin


@examples(50)
@given(actions=st.lists(actions(), min_size=10, max_size=80), extenders=st.booleans(), quiet_from=st.integers(0, 40))
def test_an_engine_loaded_from_a_dump_behaves_the_same(actions, extenders, quiet_from):
    history = History(extenders=extenders)
    twin = played(history, actions, quiet_from=quiet_from)
    event("dumped" if twin else "never quiet")
    history.check_final_state()


@pytest.mark.parametrize("seed", range(times(5)))
def test_long_histories(seed):
    chance, history = Random(seed), History(extenders=seed % 2 == 1)
    twin = played(history, random_actions(chance, 300), quiet_from=chance.randrange(150))
    history.check_final_state()
    assert twin is not None
    assert twin.effects > 50


# -- what is in a dump ------------------------------------------------------------------------------------------------


def loaded(hand, **changes):
    """Another engine loaded from the dump, decoded and modified."""
    engine = hand.new_engine()
    dump = decode_dump(encode_dump(hand.engine.dump()))
    engine.load(msgspec.structs.replace(dump, **changes))
    engine.validate()
    return engine


def full_node(hand, *names):
    hand.create(a_node("n").allocatable(cpu=len(names), pods=10))
    for name in names:
        hand.create(a_pod(name).uid(name).requests(cpu=1).on("n"))


def test_preemptors_stay_gated_for_terminating_victims():
    hand = EngineByHand()
    full_node(hand, "v")
    hand.create(a_pod("p").uid("p").requests(cpu=1).priority(10))
    hand.schedule()
    hand.answer_all()
    assert hand.news[Pod], "the victim's deletion is not seen yet"
    assert len(hand.engine.evictions) == 1
    twin = Twin(hand)
    preemptor = twin.engine.state.pending.get("default/p")
    assert twin.engine.evictions.under_way(preemptor)
    assert twin.engine.state.nominator.node_of("p") == "n"
    hand.deliver(Pod)
    assert not twin.engine.evictions.under_way(preemptor)
    hand.advance(2)
    hand.schedule()
    hand.answer_all()
    hand.deliver(Pod)
    assert twin.engine.state.placed("p").node_name == "n"


def test_the_wall_clock_offset_is_kept():
    hand = EngineByHand()
    hand.submit(WallClock(3600.0))
    hand.create(a_node("n").allocatable(cpu=1, pods=10))
    Twin(hand)
    hand.create(a_pod("p").uid("p").requests(cpu=100))
    hand.schedule()
    assert hand.under_way


def test_the_last_applied_annotation_is_not_dumped():
    hand = EngineByHand()
    secret = {LAST_APPLIED: "the environment", "team": "blue"}
    hand.create(a_node("n").annotations(secret), a_pod("p").annotations(secret).on("n"), a_pod("q").annotations(secret))
    data = encode_dump(hand.engine.dump())
    assert b"the environment" not in data
    assert data.count(b'"team":"blue"') == 3


class Counting(PreFilterPlugin):
    """Counts its calls in a transaction participant, and dumps the count."""

    name = "Counting"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.asked = 0
        handle.register_participant("asked", self)

    def pre_filter(self, state, pod, nodes):
        self.asked += 1

    def begin(self):
        return self.asked

    def undo(self, mark):
        self.asked = mark

    def keep(self, mark):
        pass

    def changed_nodes(self, mark):
        return ()

    def dump(self):
        return {"asked": self.asked}

    def load(self, dumped):
        self.asked = dumped["asked"]


def test_plugins_transaction_participants_are_dumped():
    hand = EngineByHand(Counting)
    hand.create(a_node("n").allocatable(cpu=1, pods=10), a_pod("p").uid("p").requests(cpu=100))
    hand.schedule()
    hand.answer_all()
    engine = loaded(hand)
    assert engine.frameworks["default-scheduler"].plugins["Counting"].asked == 1


# -- refusals ---------------------------------------------------------------------------------------------------------


class Doorman(PermitPlugin):
    name = "Doorman"

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 60.0


def test_unfinished_work_is_named_in_the_error():
    hand = EngineByHand(Doorman)
    hand.create(a_node("n").allocatable(cpu=4, pods=100), *(a_pod(f"p{i}").uid(f"p{i}") for i in range(12)))
    hand.schedule(1)
    hand.answer_all()
    with pytest.raises(UnfinishedDumpError, match=r"in progress: binding of pod default/p0: permit$"):
        hand.engine.dump()
    hand.schedule()
    hand.answer_all()
    with pytest.raises(UnfinishedDumpError, match=r"p9: permit; and 2 more$"):
        hand.engine.dump()


def test_no_transaction_may_be_open():
    hand = EngineByHand()
    with hand.engine.state.transaction(), pytest.raises(UnfinishedDumpError, match="a transaction is open"):
        hand.engine.dump()


def test_only_a_fresh_engine_can_be_loaded():
    hand = EngineByHand()
    hand.create(a_node("n"))
    with pytest.raises(DumpError, match="that has not taken a step"):
        hand.engine.load(hand.engine.dump())


def test_loading_requires_the_same_configuration():
    hand, two = EngineByHand(), EngineByHand(profiles=("default-scheduler", "other"))
    with pytest.raises(DumpError, match="the profiles default-scheduler, other, and this engine has default-scheduler"):
        hand.new_engine().load(two.engine.dump())
    with pytest.raises(DumpError, match=r'the parts .*"default-scheduler/asked"'):
        hand.new_engine().load(EngineByHand(Counting).engine.dump())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"hello", "no dump of an engine", id="invalid JSON"),
        pytest.param(b"{}", "no dump of an engine.*`version`", id="something else"),
        pytest.param(b'{"version": 99}', "this dump has version 99, want 1", id="another version"),
        pytest.param(b'{"version": 1, "now": "late"}', "no dump of an engine", id="wrong type"),
    ],
)
def test_an_invalid_dump_is_refused(data, said):
    with pytest.raises(DumpError, match=said):
        decode_dump(data)


def test_the_first_tick_after_loading_returns_the_next_wake_up():
    hand = EngineByHand()
    hand.advance(0.3)
    engine = loaded(hand)
    assert [effect.action.at for effect in engine.step(TICK, hand.now)] == [START + 0.75]
    assert engine.step(SCHEDULE, hand.now) == []
