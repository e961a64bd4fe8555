"""Which events wake which pods, when, and what events do to pods in flight."""

import pytest

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.framework.events import (
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
from support.scheduling.queues import DEFAULT, QueueHarness, event, plugin_waiting_for


def says(answers):
    """A hint that answers by the pod's name, and raises exceptions in `answers`."""

    def hint(pod, old, new):
        answer = answers.get(pod.pod.metadata.name, Hint.SKIP)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return hint


# -- unschedulable pods ------------------------------------------------------------------------------------------------


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
def test_an_event_for_an_unschedulable_pod(rejected_by, pending, backing_off, expected):
    harness = QueueHarness(
        plugin_waiting_for("Yes", on(NODE, Action.Add, says({"a": Hint.QUEUE}))),
        plugin_waiting_for("Yes2", on(NODE, Action.Add)),
        plugin_waiting_for("No", on(NODE, Action.Add, says({}))),
        plugin_waiting_for("Deaf"),
        plugin_waiting_for("Broken", on(NODE, Action.Add, says({"a": ZeroDivisionError("oh")}))),
    )
    harness.add_rejected(a_pod("a"), *rejected_by, pending=pending)
    assert harness.place("a") == "UNSCHEDULABLE"
    harness.now += 0 if backing_off else 60
    harness.take_moves()
    harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == expected
    assert harness.take_moves() == ([] if expected == "UNSCHEDULABLE" else [("a", expected, "NodeAdd")])


def test_only_hints_of_rejecting_plugins_are_called():
    asked = []

    def hint(pod, old, new):
        asked.append(pod.pod.metadata.name)
        return Hint.SKIP

    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.Add, hint)), plugin_waiting_for("Q", on(PVC, Action.Add))
    )
    harness.add_rejected(a_pod("p"), "P")
    harness.add_rejected(a_pod("q"), "Q")
    harness.handle_event(event(NODE), None, a_node())
    assert asked == ["p"]


def test_only_hints_of_the_pods_profile_are_called():
    harness = QueueHarness(
        profiles={DEFAULT: [plugin_waiting_for("P", on(NODE, Action.Add))], "other": [plugin_waiting_for("P")]}
    )
    harness.add_rejected(a_pod("a"), "P")
    harness.add_rejected(a_pod("b").scheduler("other"), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert (harness.place("a"), harness.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


def test_one_of_several_registrations_is_enough():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.All, says({})), on(POD, Action.Delete)))
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(ASSIGNED_POD_DELETE, a_pod("gone").on("n"), None)
    assert harness.place("a") == "BACKOFF"


def test_plugins_registered_for_nodes_get_taint_updates():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add, says({}))))
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(NODE, Action.UpdateNodeTaint), a_node().tainted("t"), a_node())
    assert harness.place("a") == "BACKOFF"


def test_pods_rejected_by_extenders_are_woken_by_any_event():
    harness = QueueHarness()
    harness.frameworks[DEFAULT].handle._extenders = (object(),)
    harness.queue.register()
    harness.add_rejected(a_pod("a"), "Extender")
    harness.handle_event(event(PVC, Action.Update))
    assert harness.place("a") == "BACKOFF"


def test_pods_are_woken_in_the_order_in_which_they_failed():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)), plugin_waiting_for("Q", on(NODE, Action.Add)))
    for i, plugin in enumerate("PQPQ"):
        harness.add_rejected(a_pod(f"p{i}").labels(shape=str(i % 3)), plugin)
    harness.take_moves()
    harness.handle_event(event(NODE), None, a_node())
    assert [name for name, *_ in harness.take_moves()] == ["p0", "p1", "p2", "p3"]


def test_pre_check_excludes_pods():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.Delete)))
    harness.add_rejected(a_pod("high").priority(5), "P")
    harness.add_rejected(a_pod("low").priority(1), "P")
    gone = a_pod("gone").on("n")
    harness.handle_event(ASSIGNED_POD_DELETE, gone, None, pre_check=lambda info: info.priority <= 3)
    assert (harness.place("high"), harness.place("low")) == ("UNSCHEDULABLE", "BACKOFF")


def test_hints_are_not_called_for_pods_excluded_by_pre_check():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.Delete, says({"a": ZeroDivisionError("asked")}))))
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(ASSIGNED_POD_DELETE, a_pod("gone").on("n"), None, pre_check=lambda info: False)
    assert harness.problems == []


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_pods_in_backoff_are_ready_only_with_early_pop(pop_from_backoff):
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)), pop_from_backoff=pop_from_backoff)
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == "BACKOFF"
    assert harness.queue.can_pop == pop_from_backoff


