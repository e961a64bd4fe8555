"""The backoff of pods that failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
