"""Which events wake which pods, how soon, and what happens to those that are being tried meanwhile."""

import pytest

from stowplan.config import DEFAULT_FEATURES
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE,
    POD,
    PVC,
    Action,
    Hint,
    on,
)
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import DEFAULT, Room, event, waits_for


def says(answers):
    """A hint that answers by the pod's name, and raises for what is an exception."""

    def hint(pod, old, new):
        answer = answers.get(pod.pod.metadata.name, Hint.SKIP)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return hint


# -- sleeping pods ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rejected_by", "pending", "backing_off", "expected"),
    [
        pytest.param(["Yes"], [], True, "BACKOFF", id="a rejecting plugin says yes: after backoff"),
        pytest.param(["Yes"], [], False, "ACTIVE", id="whose time may be over"),
        pytest.param(["No"], [], False, "UNSCHEDULABLE", id="it says no"),
        pytest.param(["Deaf"], [], False, "UNSCHEDULABLE", id="it does not listen"),
        pytest.param(["No", "Yes"], [], True, "BACKOFF", id="one of two is enough"),
        pytest.param(["Broken"], [], True, "BACKOFF", id="one that fails says yes"),
        pytest.param([], ["Yes"], True, "ACTIVE", id="a pending plugin says yes: at once"),
        pytest.param([], ["No"], False, "UNSCHEDULABLE", id="a pending plugin says no"),
        pytest.param(["Yes"], ["No"], True, "BACKOFF", id="the pending one does not"),
        pytest.param(["Yes"], ["Yes2"], True, "ACTIVE", id="the pending one has the last word"),
        pytest.param(["Yes"], ["Yes"], True, "ACTIVE", id="rejecting and pending at once"),
    ],
)
def test_an_event_and_a_sleeping_pod(rejected_by, pending, backing_off, expected):
    room = Room(
        waits_for("Yes", on(NODE, Action.Add, says({"a": Hint.QUEUE}))),
        waits_for("Yes2", on(NODE, Action.Add)),
        waits_for("No", on(NODE, Action.Add, says({}))),
        waits_for("Deaf"),
        waits_for("Broken", on(NODE, Action.Add, says({"a": ZeroDivisionError("oh")}))),
    )
    room.rejected(a_pod("a"), *rejected_by, pending=pending)
    assert room.place("a") == "UNSCHEDULABLE"
    room.now += 0 if backing_off else 60
    room.take_moves()
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == expected
    assert room.take_moves() == ([] if expected == "UNSCHEDULABLE" else [("a", expected, "NodeAdd")])


def test_only_plugins_that_rejected_the_pod_are_asked():
    asked = []

    def hint(pod, old, new):
        asked.append(pod.pod.metadata.name)
        return Hint.SKIP

    room = Room(waits_for("P", on(NODE, Action.Add, hint)), waits_for("Q", on(PVC, Action.Add)))
    room.rejected(a_pod("p"), "P")
    room.rejected(a_pod("q"), "Q")
    room.happens(event(NODE), None, a_node())
    assert asked == ["p"]