# -- hints that read a pod's shape alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(("by_shape", "expected"), [(True, ["a", "c"]), (False, ["a", "b", "c", "d"])])
def test_hints_by_shape_are_called_once_per_shape(by_shape, expected):
    asked = []

    def hint(pod, old, new):
        asked.append(pod.pod.metadata.name)
        return Hint.SKIP

    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add, hint, by_shape=by_shape)))
    for name, shape in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")):
        harness.add_rejected(a_pod(name).labels(shape=shape), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert sorted(asked) == expected


def test_the_hint_is_called_separately_for_the_changed_pod():
    def hint(pod, old, new):
        return Hint.QUEUE if pod.uid == new.metadata.uid else Hint.SKIP

    for changed in "abc":
        harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.Add, hint, by_shape=True)))
        for name in "abc":
            harness.add_rejected(a_pod(name).uid(name), "P")
        harness.handle_event(ASSIGNED_POD_ADD, None, a_pod(changed).uid(changed).on("n"))
        assert [n for n in "abc" if harness.place(n) == "BACKOFF"] == [changed]


def test_the_answer_for_the_changed_pod_is_not_shared():
    def hint(pod, old, new):
        return Hint.SKIP if pod.uid == new.metadata.uid else Hint.QUEUE

    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.Add, hint, by_shape=True)))
    for name in "abc":
        harness.add_rejected(a_pod(name).uid(name), "P")
    harness.handle_event(ASSIGNED_POD_ADD, None, a_pod("a").uid("a").on("n"))
    assert [n for n in "abc" if harness.place(n) == "BACKOFF"] == ["b", "c"]


def test_one_hint_that_reads_more_than_the_shape_is_called_for_all_pods():
    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.Add, says({}), by_shape=True)),
        plugin_waiting_for("Q", on(NODE, Action.Add, says({"b": Hint.QUEUE}))),
    )
    for name in "abc":
        harness.add_rejected(a_pod(name), "P", "Q")
    harness.handle_event(event(NODE), None, a_node())
    assert [n for n in "abc" if harness.place(n) == "BACKOFF"] == ["b"]


# -- hints with errors and side effects --------------------------------------------------------------------------------


def test_a_failing_hint_is_reported_once_per_event():
    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.All, says(dict.fromkeys("abc", LookupError("boom")))))
    )
    for name in "abc":
        harness.add_rejected(a_pod(name), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert len(harness.problems) == 1
    assert 'plugin "P" failed on event NodeAdd for pod default/a' in harness.problems[0]
    assert "boom" in harness.problems[0]
    harness.add_rejected(a_pod("d"), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert len(harness.problems) == 1
    harness.add_rejected(a_pod("e"), "P")
    harness.queue.register()
    harness.add_rejected(a_pod("c").uid("new"), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert len(harness.problems) == 2, "not reported again after a change of plugins"


def test_a_hint_may_activate_pods():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add, lambda p, o, n: meddle(p))))

    def meddle(pod):
        harness.queue.activate([harness.info(a_pod(n)) for n in "abc"])
        return Hint.QUEUE

    for name in "abc":
        harness.add_rejected(a_pod(name), "P")
    harness.handle_event(event(NODE), None, a_node())
    assert [harness.place(n) for n in "abc"] == ["ACTIVE"] * 3
    assert sorted(filter(None, (harness.pop() for _ in range(5)))) == ["a", "b", "c"]


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
def test_events_during_an_attempt(events, rejected_by, pending, expected):
    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.Add)),
        plugin_waiting_for("Q", on(PVC, Action.Add)),
        plugin_waiting_for("Deaf"),
    )
    harness.handle_event(*NODE_ADDED)
    harness.add(a_pod("a"))
    queued = harness.queue.pop()
    for happened in events:
        harness.handle_event(*happened)
    harness.fail_attempt(queued, *rejected_by, pending=pending)
    assert harness.place("a") == expected
    assert not harness.queue.is_in_flight(queued.pod.uid)
    assert harness.moves[-1] == ("a", expected, "ScheduleAttemptFailure")


