"""Which events wake which pods, when, and what events do to pods in flight."""

import pytest

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.events import (
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


@pytest.mark.parametrize(("version", "place"), [(V1_36, "BACKOFF"), (V1_37, "UNSCHEDULABLE")], ids=str)
def test_plugins_registered_for_nodes_get_taint_updates(version, place):
    """Until 1.36."""
    harness = QueueHarness(plugin_waiting_for("P", on(NODE, Action.Add, says({}))), version=version)
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(NODE, Action.UpdateNodeTaint), a_node().tainted("t"), a_node())
    assert harness.place("a") == place


def test_pods_rejected_by_extenders_are_woken_by_any_event():
    harness = QueueHarness()
    harness.frameworks[DEFAULT].handle._extenders = (object(),)
    harness.queue.register()
    harness.add_rejected(a_pod("a"), "Extender")
    harness.handle_event(event(PVC, Action.Update))
    assert harness.place("a") == "BACKOFF"


def test_hints_are_not_called_for_pods_excluded_by_pre_check():
    harness = QueueHarness(plugin_waiting_for("P", on(POD, Action.Delete, says({"a": ZeroDivisionError("asked")}))))
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(ASSIGNED_POD_DELETE, a_pod("gone").on("n"), None, pre_check=lambda info: False)
    assert harness.problems == []


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


def test_the_earlier_of_the_two_timers_counts():
    harness = QueueHarness(plugin_waiting_for("P"), max_in_unschedulable=29, initial_backoff=40, max_backoff=40)
    harness.add_rejected(a_pod("asleep"), "P")
    harness.add_rejected(a_pod("error"))
    assert harness.queue.next_flush() == 1030.0
    harness.delete(a_pod("asleep"))
    harness.advance_flushing(35)
    assert harness.queue.next_flush() == 1041.0
