"""What is due comes by time, and within a moment as it was put in."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.changes import Change
from stowplan.api.types import Node, Pod
from stowplan.engine.inputs import Changes, Tick
from stowplan.simulate.agenda import Agenda


def drained(agenda):
    taken = []
    while agenda.line:
        taken.append(take(agenda))
    return taken


def take(agenda):
    """What is due next, as the driver takes it."""
    item = agenda.line.popleft()
    if isinstance(item, Changes) and agenda.batches.get(item.kind) is item.changes:
        del agenda.batches[item.kind]
    return item


def test_now_goes_to_the_end_of_the_line_and_later_waits():
    agenda = Agenda(10.0)
    agenda.put(11.0, "later")
    agenda.put(10.0, "now")
    agenda.put(3.0, "overdue")
    assert drained(agenda) == ["now", "overdue"]
    assert agenda.next == 11.0
    agenda.go_on(inf, for_ticks=True)
    assert (agenda.now, drained(agenda), agenda.next) == (11.0, ["later"], inf)


def test_what_waited_for_a_moment_comes_before_what_comes_up_in_it():
    agenda = Agenda(0.0)
    agenda.put(1.0, "first")
    agenda.put(1.0, "second")
    agenda.go_on(inf, for_ticks=True)
    agenda.put(1.0, "third")
    assert drained(agenda) == ["first", "second", "third"]


def test_changes_of_a_kind_and_moment_are_one_batch():
    agenda = Agenda(0.0)
    pods, node = [Change(None, Pod()) for _ in range(3)], Change(None, Node())
    agenda.put(1.0, pods[0])
    agenda.put(1.0, "between")
    agenda.put(1.0, node)
    agenda.put(1.0, pods[1])
    agenda.go_on(inf, for_ticks=True)
    agenda.put(1.0, pods[2])
    assert drained(agenda) == [Changes(Pod, pods), "between", Changes(Node, [node])]


def test_a_batch_that_was_taken_is_closed():
    agenda = Agenda(0.0)
    first, second = Change(None, Pod()), Change(Pod(), None)
    agenda.put(0.0, first)
    taken = take(agenda)
    agenda.put(0.0, second)
    assert taken == Changes(Pod, [first])
    assert drained(agenda) == [Changes(Pod, [second])]


def test_changes_of_a_caller_stay_its_own():
    agenda = Agenda(0.0)
    mine = Changes(Pod, [Change(None, Pod())])
    agenda.put(0.0, mine)
    agenda.put(0.0, Change(Pod(), None))
    assert take(agenda) is mine
    agenda.put(0.0, Change(None, Pod()))
    assert [len(item.changes) for item in drained(agenda)] == [2]


def test_ticks_come_once_a_moment_and_are_counted_apart():
    agenda = Agenda(0.0)
    for at in (2.0, 1.0, 2.0):
        agenda.wake(at)
    assert agenda.only_wakes
    agenda.put(2.0, "real")
    assert not agenda.only_wakes
    agenda.go_on(inf, for_ticks=True)
    assert drained(agenda) == [Tick()]
    agenda.wake(2.0)
    agenda.go_on(inf, for_ticks=True)
    assert drained(agenda) == [Tick(), "real"]
    assert agenda.only_wakes
    assert agenda.next == inf


def test_a_time_that_has_come_ticks_now():
    agenda = Agenda(5.0)
    agenda.wake(4.0)
    assert not agenda.only_wakes
    assert drained(agenda) == [Tick()]


def test_it_goes_on_to_the_next_moment_that_is_not_too_late():
    agenda = Agenda(0.0)
    agenda.wake(1.0)
    assert not agenda.go_on(2.0, for_ticks=False)
    agenda.put(2.0, "real")
    assert not agenda.go_on(0.5, for_ticks=False)
    assert agenda.go_on(2.0, for_ticks=False)
    assert (agenda.now, drained(agenda)) == (1.0, [Tick()])
    assert agenda.go_on(2.0, for_ticks=False)
    assert (agenda.now, drained(agenda)) == (2.0, ["real"])
    agenda.wake(3.0)
    assert agenda.go_on(3.0, for_ticks=True)
    assert not agenda.go_on(inf, for_ticks=True)


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 4)),
    st.tuples(st.just("wake"), st.integers(0, 4)),
    st.tuples(st.just("take"), st.none()),
    st.tuples(st.just("advance"), st.none()),
)


@given(st.lists(steps, max_size=40))
def test_a_sorted_list_says_the_same(script):
    """The plain rule: sort by the time it is due, but not before it was put in, then by number."""
    agenda, plain, number = Agenda(0.0), [], 0
    for step, seconds in script:
        if step == "put":
            number += 1
            at = agenda.now + seconds - 1
            agenda.put(at, number)
            plain.append((max(at, agenda.now), number, number))
        elif step == "wake":
            number += 1
            at = agenda.now + seconds
            if (at, Tick()) not in [(when, what) for when, _, what in plain] or at == agenda.now:
                plain.append((at, number, Tick()))
            agenda.wake(at)
        elif step == "take":
            due = sorted(plain, key=lambda one: one[:2])
            if agenda.line:
                assert take(agenda) == due[0][2]
                plain.remove(due[0])
            else:
                assert not due or due[0][0] > agenda.now
        elif not agenda.line and agenda.next < inf:
            agenda.go_on(inf, for_ticks=True)
            assert agenda.now == min(at for at, _, _ in plain)
        assert agenda.next == min((at for at, _, _ in plain if at > agenda.now), default=inf)
        assert len(agenda.line) == sum(at <= agenda.now for at, _, _ in plain)
        only_wakes = all(what == Tick() and at > agenda.now for at, _, what in plain)
        assert agenda.only_wakes == only_wakes
