"""Add, Update and Delete of pods that are queued or in flight."""

import pytest

from stowplan.scheduler.framework.events import NODE, POD, PVC, Action, Hint, on
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def test_a_new_pod_is_active():
    harness = QueueHarness()
    info = harness.add(a_pod("a"))
    queued = harness.queue.get("default/a")
    assert (queued.pod, queued.timestamp, queued.initial_attempt_timestamp) == (info, 1000.0, 1000.0)
    assert (queued.attempts, queued.unschedulable_count, queued.consecutive_errors_count) == (0, 0, 0)
    assert queued.place.name == "ACTIVE"
    assert harness.queue.can_pop


def test_a_new_pod_replaces_an_old_one_with_its_name():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("1"), a_pod("a").uid("2"))
    assert harness.queue.pop().pod.uid == "2"
    assert harness.pop() is None
    assert harness.take_moves()[1:3] == [("a", "GONE", "UnschedulablePodAdd"), ("a", "ACTIVE", "UnschedulablePodAdd")]


# -- update -----------------------------------------------------------------------------------------------------------


def waiting(harness, place):
    """A pod in that place, named a."""
    if place == "ACTIVE":
        harness.add(a_pod("a"))
    elif place == "ERROR_BACKOFF":
        harness.add_rejected(a_pod("a"))
    else:
        harness.add_rejected(a_pod("a"), "P")
        if place == "BACKOFF":
            harness.handle_event(event(PVC))
    assert harness.place("a") == place


@pytest.mark.parametrize("place", ["ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_a_queued_pod_is_updated_in_place(place):
    harness = QueueHarness(plugin_waiting_for("P", on(PVC, Action.Add)))
    waiting(harness, place)
    before = harness.queue.get("default/a")
    harness.take_moves()
    info = harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert harness.queue.get("default/a") is before
    assert (before.pod, before.place.name) == (info, place)
    assert harness.take_moves() == []


def test_an_update_of_an_unknown_pod_adds_it():
    harness = QueueHarness()
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert harness.take_moves() == [("a", "ACTIVE", "UnschedulablePodUpdate")]


def test_an_update_that_helps_an_unschedulable_pod_wakes_it():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.UpdatePodLabel)))
    harness.add_rejected(a_pod("a"), "P")
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert harness.place("a") == "BACKOFF"


def test_of_several_changes_the_first_that_wakes_counts():
    harness = QueueHarness(
        plugin_waiting_for("P", on(POD, Action.UpdatePodToleration), on(POD, Action.UpdatePodScaleDown))
    )
    harness.add_rejected(a_pod("a").requests(cpu="2"), "P")
    harness.now += 60
    harness.take_moves()
    harness.update(a_pod("a").requests(cpu="2"), a_pod("a").labels(a="b").tolerates("x").requests(cpu="1"))
    assert harness.take_moves() == [("a", "ACTIVE", "UnschedulablePodUpdatePodScaleDown")]


def test_update_hints_get_both_versions():
    heard = []

    def hint(pod, old, new):
        heard.append((pod.labels, old.metadata.labels, new.metadata.labels))
        return Hint.SKIP

    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.UpdatePodLabel, hint, by_shape=True)))
    harness.add_rejected(a_pod("a"), "P")
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert heard == [({"a": "b"}, {}, {"a": "b"})]


def test_a_changed_pod_is_found_by_its_new_shape():
    """Hints are called with its new shape, not the one with which it became unschedulable."""
    harness = QueueHarness(
        plugin_waiting_for(
            "P", on(NODE, Action.Add, lambda p, o, n: Hint.QUEUE if p.labels else Hint.SKIP, by_shape=True)
        )
    )
    harness.add_rejected(a_pod("a"), "P")
    harness.add_rejected(a_pod("b"), "P")
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    harness.handle_event(event(NODE), None, a_node())
    assert (harness.place("a"), harness.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


def test_updates_in_flight_are_evaluated_when_the_pod_is_requeued():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.UpdatePodLabel)))
    harness.add(a_pod("a"))
    queued = harness.queue.pop()
    harness.update(a_pod("a"), a_pod("a").labels(a="b").tolerates("x"))
    assert harness.place("a") is None
    assert harness.queue.in_flight_events() == {
        "UnschedulablePodUpdatePodLabel": 1,
        "UnschedulablePodUpdatePodToleration": 1,
        "PodPopped": 1,
    }
    harness.fail_attempt(queued, "P")
    assert harness.place("a") == "BACKOFF"


def test_a_gated_pod_is_updated_in_place():
    harness = QueueHarness(
        plugin_waiting_for(
            "A", on(POD, Action.UpdatePodLabel), pre_enqueue=lambda info: None if info.labels else CLOSED
        )
    )
    harness.add(a_pod("a"))
    harness.update(a_pod("a"), a_pod("a").tolerates("x"))
    assert harness.queue.counts()["gated"] == 1
    harness.update(a_pod("a").tolerates("x"), a_pod("a").labels(a="b").tolerates("x"))
    assert harness.place("a") == "ACTIVE"


# -- delete -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_a_deleted_pod_is_removed(place):
    harness = QueueHarness(plugin_waiting_for("P", on(PVC, Action.Add)))
    waiting(harness, place)
    harness.take_moves()
    harness.delete(a_pod("a"))
    assert harness.place("a") is None
    assert not any(harness.queue.counts().values())
    assert harness.take_moves() == [("a", "GONE", "Removed")]
    harness.advance_flushing(400)
    assert harness.pop() is None
    assert harness.queue.next_flush() is None


def test_a_pod_deleted_in_flight_stays_in_flight():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("u"))
    harness.pop()
    harness.delete(a_pod("a").uid("u"))
    assert harness.queue.is_in_flight("u")
    harness.queue.done("u")
    assert not harness.queue.is_in_flight("u")


def test_deleting_an_unknown_pod_does_nothing():
    harness = QueueHarness()
    harness.delete(a_pod("a"))
    assert harness.moves == []


def test_deleted_and_recreated_in_flight():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("1"))
    first = harness.queue.pop()
    harness.delete(a_pod("a").uid("1"))
    harness.add(a_pod("a").uid("2"))
    harness.queue.done(first.pod.uid)
    assert harness.queue.pop().pod.uid == "2"
