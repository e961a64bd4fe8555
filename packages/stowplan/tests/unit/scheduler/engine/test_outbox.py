"""Numbers of effects, recipients of their answers, and who is woken when."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.engine.effects import Cancel, Wake, Withdraw
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.framework.requests import Bind, Done, Refused
from support.examples import examples

REQUEST = Bind(namespace="default", name="p", uid="u", node="n")
OTHER = Bind(namespace="default", name="q", uid="v", node="n")


class Waiter:
    """Records its calls; `then` is called when it is woken."""

    def __init__(self, name="", heard=None, then=None):
        self.name = name
        self.heard = [] if heard is None else heard
        self.then = then

    def answered(self, number, outcome):
        self.heard.append((number, outcome))

    def on_wake(self):
        self.heard.append(self.name)
        if self.then is not None:
            self.then()


@pytest.fixture
def outbox():
    made = Outbox()
    yield made
    assert made.problems() == []


def actions(outbox):
    return [effect.action for effect in outbox.take()]


def numbered(outbox):
    return [(effect.number, effect.action) for effect in outbox.take()]


# -- effects ----------------------------------------------------------------------------------------------------------


def test_effects_are_numbered_in_their_order_and_taken_once(outbox):
    who = Waiter()
    assert [outbox.emit(REQUEST), outbox.ask(OTHER, who), outbox.emit(REQUEST)] == [1, 2, 3]
    assert numbered(outbox) == [(1, REQUEST), (2, OTHER), (3, REQUEST)]
    assert outbox.take() == []
    assert outbox.emit(OTHER) == 4
    assert outbox.awaited == {2: who}


def test_an_answer_goes_to_the_asker_once(outbox):
    first, second = Waiter(), Waiter()
    numbers = [outbox.ask(REQUEST, first), outbox.ask(REQUEST, second)]
    refused = Refused(RuntimeError("no"))
    outbox.answered(numbers[1], refused)
    outbox.answered(numbers[0], Done())
    outbox.answered(numbers[0], Done())
    assert (first.heard, second.heard) == ([(1, Done())], [(2, refused)])
    assert outbox.awaited == {}


def test_answers_without_a_waiter_are_ignored(outbox):
    who = Waiter()
    told, asked = outbox.emit(REQUEST), outbox.ask(OTHER, who)
    outbox.answered(told, Done())
    outbox.answered(99, Done())
    assert (who.heard, outbox.awaited) == ([], {asked: who})


def test_a_cancelled_effect_is_still_answered(outbox):
    who = Waiter()
    number = outbox.ask(REQUEST, who)
    outbox.cancel(number, "preempted")
    assert actions(outbox) == [REQUEST, Cancel(number, "preempted")]
    outbox.answered(number, Done())
    assert who.heard == [(number, Done())]


def test_the_answer_to_a_withdrawn_effect_is_dropped(outbox):
    who = Waiter()
    number = outbox.ask(REQUEST, who)
    outbox.withdraw(number)
    assert actions(outbox) == [REQUEST, Withdraw(number)]
    outbox.answered(number, Done())
    assert who.heard == []


@pytest.mark.parametrize("over", ["answered", "withdrawn", "told", "unknown"])
def test_a_finished_effect_is_neither_cancelled_nor_withdrawn(outbox, over):
    number = 99 if over == "unknown" else outbox.emit(REQUEST) if over == "told" else outbox.ask(REQUEST, Waiter())
    if over == "answered":
        outbox.answered(number, Done())
    elif over == "withdrawn":
        outbox.withdraw(number)
    outbox.take()
    outbox.cancel(number, "preempted")
    outbox.withdraw(number)
    assert outbox.take() == []


# -- the end of the step ----------------------------------------------------------------------------------------------


def test_soon_wakes_in_order_before_the_step_ends(outbox):
    heard = []
    a, b = Waiter("a", heard), Waiter("b", heard)
    outbox.at_step_end(a)
    outbox.at_step_end(b)
    assert heard == []
    outbox.finish()
    assert heard == ["a", "b"]
    outbox.finish()
    assert heard == ["a", "b"]


# -- objects ----------------------------------------------------------------------------------------------------------

CLAIM, NODE = ("PersistentVolumeClaim", "default/c"), ("Node", "/n")


def test_a_changed_object_wakes_its_waiter_at_the_end_of_the_step(outbox):
    a = Waiter("a")
    assert not outbox.watched_by
    outbox.watch(CLAIM, a)
    assert outbox.watched_by
    outbox.changed(NODE)
    outbox.finish()
    assert a.heard == []
    outbox.changed(CLAIM)
    assert a.heard == []
    outbox.finish()
    assert a.heard == ["a"]


def test_a_wait_for_several_objects_ends_with_the_first_change(outbox):
    """Otherwise the second change would end a wait that it has started since."""
    a = Waiter("a")
    outbox.watch(CLAIM, a)
    outbox.watch(NODE, a)
    outbox.changed(CLAIM)
    outbox.changed(NODE)
    outbox.changed(CLAIM)
    outbox.finish()
    assert a.heard == ["a"]
    assert not outbox.watched_by
    outbox.changed(NODE)
    outbox.finish()
    assert a.heard == ["a"]


def test_a_woken_waiter_may_wait_for_the_same_object_again(outbox):
    a = Waiter("a", then=lambda: outbox.watch(CLAIM, a))
    outbox.watch(CLAIM, a)
    for _ in range(3):
        outbox.changed(CLAIM)
        outbox.finish()
    assert a.heard == ["a", "a", "a"]
    outbox.unwatch(a)


def test_only_current_waiters_are_woken(outbox):
    heard = []
    a, b = Waiter("a", heard), Waiter("b", heard)
    for who in (a, b):
        outbox.watch(CLAIM, who)
        outbox.watch(NODE, who)
    outbox.watch(NODE, a)
    outbox.unwatch(a)
    outbox.unwatch(a)
    assert list(outbox.watchers) == [(CLAIM, b), (NODE, b)]
    outbox.changed(NODE)
    outbox.finish()
    assert heard == ["b"]


# -- alarms -----------------------------------------------------------------------------------------------------------


def test_the_driver_gets_only_earlier_wake_up_times(outbox):
    a = Waiter("a")
    for at in (5.0, 7.0, 3.0, 3.0, 4.0):
        outbox.wake(at, a)
    assert actions(outbox) == [Wake(5.0), Wake(3.0)]


def test_cancelled_alarms_do_not_pile_up(outbox):
    """A gang's Permit timeouts are set and cancelled at once, and are many minutes away."""
    kept = Waiter("kept")
    outbox.wake(900.0, kept)
    for _ in range(20_000):
        outbox.wake(900.0, Waiter()).cancel()
    assert len(outbox._alarms) < 2000
    outbox.now = 900.0
    outbox.ring()
    assert kept.heard == ["kept"]


