"""The backoff of pods that failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.declarations import Reads
from stowplan.scheduler.framework.events import NODE, PVC, Action, on
from stowplan.scheduler.queue.backoff import surrounding_ticks
from stowplan.testing import a_pod
from support.examples import examples
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for

WAITS = plugin_waiting_for("P", on(PVC, Action.Add), on(NODE, Action.Add))


def expiries(harness, times, *plugins):
    """Seconds of backoff after each of that many failures."""
    harness.add(a_pod("a"))
    queued, found = harness.queue.pop(), []
    for _ in range(times):
        harness.fail_attempt(queued, *plugins)
        if plugins:
            harness.handle_event(event(PVC))
        found.append((queued.backoff_expiration or queued.timestamp) - harness.now)
        harness.advance_flushing(20)
        assert harness.queue.pop() is queued
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, [1, 2, 4, 8, 10, 10, 10], id="the defaults"),
        pytest.param({"initial_backoff": 3, "max_backoff": 7}, [3, 6, 7, 7], id="a cap that is no power"),
        pytest.param({"initial_backoff": 5, "max_backoff": 5}, [5, 5], id="constant"),
        pytest.param({"initial_backoff": 9, "max_backoff": 5}, [5, 5], id="a cap below the first"),
        pytest.param({"max_backoff": 0}, [0, 0, 0], id="none at all"),
    ],
)
@pytest.mark.parametrize("plugins", [("P",), ()], ids=["rejected", "error"])
def test_backoff_doubles_until_its_cap(settings, expected, plugins):
    assert expiries(QueueHarness(WAITS, **settings), len(expected), *plugins) == expected


def test_backoff_never_overflows():
    harness = QueueHarness(WAITS)
    harness.add_rejected(a_pod("a"), "P")
    queued = harness.queue.get("default/a")
    queued.unschedulable_count = 100_000
    harness.handle_event(event(PVC))
    assert queued.backoff_expiration == harness.now + 10


@pytest.mark.parametrize(
    ("pop_from_backoff", "failed_at", "free_at"),
    [
        pytest.param(True, 1000.0, 1002.0, id="in the second of its expiry it still backs off"),
        pytest.param(True, 1000.75, 1002.0, id="expiry is cut to the second"),
        pytest.param(False, 1000.0, 1002.0, id="exact: in the very moment it still backs off"),
        pytest.param(False, 1000.75, 1002.0, id="exact: the next look after the expiry"),
    ],
)
def test_end_of_the_backoff(pop_from_backoff, failed_at, free_at):
    harness = QueueHarness(WAITS, pop_from_backoff=pop_from_backoff)
    harness.now = failed_at
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(PVC))
    assert harness.queue.next_flush() == free_at
    harness.advance(free_at - harness.now - 0.125)
    assert harness.place("a") == "BACKOFF"
    harness.advance(0.125)
    assert harness.place("a") == "ACTIVE"


@examples(200)
@given(st.floats(-1e6, 2e9), st.floats(0, 2e9), st.sampled_from((1.0, 30.0)), st.lists(st.floats(0, 100), max_size=5))
def test_the_next_check_is_always_later(moment, tick, interval, steps):
    """Despite rounding; otherwise an entry could be due forever."""
    for step in steps:
        last, tick = surrounding_ticks(moment, tick, interval)
        assert last <= moment < tick
        assert tick - last == pytest.approx(interval)
        moment = max(moment + step, tick)


# -- popped early -----------------------------------------------------------------------------------------------------

ALIKE = plugin_waiting_for("P", on(PVC, Action.Add), on(NODE, Action.Add), reads=Reads.NODES, pre_filter=None)


def woken(*pods, plugin=ALIKE):
    """A harness with rejected pods that an event brought to backoff."""
    harness = QueueHarness(plugin)
    harness.add(*pods)
    for queued in [harness.queue.pop() for _ in pods]:
        harness.fail_attempt(queued, "P")
    harness.handle_event(event(PVC))
    return harness


def test_a_pod_is_not_popped_early_once_an_equal_one_was_rejected_again():
    harness = woken(a_pod("a"), a_pod("b"), a_pod("c"), a_pod("other").labels(app="x"))
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() == "other"
    assert harness.pop() is None
    assert not harness.queue.can_pop
    assert [harness.place(name) for name in "abc"] == ["UNSCHEDULABLE", "BACKOFF", "BACKOFF"]
    assert harness.queue.get("default/b").attempts == 1
    assert harness.queue.problems() == []


def test_the_next_event_gives_equal_pods_another_chance_one_by_one():
    harness = woken(a_pod("a"), a_pod("b"), a_pod("c"))
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() is None
    harness.handle_event(event(NODE))
    first = harness.queue.pop()
    assert first.pod.pod.metadata.name == "b", "the one whose backoff ends first"
    harness.queue.done(first.pod.uid)
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() is None
    assert {name: harness.place(name) for name in "ac"} == {"a": "BACKOFF", "c": "UNSCHEDULABLE"}


def test_a_pod_that_is_not_popped_early_waits_for_the_end_of_its_backoff():
    harness = woken(a_pod("a"), a_pod("b"), a_pod("c"))
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() is None
    assert harness.queue.next_flush() == harness.now + 2
    harness.advance(2)
    assert [harness.place(name) for name in "abc"] == ["UNSCHEDULABLE", "ACTIVE", "ACTIVE"]
    assert [harness.pop(), harness.pop()] == ["b", "c"]


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda harness: harness.delete(a_pod("a")), id="is deleted"),
        pytest.param(lambda harness: harness.update(a_pod("a"), a_pod("a").labels(app="x")), id="is no longer equal"),
        pytest.param(lambda harness: harness.queue.nominate(harness.info(a_pod("a")), "n"), id="is nominated"),
        pytest.param(lambda harness: harness.queue.activate([harness.info(a_pod("a"))]), id="is activated"),
    ],
)
def test_a_rejection_counts_while_its_pod_waits_for_an_event(ends):
    harness = woken(a_pod("a"), a_pod("b"))
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() is None
    ends(harness)
    found = [harness.pop(), harness.pop()]
    assert "b" in found


@pytest.mark.parametrize(
    ("plugin", "pod"),
    [
        pytest.param(WAITS, a_pod("b"), id="the plugin does not declare what it reads"),
        pytest.param(ALIKE, a_pod("b").labels(app="x"), id="the pods are not equal"),
        pytest.param(ALIKE, a_pod("b").priority(-1), id="their priorities are not equal"),
    ],
)
def test_other_rejections_say_nothing(plugin, pod):
    harness = woken(a_pod("a"), pod, plugin=plugin)
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() == "b"


def test_a_nominated_pod_is_popped_early_all_the_same():
    harness = woken(a_pod("a"), a_pod("b"))
    harness.fail_attempt(harness.queue.pop(), "P")
    assert harness.pop() is None
    harness.queue.nominate(harness.queue.get("default/b").pod, "n")
    assert harness.pop() == "b"
