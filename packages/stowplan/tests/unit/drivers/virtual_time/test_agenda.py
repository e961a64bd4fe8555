"""The agenda orders by time, and by insertion within a moment."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.engine.inputs import Changes, Tick


def drained(agenda):
    taken = []
    while agenda.line:
        taken.append(take(agenda))
    return taken


def take(agenda):
    """Take what is due next, as the driver does."""
    item = agenda.line.popleft()
    if isinstance(item, Changes) and agenda.batches.get(item.kind) is item.changes:
        del agenda.batches[item.kind]
    return item


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


def test_the_callers_list_is_not_modified():
    agenda = Agenda(0.0)
    mine = Changes(Pod, [Change(None, Pod())])
    agenda.put(0.0, mine)
    agenda.put(0.0, Change(Pod(), None))
    assert take(agenda) is mine
    agenda.put(0.0, Change(None, Pod()))
    assert [len(item.changes) for item in drained(agenda)] == [2]


def test_advancing_to_the_next_moment_within_the_limit():
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
def test_agrees_with_a_sorted_list(script):
    """The plain rule: sort by due time (at least the insertion time), then by number."""
    agenda, plain, number = Agenda(0.0), [], 0
    for step, seconds in script:
        if step == "put":
            number += 1
            at = agenda.now + seconds - 1
            agenda.put(at, number)
            plain.append((max(at, agenda.now), number, number))
        elif step == "wake":
            number += 1
            wanted = agenda.now + seconds - 1
            at = max(wanted, agenda.now)
            if (at, Tick()) not in [(when, what) for when, _, what in plain] or at == agenda.now:
                plain.append((at, number, Tick()))
            agenda.wake(wanted)
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
