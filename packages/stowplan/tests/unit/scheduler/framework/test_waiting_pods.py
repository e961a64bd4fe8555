"""Waiting on Permit and cancellation in PreBind: the first decision counts, and timeouts."""

import pytest

from stowplan.scheduler.framework.waiting_pods import PodInPreBind, PodsInPreBind, WaitingPods, permit_outcome
from stowplan.testing import a_pod
from support.plugins.recording_plugins import Clock, an_attempt, framework_of, shown

ALLOWED = ("Success", "", "")


def info(name="web-0"):
    return an_attempt(framework_of(), a_pod(name))[2]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pods(clock):
    return WaitingPods(now=clock)


# -- what decides -----------------------------------------------------------------------------------------------------


def allow(*plugins):
    return lambda waiting, clock: [waiting.allow(plugin) for plugin in plugins]


def reject(plugin, message):
    return lambda waiting, clock: waiting.reject(plugin, message)


def preempt(plugin, message):
    return lambda waiting, clock: waiting.preempt(plugin, message)


def wait(seconds):
    def pass_time(waiting, clock):
        clock.advance(seconds)
        waiting.expire()

    return pass_time


TIMED_OUT = ("Unschedulable", "A", "rejected due to timeout after waiting 10s at plugin A")


@pytest.mark.parametrize(
    ("steps", "decision"),
    [
        pytest.param([], None, id="nothing said"),
        pytest.param([allow("A")], None, id="one of two allows"),
        pytest.param([allow("A", "B")], ALLOWED, id="all allow"),
        pytest.param([allow("A", "A")], None, id="the same one twice"),
        pytest.param([allow("stranger")], None, id="a plugin that is not waited for"),
        pytest.param([reject("C", "go away")], ("Unschedulable", "C", "go away"), id="rejected by any plugin"),
        pytest.param([preempt("C", "preempted")], ("Error", "C", "preempted"), id="preempted"),
        pytest.param([allow("A", "B"), reject("C", "late")], ALLOWED, id="allowed, then rejected"),
        pytest.param([reject("C", "no"), allow("A", "B")], ("Unschedulable", "C", "no"), id="rejected, then allowed"),
        pytest.param([preempt("C", "p"), reject("D", "r")], ("Error", "C", "p"), id="preempted, then rejected"),
        pytest.param([wait(9.999)], None, id="just before the first deadline"),
        pytest.param([wait(10)], TIMED_OUT, id="the earliest deadline wins"),
        pytest.param([wait(1000)], TIMED_OUT, id="the earliest deadline wins when asked late"),
        pytest.param(
            [allow("A"), wait(900)],
            ("Unschedulable", "B", "rejected due to timeout after waiting 15m0s at plugin B"),
            id="the deadline of a plugin that allowed does not count",
        ),
        pytest.param([wait(10), allow("A", "B")], TIMED_OUT, id="timed out, then allowed"),
        pytest.param([allow("A", "B"), wait(1000)], ALLOWED, id="allowed, then time passes"),
    ],
)
def test_the_first_signal_wins(pods, clock, steps, decision):
    waiting = pods.add(info(), {"A": 10.0, "B": 900.0})
    heard = []
    waiting.on_decided(heard.append)
    for step in steps:
        step(waiting, clock)
    assert shown(waiting.decision) == decision
    assert heard == ([] if decision is None else [waiting.decision])


def test_an_expired_deadline_has_precedence_over_a_later_signal(pods, clock):
    waiting = pods.add(info(), {"A": 10.0})
    clock.advance(11)
    waiting.allow("A")
    assert shown(waiting.decision) == TIMED_OUT


def test_pending_plugins_and_deadlines_shrink(pods, clock):
    waiting = pods.add(info(), {"A": 10.0, "B": 30.0})
    assert (waiting.pending_plugins, waiting.next_deadline) == (("A", "B"), 110.0)
    waiting.allow("A")
    assert (waiting.pending_plugins, waiting.next_deadline) == (("B",), 130.0)
    waiting.reject("B", "no")
    assert waiting.next_deadline is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.25, "250ms"), (1.5, "1.5s"), (10.0, "10s"), (90.0, "1m30s"), (900.0, "15m0s")],
)
def test_timeouts_are_formatted_as_in_go(pods, clock, seconds, text):
    waiting = pods.add(info(), {"P": seconds})
    clock.advance(seconds)
    assert waiting.expire()
    assert waiting.decision.message == f"rejected due to timeout after waiting {text} at plugin P"


def test_a_decision_can_be_read_later(pods):
    waiting = pods.add(info(), {"A": 10.0})
    waiting.allow("A")
    heard = []
    waiting.on_decided(heard.append)
    assert shown(heard[0]) == ALLOWED


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [
        pytest.param(allow("A"), None, id="allowed"),
        pytest.param(reject("B", "no room"), ("Unschedulable", "B", "no room"), id="rejected"),
        pytest.param(preempt("B", "preempted"), ("Error", "B", "waiting on permit for pod: preempted"), id="preempted"),
    ],
)
def test_outcomes_for_the_binding(pods, clock, signal, outcome):
    waiting = pods.add(info(), {"A": 10.0})
    signal(waiting, clock)
    assert shown(permit_outcome(waiting.decision)) == outcome


# -- the map ----------------------------------------------------------------------------------------------------------


def test_pods_are_found_by_uid(pods):
    waiting = pods.add(info("a"), {"A": 10.0})
    assert pods.get(waiting.uid) is waiting
    assert len(pods) == 1
    pods.remove(waiting.uid)
    pods.remove(waiting.uid)
    assert pods.get(waiting.uid) is None


def test_pods_may_be_removed_during_iteration(pods):
    for name in "abc":
        pods.add(info(name), {"A": 10.0})
    seen = []
    for waiting in pods:
        pods.remove(waiting.uid)
        seen.append(waiting.pod.key)
    assert seen == ["default/a", "default/b", "default/c"]
    assert not list(pods)


def test_rejecting_a_deleted_pod(pods):
    waiting = pods.add(info("a"), {"A": 10.0})
    assert pods.reject("unknown") is False
    assert pods.reject(waiting.uid) is True
    assert shown(waiting.decision) == ("Unschedulable", "", "removed")
    assert pods.reject(waiting.uid) is False


def test_one_timer_serves_all(pods, clock):
    assert pods.next_deadline is None
    early, late = pods.add(info("a"), {"A": 5.0}), pods.add(info("b"), {"A": 7.0})
    assert pods.next_deadline == 105.0
    clock.advance(5)
    assert pods.expire() == [early]
    assert pods.next_deadline == 107.0
    clock.advance(5)
    assert pods.expire() == [late]
    assert pods.next_deadline is None


# -- in PreBind -------------------------------------------------------------------------------------------------------


def test_cancelled_before_prebound():
    causes = []
    pod = PodInPreBind("u", causes.append)
    assert pod.cancel("preempted by DefaultPreemption") is True
    assert pod.cancel("again") is True
    assert pod.mark_prebound() is False
    assert pod.cancelled_for == "preempted by DefaultPreemption"
    assert causes == ["preempted by DefaultPreemption"]


def test_prebound_before_cancelled():
    causes = []
    pod = PodInPreBind("u", causes.append)
    assert pod.mark_prebound() is True
    assert pod.cancel("too late") is False
    assert pod.cancelled_for is None
    assert causes == []


def test_pods_in_pre_bind_are_added_and_removed():
    pods = PodsInPreBind()
    pod = pods.add("u", lambda reason: None)
    assert pods.get("u") is pod
    pods.remove("u")
    pods.remove("u")
    assert pods.get("u") is None
