"""Keys that wait for their reconcile."""

import pytest

from stowplan.kube.timing.key_queue import KeyQueue


@pytest.fixture
def queue(clock):
    return KeyQueue(lambda: clock.now)


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

    return Clock()


def taken(queue):
    found = []
    while (key := queue.take()) is not None:
        found.append(key)
    return found


def test_each_key_waits_once_in_order(queue):
    for key in ("b", "a", "b"):
        queue.put(key)
    assert taken(queue) == ["b", "a"]
    queue.put("b")
    assert taken(queue) == ["b"]


def test_a_key_has_one_timer_the_last_one(queue, clock):
    queue.done("a", 10)
    queue.done("a", 5)
    assert queue.next_due() == 1005
    clock.now = 1005
    assert taken(queue) == ["a"]
    clock.now = 1010
    assert (taken(queue), queue.next_due()) == ([], None)


def test_failures_double_the_delay_up_to_a_minute_until_the_next_success(queue):
    delays = []
    for _ in range(20):
        queue.failed("a")
        delays.append(queue.next_due() - 1000)
    assert delays[:3] == pytest.approx([0.005, 0.01, 0.02])
    assert delays[-1] == 60
    queue.done("a")
    assert queue.next_due() is None
    queue.failed("a")
    assert queue.next_due() == pytest.approx(1000.005)


def test_a_problem_is_new_once(queue):
    assert [queue.failed("a", text) for text in ("x", "x", "", "y", "x")] == [True, False, False, True, True]
    queue.done("a")
    assert queue.failed("a", "x")