def test_only_plugins_of_the_pods_profile_are_asked():
    room = Room(profiles={DEFAULT: [waits_for("P", on(NODE, Action.Add))], "other": [waits_for("P")]})
    room.rejected(a_pod("a"), "P")
    room.rejected(a_pod("b").scheduler("other"), "P")
    room.happens(event(NODE), None, a_node())
    assert (room.place("a"), room.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


def test_one_of_several_registrations_is_enough():
    room = Room(waits_for("P", on(POD, Action.All, says({})), on(POD, Action.Delete)))
    room.rejected(a_pod("a"), "P")
    room.happens(ASSIGNED_POD_DELETE, a_pod("gone").on("n"), None)
    assert room.place("a") == "BACKOFF"


def test_taints_are_heard_by_who_waits_for_nodes():
    room = Room(waits_for("P", on(NODE, Action.Add, says({}))))
    room.rejected(a_pod("a"), "P")
    room.happens(event(NODE, Action.UpdateNodeTaint), a_node().tainted("t"), a_node())
    assert room.place("a") == "BACKOFF"


def test_who_extenders_rejected_is_woken_by_anything():
    room = Room()
    room.frameworks[DEFAULT].handle._extenders = (object(),)
    room.queue.register()
    room.rejected(a_pod("a"), "Extender")
    room.happens(event(PVC, Action.Update))
    assert room.place("a") == "BACKOFF"


def test_those_that_wake_do_so_in_the_order_in_which_they_fell_asleep():
    room = Room(waits_for("P", on(NODE, Action.Add)), waits_for("Q", on(NODE, Action.Add)))
    for i, plugin in enumerate("PQPQ"):
        room.rejected(a_pod(f"p{i}").labels(shape=str(i % 3)), plugin)
    room.take_moves()
    room.happens(event(NODE), None, a_node())
    assert [name for name, *_ in room.take_moves()] == ["p0", "p1", "p2", "p3"]


def test_a_check_leaves_pods_out():
    room = Room(waits_for("P", on(POD, Action.Delete)))
    room.rejected(a_pod("high").priority(5), "P")
    room.rejected(a_pod("low").priority(1), "P")
    gone = a_pod("gone").on("n")
    room.happens(ASSIGNED_POD_DELETE, gone, None, pre_check=lambda info: info.priority <= 3)
    assert (room.place("high"), room.place("low")) == ("UNSCHEDULABLE", "BACKOFF")


def test_who_fails_the_check_is_not_asked_about():
    room = Room(waits_for("P", on(POD, Action.Delete, says({"a": ZeroDivisionError("asked")}))))
    room.rejected(a_pod("a"), "P")
    room.happens(ASSIGNED_POD_DELETE, a_pod("gone").on("n"), None, pre_check=lambda info: False)
    assert room.problems == []


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_a_pod_that_backs_off_is_ready_only_if_it_may_be_popped(pop_from_backoff):
    room = Room(waits_for("P", on(NODE, Action.Add)), pop_from_backoff=pop_from_backoff)
    room.rejected(a_pod("a"), "P")
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == "BACKOFF"
    assert room.queue.can_pop == pop_from_backoff


# -- hints that read a pod's shape alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(("by_shape", "expected"), [(True, ["a", "c"]), (False, ["a", "b", "c", "d"])])
def test_pods_of_one_shape_are_asked_about_once(by_shape, expected):
    asked = []

    def hint(pod, old, new):
        asked.append(pod.pod.metadata.name)
        return Hint.SKIP

    room = Room(waits_for("P", on(NODE, Action.Add, hint, by_shape=by_shape)))
    for name, shape in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")):
        room.rejected(a_pod(name).labels(shape=shape), "P")
    room.happens(event(NODE), None, a_node())
    assert sorted(asked) == expected


def test_the_changed_pod_itself_is_asked_about_apart():
    def hint(pod, old, new):
        return Hint.QUEUE if pod.uid == new.metadata.uid else Hint.SKIP

    for changed in "abc":
        room = Room(waits_for("P", on(POD, Action.Add, hint, by_shape=True)))
        for name in "abc":
            room.rejected(a_pod(name).uid(name), "P")
        room.happens(ASSIGNED_POD_ADD, None, a_pod(changed).uid(changed).on("n"))
        assert [n for n in "abc" if room.place(n) == "BACKOFF"] == [changed]


def test_an_answer_for_the_changed_pod_is_none_for_the_others():
    def hint(pod, old, new):
        return Hint.SKIP if pod.uid == new.metadata.uid else Hint.QUEUE

    room = Room(waits_for("P", on(POD, Action.Add, hint, by_shape=True)))
    for name in "abc":
        room.rejected(a_pod(name).uid(name), "P")
    room.happens(ASSIGNED_POD_ADD, None, a_pod("a").uid("a").on("n"))
    assert [n for n in "abc" if room.place(n) == "BACKOFF"] == ["b", "c"]


def test_one_plugin_that_reads_more_has_all_pods_asked_about():
    room = Room(
        waits_for("P", on(NODE, Action.Add, says({}), by_shape=True)),
        waits_for("Q", on(NODE, Action.Add, says({"b": Hint.QUEUE}))),
    )
    for name in "abc":
        room.rejected(a_pod(name), "P", "Q")
    room.happens(event(NODE), None, a_node())
    assert [n for n in "abc" if room.place(n) == "BACKOFF"] == ["b"]


# -- hints that fail, and do what they should not ---------------------------------------------------------------------


def test_a_hint_that_fails_is_told_of_once_an_event():
    room = Room(waits_for("P", on(NODE, Action.All, says(dict.fromkeys("abc", LookupError("boom"))))))
    for name in "abc":
        room.rejected(a_pod(name), "P")
    room.happens(event(NODE), None, a_node())
    assert len(room.problems) == 1
    assert 'plugin "P" failed on event NodeAdd for pod default/a' in room.problems[0]
    assert "boom" in room.problems[0]
    room.rejected(a_pod("d"), "P")
    room.happens(event(NODE), None, a_node())
    assert len(room.problems) == 1
    room.rejected(a_pod("e"), "P")
    room.queue.register()
    room.rejected(a_pod("c").uid("new"), "P")
    room.happens(event(NODE), None, a_node())
    assert len(room.problems) == 2, "after a change of plugins a failure is news again"


def test_a_hint_that_has_pods_activated_disturbs_nothing():
    room = Room(waits_for("P", on(NODE, Action.Add, lambda p, o, n: meddle(p))))

    def meddle(pod):
        room.queue.activate([room.info(a_pod(n)) for n in "abc"])
        return Hint.QUEUE

    for name in "abc":
        room.rejected(a_pod(name), "P")
    room.happens(event(NODE), None, a_node())
    assert [room.place(n) for n in "abc"] == ["ACTIVE"] * 3
    assert sorted(filter(None, (room.pop() for _ in range(5)))) == ["a", "b", "c"]


# -- pods in flight ---------------------------------------------------------------------------------------------------

NODE_ADDED, CLAIM_ADDED = (event(NODE), None, a_node()), (event(PVC), None, None)


@pytest.mark.parametrize(
    ("events", "rejected_by", "pending", "expected"),
    [
        pytest.param([], ["P"], [], "UNSCHEDULABLE", id="nothing happened"),
        pytest.param([], [], [], "ERROR_BACKOFF", id="an error needs no event"),
        pytest.param([NODE_ADDED], ["P"], [], "BACKOFF", id="what helps happened"),
        pytest.param([CLAIM_ADDED], ["P"], [], "UNSCHEDULABLE", id="something else did"),
        pytest.param([CLAIM_ADDED, NODE_ADDED], ["P"], [], "BACKOFF", id="the second one helps"),
        pytest.param([NODE_ADDED], [], ["P"], "ACTIVE", id="a pending plugin heard it"),
        pytest.param([NODE_ADDED, CLAIM_ADDED], ["P"], ["Q"], "ACTIVE", id="who is pending may come later"),
        pytest.param([NODE_ADDED], ["P"], ["Q"], "BACKOFF", id="who is pending heard nothing"),
        pytest.param([NODE_ADDED, CLAIM_ADDED], ["Deaf"], [], "UNSCHEDULABLE", id="nobody listens"),
    ],
)
def test_what_happened_during_an_attempt(events, rejected_by, pending, expected):
    room = Room(
        waits_for("P", on(NODE, Action.Add)), waits_for("Q", on(PVC, Action.Add)), waits_for("Deaf"),
    )  # fmt: skip
    room.happens(*NODE_ADDED)
    room.add(a_pod("a"))
    queued = room.queue.pop()
    for happened in events:
        room.happens(*happened)
    room.fails(queued, *rejected_by, pending=pending)
    assert room.place("a") == expected
    assert not room.queue.is_in_flight(queued.pod.uid)
    assert room.moves[-1] == ("a", expected, "ScheduleAttemptFailure")


def test_who_woke_whom_is_told_of_sleeping_pods_and_of_those_in_flight():
    room = Room(waits_for("P", on(NODE, Action.Add)), waits_for("Q", on(PVC, Action.Add)))
    room.rejected(a_pod("asleep"), "P")
    room.add(a_pod("helped"), a_pod("not helped"), a_pod("broken"))
    helped, other, broken = room.queue.pop(), room.queue.pop(), room.queue.pop()
    room.happens(*NODE_ADDED)
    room.fails(helped, "P")
    room.fails(other, "Q")
    room.fails(broken)
    assert [(names, label) for names, label, _ in room.wakes] == [(["asleep"], "NodeAdd"), (["helped"], "NodeAdd")]
    assert room.wakes[0][2] is room.wakes[1][2] is not None


def test_who_is_activated_in_flight_was_woken_by_no_event():
    room = Room(waits_for("P", on(NODE, Action.Add)))
    info = room.add(a_pod("a"))
    queued = room.queue.pop()
    room.queue.activate([info])
    room.fails(queued, "P")
    assert (room.place("a"), room.wakes) == ("BACKOFF", [])


def test_only_what_came_after_the_pod_was_popped_counts():
    room = Room(waits_for("P", on(NODE, Action.Add)))
    room.add(a_pod("early"), a_pod("late"))
    early = room.queue.pop()
    room.happens(*NODE_ADDED)
    late = room.queue.pop()
    room.fails(late, "P")
    room.fails(early, "P")
    assert (room.place("early"), room.place("late")) == ("BACKOFF", "UNSCHEDULABLE")


def test_events_are_kept_as_long_as_somebody_needs_them():
    room = Room(waits_for("P", on(NODE, Action.Add)))
    assert room.queue.in_flight_events() == {}
    room.happens(*NODE_ADDED)
    assert room.queue.in_flight_events() == {}, "nobody is in flight"
    room.add(a_pod("a"), a_pod("b"))
    a = room.queue.pop()
    room.happens(*NODE_ADDED)
    b = room.queue.pop()
    room.happens(*NODE_ADDED)
    assert room.queue.in_flight_events() == {"NodeAdd": 2, "PodPopped": 2}
    room.queue.done(b.pod.uid)
    assert room.queue.in_flight_events() == {"NodeAdd": 2, "PodPopped": 1}
    room.queue.done(a.pod.uid)
    assert room.queue.in_flight_events() == {}


def test_events_that_nobody_waits_for_are_not_kept():
    room = Room(waits_for("P", on(NODE, Action.Add)))
    room.add(a_pod("a"))
    room.pop()
    room.happens(event(PVC))
    assert room.queue.in_flight_events() == {"PodPopped": 1}


def test_a_pod_that_fails_after_its_binding_began_backs_off():
    """Nobody kept what happened since, so it is taken to have been helped."""
    room = Room(waits_for("P"))
    room.add(a_pod("a"))
    queued = room.queue.pop()
    room.queue.done(queued.pod.uid)
    room.fails(queued, "P")
    assert room.place("a") == "BACKOFF"


@pytest.mark.parametrize(("gate", "expected"), [(True, "ERROR_BACKOFF"), (False, "UNSCHEDULABLE")])
def test_pods_of_groups_just_back_off(gate, expected):
    room = Room(waits_for("P"), features=DEFAULT_FEATURES.with_gates({"GenericWorkload": gate}))
    room.rejected(a_pod("a").spec(schedulingGroup={"podGroupName": "g"}), "P")
    assert room.place("a") == expected


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ACTIVE", "Pod default/a is already present in the active queue"),
        ("BACKOFF", "Pod default/a is already present in the backoff queue"),
        ("ERROR_BACKOFF", "Pod default/a is already present in the backoff queue"),
        ("UNSCHEDULABLE", "Pod default/a is already present in unschedulable queue"),
    ],
)
def test_a_pod_does_not_come_back_beside_another_of_its_name(place, text):
    room = Room(waits_for("P", on(NODE, Action.Add)))
    room.add(a_pod("a").uid("old"))
    old = room.queue.pop()
    if place == "ACTIVE":
        room.add(a_pod("a").uid("new"))
    elif place == "ERROR_BACKOFF":
        room.rejected(a_pod("a").uid("new"))
    else:
        room.rejected(a_pod("a").uid("new"), "P")
        if place == "BACKOFF":
            room.happens(event(NODE), None, a_node())
    assert room.place("a") == place
    with pytest.raises(ValueError, match=text):
        room.fails(old, "P")
    assert room.queue.get("default/a").pod.uid == "new"
    assert not room.queue.is_in_flight("old")


