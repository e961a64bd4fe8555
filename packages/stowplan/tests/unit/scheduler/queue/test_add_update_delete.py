"""Add, Update and Delete of pods that are queued or in flight."""

from stowplan.scheduler.framework.events import POD, Action, Hint, on
from stowplan.testing import a_pod
from support.scheduling.queues import QueueHarness, plugin_waiting_for


def test_a_new_pod_replaces_an_old_one_with_its_name():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("1"), a_pod("a").uid("2"))
    assert harness.queue.pop().pod.uid == "2"
    assert harness.pop() is None
    assert harness.take_moves()[1:3] == [("a", "GONE", "UnscheduledPodAdd"), ("a", "ACTIVE", "UnscheduledPodAdd")]


# -- update -----------------------------------------------------------------------------------------------------------


def test_an_update_of_an_unknown_pod_adds_it():
    harness = QueueHarness()
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert harness.take_moves() == [("a", "ACTIVE", "UnscheduledPodUpdate")]


def test_update_hints_get_both_versions():
    heard = []

    def hint(pod, old, new):
        heard.append((pod.labels, old.metadata.labels, new.metadata.labels))
        return Hint.SKIP

    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.UpdatePodLabel, hint, by_shape=True)))
    harness.add_rejected(a_pod("a"), "P")
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert heard == [({"a": "b"}, {}, {"a": "b"})]


# -- delete -----------------------------------------------------------------------------------------------------------


def test_deleting_an_unknown_pod_does_nothing():
    harness = QueueHarness()
    harness.delete(a_pod("a"))
    assert harness.moves == []


def test_a_deleted_pod_is_in_no_place():
    harness = QueueHarness()
    harness.add(a_pod("a"))
    harness.take_moves()
    harness.delete(a_pod("a"))
    assert (harness.place("a"), harness.take_moves()) == (None, [("a", "GONE", "Removed")])
    assert not any(harness.queue.counts().values())


def test_a_pod_deleted_in_flight_stays_in_flight():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("u"))
    harness.pop()
    harness.delete(a_pod("a").uid("u"))
    assert harness.queue.is_in_flight("u")
    harness.queue.done("u")
    assert not harness.queue.is_in_flight("u")