def test_the_waking_event_is_reported_for_queued_and_in_flight_pods():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)), plugin_waiting_for("Q", on(PVC, Action.Add)))
    harness.add_rejected(a_pod("asleep"), "P")
    harness.add(a_pod("helped"), a_pod("not helped"), a_pod("broken"))
    helped, other, broken = harness.queue.pop(), harness.queue.pop(), harness.queue.pop()
    harness.handle_event(*NODE_ADDED)
    harness.fail_attempt(helped, "P")
    harness.fail_attempt(other, "Q")
    harness.fail_attempt(broken)
    assert [(names, label) for names, label, _ in harness.wakes] == [(["asleep"], "NodeAdd"), (["helped"], "NodeAdd")]
    assert harness.wakes[0][2] is harness.wakes[1][2] is not None


def test_activation_in_flight_has_no_waking_event():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    info = harness.add(a_pod("a"))
    queued = harness.queue.pop()
    harness.queue.activate([info])
    harness.fail_attempt(queued, "P")
    assert (harness.place("a"), harness.wakes) == ("BACKOFF", [])


def test_only_events_after_the_pop_count():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    harness.add(a_pod("early"), a_pod("late"))
    early = harness.queue.pop()
    harness.handle_event(*NODE_ADDED)
    late = harness.queue.pop()
    harness.fail_attempt(late, "P")
    harness.fail_attempt(early, "P")
    assert (harness.place("early"), harness.place("late")) == ("BACKOFF", "UNSCHEDULABLE")


def test_events_are_kept_while_pods_in_flight_need_them():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    assert harness.queue.in_flight_events() == {}
    harness.handle_event(*NODE_ADDED)
    assert harness.queue.in_flight_events() == {}, "no pod is in flight"
    harness.add(a_pod("a"), a_pod("b"))
    a = harness.queue.pop()
    harness.handle_event(*NODE_ADDED)
    b = harness.queue.pop()
    harness.handle_event(*NODE_ADDED)
    assert harness.queue.in_flight_events() == {"NodeAdd": 2, "PodPopped": 2}
    harness.queue.done(b.pod.uid)
    assert harness.queue.in_flight_events() == {"NodeAdd": 2, "PodPopped": 1}
    harness.queue.done(a.pod.uid)
    assert harness.queue.in_flight_events() == {}


def test_events_without_registrations_are_not_kept():
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    harness.add(a_pod("a"))
    harness.pop()
    harness.handle_event(event(PVC))
    assert harness.queue.in_flight_events() == {"PodPopped": 1}


def test_a_pod_that_fails_after_its_binding_began_backs_off():
    """Events since then were not kept, so it counts as woken."""
    harness = QueueHarness(plugin_waiting_for("P"))
    harness.add(a_pod("a"))
    queued = harness.queue.pop()
    harness.queue.done(queued.pod.uid)
    harness.fail_attempt(queued, "P")
    assert harness.place("a") == "BACKOFF"


@pytest.mark.parametrize(("gate", "expected"), [(True, "ERROR_BACKOFF"), (False, "UNSCHEDULABLE")])
def test_pods_of_groups_always_back_off(gate, expected):
    harness = QueueHarness(plugin_waiting_for("P"), features=DEFAULT_FEATURES.with_gates({"GenericWorkload": gate}))
    harness.add_rejected(a_pod("a").spec(schedulingGroup={"podGroupName": "g"}), "P")
    assert harness.place("a") == expected


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ACTIVE", "Pod default/a is already present in the active queue"),
        ("BACKOFF", "Pod default/a is already present in the backoff queue"),
        ("ERROR_BACKOFF", "Pod default/a is already present in the backoff queue"),
        ("UNSCHEDULABLE", "Pod default/a is already present in unschedulable queue"),
    ],
)
def test_a_pod_is_not_requeued_beside_another_with_its_name(place, text):
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    harness.add(a_pod("a").uid("old"))
    old = harness.queue.pop()
    if place == "ACTIVE":
        harness.add(a_pod("a").uid("new"))
    elif place == "ERROR_BACKOFF":
        harness.add_rejected(a_pod("a").uid("new"))
    else:
        harness.add_rejected(a_pod("a").uid("new"), "P")
        if place == "BACKOFF":
            harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == place
    with pytest.raises(ValueError, match=text):
        harness.fail_attempt(old, "P")
    assert harness.queue.get("default/a").pod.uid == "new"
    assert not harness.queue.is_in_flight("old")


