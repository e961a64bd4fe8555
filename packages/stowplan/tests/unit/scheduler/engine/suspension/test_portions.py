"""Plugins with more work than fits in one turn: they continue in portions, and other pods are tried in between."""

import numpy as np
import pytest
from msgspec.structs import replace

from stowplan.kube.api.types import PodCondition, PodStatus
from stowplan.scheduler.engine.inputs import Stopped
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.status import Code, Reason, error
from stowplan.scheduler.framework.unfinished import unfinished, unfinished_of
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.plugins.slow_filter import Slow
from support.scheduling.fake_extender import FakeExtender

NO = Rejections(np.ones(1, np.bool_), (Entry(np.ones(1, np.bool_), Code.Unschedulable, Reason("No", "no")),))


def slow_filter(portions, **options):
    return Slow(portions, a_node("n").allocatable(cpu=100, pods=100), **options)


def test_a_pod_continues_until_its_work_is_done():
    slow = slow_filter(3)
    slow.create("p")
    for _ in range(3):
        assert slow.driven.bound == {}
        assert slow.driven.suspended() == ["p"]
        slow.go_on()
    assert slow.driven.bound == {"p": "n"}
    assert slow.pauses == []
    assert slow.driven.notes() == []


def test_other_pods_are_tried_in_between():
    slow = slow_filter(3)
    slow.create("p")
    slow.driven.create(a_pod("q"))
    assert slow.driven.bound == {"q": "n"}
    slow.go_on()
    slow.driven.create(a_pod("r"))
    assert sorted(slow.driven.bound) == ["q", "r"]


def test_an_attempt_ends_after_its_allowed_portions_and_the_next_continues():
    slow = slow_filter(6, allowed=4)
    slow.create("p")
    for _ in range(4):
        slow.go_on()
    assert slow.pauses == []
    assert slow.driven.notes() == ['running "Slow" filter plugin: it took too long']
    assert slow.driven.place("p") is Place.ERROR_BACKOFF
    assert slow.done["p"] == 5
    slow.driven.advance(2)
    slow.go_on()
    assert slow.driven.bound == {"p": "n"}


def test_all_pending_work_shares_one_portion_per_pause():
    slow = slow_filter(3)
    slow.create("p", "q", "r")
    assert len(slow.pauses) == 1
    before = len(slow.calls)
    for _ in range(6):
        slow.go_on()
    assert slow.calls[before:] == ["p", "q", "r", "p", "q", "r"]
    for _ in range(3):
        slow.go_on()
    assert sorted(slow.driven.bound) == ["p", "q", "r"]


@pytest.mark.parametrize("outcome", [None, NO, error("oops")])
def test_equal_pods_wait_for_the_first_of_them(outcome):
    slow = slow_filter(3, outcome=outcome)
    slow.create(*(f"p{i}" for i in range(5)), work="same")
    assert slow.calls == ["p0"], "the others wait without a portion of their own"
    for _ in range(3):
        slow.go_on()
    assert slow.pauses == []
    assert slow.driven.suspended() == []
    assert len(slow.driven.bound) == (5 if outcome is None else 0)
    assert len(slow.driven.notes()) == (0 if outcome is None else 5)


def test_a_rejection_after_several_portions_is_a_normal_rejection():
    slow = slow_filter(2, outcome=NO)
    slow.create("p")
    slow.go_on()
    slow.go_on()
    assert slow.driven.notes()[0].startswith("0/1 nodes are available: 1 no.")
    assert slow.driven.place("p") is Place.UNSCHEDULABLE


@pytest.mark.parametrize("equals", [0, 2])
def test_a_deleted_pod_no_longer_waits(equals):
    slow = slow_filter(3)
    slow.create("p", *(f"q{i}" for i in range(equals)), work="same")
    slow.driven.delete(slow.driven.pod("p"))
    assert len(slow.pauses) == (1 if equals else 0)
    for _ in range(3 if equals else 0):
        slow.go_on()
    assert len(slow.driven.bound) == equals


def test_the_work_ends_when_scheduling_stops():
    slow = slow_filter(3)
    slow.create("p")
    slow.driven.step(Stopped())
    assert slow.pauses == []
    assert slow.driven.suspended() == []
    assert slow.driven.place("p") is Place.ACTIVE


def test_profiles_with_extenders_work_in_portions_too():
    slow = slow_filter(2, extenders=[FakeExtender("e", filters=True)])
    slow.create("p")
    slow.go_on()
    assert slow.driven.questions() == []
    slow.go_on()
    slow.driven.answer("e", ["n"])
    assert slow.driven.bound == {"p": "n"}


def test_an_unfinished_status_is_recognized():
    status = unfinished("late", 7)
    assert unfinished_of(status).portions == 7
    assert unfinished_of(error("late")) is None
    assert unfinished_of(None) is None


def test_a_waiting_pod_whose_status_changed_returns_in_its_newest_version():
    slow = slow_filter(1, outcome=NO)
    slow.create("p0", "p1", work="same")
    pod = slow.driven.pod("p1")
    newer = replace(pod.metadata, resource_version="2")
    slow.driven.change(replace(pod, metadata=newer, status=PodStatus(conditions=(PodCondition(type="Ready"),))))
    slow.go_on()
    assert slow.driven.engine.queue.get("default/p1").pod.pod.metadata.resource_version == "2"
