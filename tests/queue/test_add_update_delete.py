"""Add, Update and Delete: what becomes of a pod that changes while it waits or is tried."""

import pytest

from stowplan.framework.events import NODE, POD, PVC, Action, Hint, on
from stowplan.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import Room, event, waits_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def test_a_new_pod_is_active():
    room = Room()
    info = room.add(a_pod("a"))
    queued = room.queue.get("default/a")
    assert (queued.pod, queued.timestamp, queued.initial_attempt_timestamp) == (info, 1000.0, 1000.0)
    assert (queued.attempts, queued.unschedulable_count, queued.consecutive_errors_count) == (0, 0, 0)
    assert queued.place.name == "ACTIVE"
    assert room.queue.can_pop


def test_a_new_pod_takes_the_place_of_an_old_one_of_its_name():
    room = Room()
    room.add(a_pod("a").uid("1"), a_pod("a").uid("2"))
    assert room.queue.pop().pod.uid == "2"
    assert room.pop() is None
    assert room.take_moves()[1:3] == [("a", "GONE", "UnschedulablePodAdd"), ("a", "ACTIVE", "UnschedulablePodAdd")]


# -- update -----------------------------------------------------------------------------------------------------------


def waiting(room, place):
    """A pod of that place; it is named a."""
    if place == "ACTIVE":
        room.add(a_pod("a"))
    elif place == "ERROR_BACKOFF":
        room.rejected(a_pod("a"))
    else:
        room.rejected(a_pod("a"), "P")
        if place == "BACKOFF":
            room.happens(event(PVC))
    assert room.place("a") == place


@pytest.mark.parametrize("place", ["ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_a_waiting_pod_is_replaced_where_it_is(place):
    room = Room(waits_for("P", on(PVC, Action.Add)))
    waiting(room, place)
    before = room.queue.get("default/a")
    room.take_moves()
    info = room.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert room.queue.get("default/a") is before
    assert (before.pod, before.place.name) == (info, place)
    assert room.take_moves() == []


def test_an_update_of_an_unknown_pod_adds_it():
    room = Room()
    room.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert room.take_moves() == [("a", "ACTIVE", "UnschedulablePodUpdate")]


def test_an_update_that_helps_a_sleeping_pod_wakes_it():
    room = Room(waits_for("P", on(POD, Action.UpdatePodLabel)))
    room.rejected(a_pod("a"), "P")
    room.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert room.place("a") == "BACKOFF"


def test_of_several_changes_the_first_that_wakes_counts():
    room = Room(waits_for("P", on(POD, Action.UpdatePodToleration), on(POD, Action.UpdatePodScaleDown)))
    room.rejected(a_pod("a").requests(cpu="2"), "P")
    room.now += 60
    room.take_moves()
    room.update(a_pod("a").requests(cpu="2"), a_pod("a").labels(a="b").tolerates("x").requests(cpu="1"))
    assert room.take_moves() == [("a", "ACTIVE", "UnschedulablePodUpdatePodScaleDown")]


def test_a_hint_of_an_update_is_given_both_versions():
    heard = []

    def hint(pod, old, new):
        heard.append((pod.labels, old.metadata.labels, new.metadata.labels))
        return Hint.SKIP

    room = Room(waits_for("P", on(POD, Action.UpdatePodLabel, hint, by_shape=True)))
    room.rejected(a_pod("a"), "P")
    room.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert heard == [({"a": "b"}, {}, {"a": "b"})]


def test_a_pod_that_changed_is_found_by_what_it_is_now():
    """Its new shape is asked about, not the one with which it went to sleep."""
    room = Room(
        waits_for("P", on(NODE, Action.Add, lambda p, o, n: Hint.QUEUE if p.labels else Hint.SKIP, by_shape=True))
    )
    room.rejected(a_pod("a"), "P")
    room.rejected(a_pod("b"), "P")
    room.update(a_pod("a"), a_pod("a").labels(a="b"))
    room.happens(event(NODE), None, a_node())
    assert (room.place("a"), room.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


def test_what_changes_in_flight_is_judged_when_the_pod_comes_back():
    room = Room(waits_for("P", on(POD, Action.UpdatePodLabel)))
    room.add(a_pod("a"))
    queued = room.queue.pop()
    room.update(a_pod("a"), a_pod("a").labels(a="b").tolerates("x"))
    assert room.place("a") is None
    assert room.queue.in_flight_events() == {
        "UnschedulablePodUpdatePodLabel": 1,
        "UnschedulablePodUpdatePodToleration": 1,
        "PodPopped": 1,
    }
    room.fails(queued, "P")
    assert room.place("a") == "BACKOFF"


def test_a_gated_pod_is_updated_where_it_is():
    room = Room(
        waits_for("A", on(POD, Action.UpdatePodLabel), pre_enqueue=lambda info: None if info.labels else CLOSED)
    )
    room.add(a_pod("a"))
    room.update(a_pod("a"), a_pod("a").tolerates("x"))
    assert room.queue.counts()["gated"] == 1
    room.update(a_pod("a").tolerates("x"), a_pod("a").labels(a="b").tolerates("x"))
    assert room.place("a") == "ACTIVE"


# -- delete -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_a_pod_that_goes_is_forgotten(place):
    room = Room(waits_for("P", on(PVC, Action.Add)))
    waiting(room, place)
    room.take_moves()
    room.delete(a_pod("a"))
    assert room.place("a") is None
    assert not any(room.queue.counts().values())
    assert room.take_moves() == [("a", "GONE", "Removed")]
    room.goes_on(400)
    assert room.pop() is None
    assert room.queue.next_flush() is None


def test_a_pod_that_goes_while_in_flight_stays_in_flight():
    room = Room()
    room.add(a_pod("a").uid("u"))
    room.pop()
    room.delete(a_pod("a").uid("u"))
    assert room.queue.is_in_flight("u")
    room.queue.done("u")
    assert not room.queue.is_in_flight("u")


def test_an_unknown_pod_that_goes_is_no_matter():
    room = Room()
    room.delete(a_pod("a"))
    assert room.moves == []


def test_deleted_and_made_anew_while_in_flight():
    room = Room()
    room.add(a_pod("a").uid("1"))
    first = room.queue.pop()
    room.delete(a_pod("a").uid("1"))
    room.add(a_pod("a").uid("2"))
    room.queue.done(first.pod.uid)
    assert room.queue.pop().pod.uid == "2"