def test_requeueing_updates_the_queued_pod():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=10)
    harness.add_rejected(a_pod("a"), "P")
    harness.advance_flushing(60)
    queued = harness.queue.pop()
    assert queued.was_flushed
    harness.now += 5
    harness.fail_attempt(queued, "P")
    assert (queued.was_flushed, queued.timestamp, queued.attempts) == (False, harness.now, 2)
    assert queued.initial_attempt_timestamp == 1000.0


# -- activate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"])
def test_activated_pods_are_active_whatever_their_backoff(place):
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add)))
    harness.add_rejected(a_pod("a"), *(() if place == "ERROR_BACKOFF" else ("P",)))
    if place == "BACKOFF":
        harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == place
    harness.queue.activate([harness.info(a_pod("a"))])
    assert harness.moves[-1] == ("a", "ACTIVE", "ForceActivate")
    assert harness.queue.can_pop


def test_unknown_and_active_pods_are_not_activated():
    harness = QueueHarness()
    harness.add(a_pod("a"))
    harness.take_moves()
    harness.queue.activate([harness.info(a_pod("a")), harness.info(a_pod("nobody"))])
    assert harness.take_moves() == []


def test_only_the_pod_activated_in_flight_is_requeued_active():
    harness = QueueHarness(plugin_waiting_for("P"))
    harness.add(a_pod("a").uid("a"), a_pod("b").uid("b"))
    a, b = harness.queue.pop(), harness.queue.pop()
    harness.queue.activate([a.pod])
    assert harness.queue.in_flight_events() == {"ForceActivate": 1, "PodPopped": 2}
    harness.fail_attempt(a, "P")
    harness.fail_attempt(b, "P")
    assert (harness.place("a"), harness.place("b")) == ("BACKOFF", "UNSCHEDULABLE")


# -- timers -----------------------------------------------------------------------------------------------------------


def test_a_pod_unschedulable_for_too_long_is_flushed_at_the_next_check():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=100)
    harness.now += 10
    harness.add_rejected(a_pod("a"), "P")
    assert harness.queue.next_flush() == 1120.0
    harness.advance(100)
    assert harness.place("a") == "UNSCHEDULABLE", "flushed too early"
    harness.advance_flushing(9.875)
    assert harness.place("a") == "UNSCHEDULABLE"
    harness.advance_flushing(0.125)
    assert harness.moves[-1] == ("a", "ACTIVE", "UnschedulableTimeout")
    assert harness.queue.get("default/a").was_flushed


def test_a_pod_is_not_flushed_at_exactly_the_maximum():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=120)
    harness.add_rejected(a_pod("a"), "P")
    harness.advance(120)
    assert harness.place("a") == "UNSCHEDULABLE"
    assert harness.queue.next_flush() == 1150.0


def test_flushed_pods_respect_their_backoff():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=20, initial_backoff=60, max_backoff=60)
    harness.add_rejected(a_pod("a"), "P")
    harness.advance_flushing(30)
    assert harness.moves[-1] == ("a", "BACKOFF", "UnschedulableTimeout")


def test_the_timeout_counts_for_pods_in_flight():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=20)
    harness.add_rejected(a_pod("a"), "P")
    harness.add(a_pod("b"))
    b = harness.queue.pop()
    harness.advance_flushing(30)
    harness.fail_attempt(b, "P")
    assert harness.place("b") == "BACKOFF"


def test_gated_pods_set_no_timer():
    """Time does not wake them."""
    harness = QueueHarness(plugin_waiting_for("A", pre_enqueue=LookupError("shut")), max_in_unschedulable=20)
    harness.add(a_pod("a"))
    assert harness.queue.next_flush() is None
    harness.advance_flushing(100)
    assert harness.place("a") == "UNSCHEDULABLE"


def test_the_earlier_of_the_two_timers_counts():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=29, initial_backoff=40, max_backoff=40)
    harness.add_rejected(a_pod("asleep"), "P")
    harness.add_rejected(a_pod("error"))
    assert harness.queue.next_flush() == 1030.0
    harness.delete(a_pod("asleep"))
    harness.advance_flushing(35)
    assert harness.queue.next_flush() == 1041.0


def test_checking_twice_at_one_time_is_idempotent():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=20)
    harness.add_rejected(a_pod("a"), "P")
    harness.now = 1030.0
    harness.queue.flush()
    moves = harness.take_moves()
    harness.queue.flush()
    assert moves
    assert not harness.take_moves()