def test_a_waiter_that_raises_does_not_block_others():
    outbox, heard = Outbox(), []

    def fail():
        raise RuntimeError("a bug")

    outbox.wake(1.0, Waiter("a", heard, then=fail))
    outbox.wake(2.0, Waiter("b", heard))
    outbox.now = 3.0
    with pytest.raises(RuntimeError, match="a bug"):
        outbox.ring()
    outbox.ring()
    assert heard == ["a", "b"]


TIMES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 5.0))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wake"), TIMES),
        st.tuples(st.just("wake when rung"), TIMES),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("pass"), TIMES),
    ),
    max_size=30,
)


@examples(300)
@given(steps=STEPS)
def test_alarms_ring_like_a_plain_list_of_times(steps):
    outbox, heard = Outbox(), []
    #: Each alarm as (time, number, alarm), until it rings.
    wanted, expected, number = {}, [], 0
    #: Times at which the driver sends a tick.
    ticks = []

    def wake(after, again=None):
        nonlocal number
        number += 1
        mine, then = number, None
        if again is not None:

            def then():
                wake(again)

        alarm = outbox.wake(outbox.now + after, Waiter(mine, heard, then=then))
        wanted[mine] = (outbox.now + after, mine, alarm)

    def take():
        ticks.extend(effect.action.at for effect in outbox.take())

    def tick():
        due = sorted(entry[:2] for entry in wanted.values() if entry[0] <= outbox.now)
        for _, mine in due:
            del wanted[mine]
        expected.extend(mine for _, mine in due)
        outbox.ring()
        take()

    for step, value in steps:
        match step:
            case "wake":
                wake(value)
            case "wake when rung":
                wake(1.0, again=value)
            case "cancel" if wanted:
                entry = wanted.pop(sorted(wanted)[value % len(wanted)])
                entry[2].cancel()
            case "pass":
                until = outbox.now + value
                # A driver that sends no tick without being asked.
                while min(ticks, default=inf) <= until:
                    outbox.now = max(outbox.now, min(ticks))
                    ticks = [at for at in ticks if at > outbox.now]
                    tick()
                outbox.now = until
                # No alarm was missed.
                assert all(at > until for at, *_ in wanted.values())
        take()
        assert outbox.problems() == []
        assert heard == expected
        assert {alarm for *_, alarm in wanted.values()} == set(outbox.alarms)