def test_coming_back_renews_what_the_attempt_has_changed():
    room = Room(waits_for("P"), max_in_unschedulable=10)
    room.rejected(a_pod("a"), "P")
    room.goes_on(60)
    queued = room.queue.pop()
    assert queued.was_flushed
    room.now += 5
    room.fails(queued, "P")
    assert (queued.was_flushed, queued.timestamp, queued.attempts) == (False, room.now, 2)
    assert queued.initial_attempt_timestamp == 1000.0


# -- activate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_activated_pods_are_active_whatever_their_backoff(place):
    room = Room(waits_for("P", on(NODE, Action.Add)))
    room.rejected(a_pod("a"), *(() if place == "ERROR_BACKOFF" else ("P",)))
    if place == "BACKOFF":
        room.happens(event(NODE), None, a_node())
    assert room.place("a") == place
    room.queue.activate([room.info(a_pod("a"))])
    assert room.moves[-1] == ("a", "ACTIVE", "ForceActivate")
    assert room.queue.can_pop


def test_unknown_and_active_pods_are_not_activated():
    room = Room()
    room.add(a_pod("a"))
    room.take_moves()
    room.queue.activate([room.info(a_pod("a")), room.info(a_pod("nobody"))])
    assert room.take_moves() == []


def test_a_pod_that_is_activated_in_flight_comes_back_and_its_neighbours_do_not():
    room = Room(waits_for("P"))
    room.add(a_pod("a").uid("a"), a_pod("b").uid("b"))
    a, b = room.queue.pop(), room.queue.pop()
    room.queue.activate([a.pod])
    assert room.queue.in_flight_events() == {"ForceActivate": 1, "PodPopped": 2}
    room.fails(a, "P")
    room.fails(b, "P")
    assert (room.place("a"), room.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


# -- timers -----------------------------------------------------------------------------------------------------------


def test_a_pod_that_sleeps_too_long_is_woken_at_the_next_look():
    room = Room(waits_for("P"), max_in_unschedulable=100)
    room.now += 10
    room.rejected(a_pod("a"), "P")
    assert room.queue.next_flush() == 1120.0
    room.passes(100)
    assert room.place("a") == "UNSCHEDULABLE", "100 s are not more than 100 s, and it is not time to look"
    room.goes_on(9.875)
    assert room.place("a") == "UNSCHEDULABLE"
    room.goes_on(0.125)
    assert room.moves[-1] == ("a", "ACTIVE", "UnschedulableTimeout")
    assert room.queue.get("default/a").was_flushed


def test_exactly_the_longest_time_is_not_too_long():
    room = Room(waits_for("P"), max_in_unschedulable=120)
    room.rejected(a_pod("a"), "P")
    room.passes(120)
    assert room.place("a") == "UNSCHEDULABLE"
    assert room.queue.next_flush() == 1150.0


def test_what_is_woken_by_time_backs_off_if_it_must():
    room = Room(waits_for("P"), max_in_unschedulable=20, initial_backoff=60, max_backoff=60)
    room.rejected(a_pod("a"), "P")
    room.goes_on(30)
    assert room.moves[-1] == ("a", "BACKOFF", "UnschedulableTimeout")


def test_the_timeout_counts_for_pods_in_flight():
    room = Room(waits_for("P"), max_in_unschedulable=20)
    room.rejected(a_pod("a"), "P")
    room.add(a_pod("b"))
    b = room.queue.pop()
    room.goes_on(30)
    room.fails(b, "P")
    assert room.place("b") == "BACKOFF"


def test_gated_pods_are_not_announced():
    """They are not woken by time."""
    room = Room(waits_for("A", pre_enqueue=LookupError("shut")), max_in_unschedulable=20)
    room.add(a_pod("a"))
    assert room.queue.next_flush() is None
    room.goes_on(100)
    assert room.place("a") == "UNSCHEDULABLE"


def test_the_earlier_of_the_two_timers_is_announced():
    room = Room(waits_for("P"), max_in_unschedulable=29, initial_backoff=40, max_backoff=40)
    room.rejected(a_pod("asleep"), "P")
    room.rejected(a_pod("error"))
    assert room.queue.next_flush() == 1030.0
    room.delete(a_pod("asleep"))
    room.goes_on(35)
    assert room.queue.next_flush() == 1041.0


def test_looking_twice_at_one_moment_is_looking_once():
    room = Room(waits_for("P"), max_in_unschedulable=20)
    room.rejected(a_pod("a"), "P")
    room.now = 1030.0
    room.queue.flush()
    moves = room.take_moves()
    room.queue.flush()
    assert moves
    assert not room.take_moves()
