"""The backoff of pods that failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.events import NODE, PVC, Action, Hint, on
from stowplan.scheduler.queue.backoff import surrounding_ticks
from stowplan.testing import a_node, a_pod
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


def test_a_rejection_resets_the_error_count_but_nothing_resets_rejections():
    harness = QueueHarness(WAITS)
    harness.add(a_pod("a"))
    queued = harness.queue.pop()
    seen = []
    for plugins in ((), (), ("P",), (), ("P",)):
        harness.fail_attempt(queued, *plugins)
        seen.append((queued.unschedulable_count, queued.consecutive_errors_count))
        if plugins:
            harness.handle_event(event(PVC))
        harness.advance_flushing(30)
        assert harness.queue.pop() is queued
    assert seen == [(0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


def test_the_error_count_has_precedence():
    harness = QueueHarness(WAITS)
    harness.add(a_pod("a"))
    queued = harness.queue.pop()
    for _ in range(3):
        harness.fail_attempt(queued, "P")
        harness.now += 60
        harness.handle_event(event(PVC))
        assert harness.queue.pop() is queued
    harness.fail_attempt(queued)
    assert queued.place.name == "ERROR_BACKOFF"
    harness.advance_flushing(0)
    assert harness.queue.next_flush() == harness.now + 2, "the backoff after the first error is 1 s"


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


def test_expiries_are_checked_at_whole_seconds():
    harness = QueueHarness(WAITS, start=1000.6)
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(PVC))
    assert harness.queue.next_flush() == 1002.0


def test_exact_checks_are_counted_from_the_start():
    harness = QueueHarness(WAITS, start=1000.5, pop_from_backoff=False)
    harness.now = 1000.75
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(PVC))
    assert harness.queue.next_flush() == 1002.5


def test_a_pod_unschedulable_for_longer_than_its_backoff_skips_it():
    harness = QueueHarness(WAITS)
    harness.add_rejected(a_pod("a"), "P")
    harness.now += 1.99
    harness.handle_event(event(PVC))
    assert harness.place("a") == "BACKOFF"
    harness.add_rejected(a_pod("b"), "P")
    harness.now += 2
    harness.handle_event(event(PVC))
    assert harness.place("b") == "ACTIVE"


def test_flushed_pods_go_to_the_active_queue_rejected_ones_first():
    harness = QueueHarness(WAITS)
    harness.add_rejected(a_pod("error"))
    harness.add(a_pod("rejected"))
    harness.fail_attempt(harness.queue.pop(), "P")
    harness.handle_event(event(PVC))
    harness.take_moves()
    harness.advance_flushing(2)
    assert harness.take_moves() == [("rejected", "ACTIVE", "BackoffComplete"), ("error", "ACTIVE", "BackoffComplete")]
    assert harness.queue.can_pop
    assert harness.queue.incoming["active", "BackoffComplete"] == 2


def test_the_backoff_is_not_counted_again_until_the_next_attempt():
    harness = QueueHarness(WAITS)
    harness.add_rejected(a_pod("a"), "P")
    queued = harness.queue.get("default/a")
    harness.handle_event(event(PVC))
    assert queued.backoff_expiration == 1001.0
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert queued.backoff_expiration == 1001.0
    harness.advance_flushing(5)
    assert harness.queue.pop() is queued
    harness.fail_attempt(queued, "P")
    assert queued.backoff_expiration is None


def test_nothing_is_due_without_pods():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add, lambda p, o, n: Hint.SKIP)))
    assert harness.queue.next_flush() is None
    harness.add(a_pod("a"))
    assert harness.queue.next_flush() is None
    harness.handle_event(event(NODE), None, a_node())
    harness.pop()
    assert harness.queue.next_flush() is None


@examples(200)
@given(st.floats(-1e6, 2e9), st.floats(0, 2e9), st.sampled_from((1.0, 30.0)), st.lists(st.floats(0, 100), max_size=5))
def test_the_next_check_is_always_later(moment, tick, interval, steps):
    """Despite rounding; otherwise an entry could be due forever."""
    for step in steps:
        last, tick = surrounding_ticks(moment, tick, interval)
        assert last <= moment < tick
        assert tick - last == pytest.approx(interval)
        moment = max(moment + step, tick)
