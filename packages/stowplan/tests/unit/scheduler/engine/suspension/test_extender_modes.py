"""Whether other pods are decided while one waits for an extender; extenders that bind."""

import pytest

from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.engine.suspension.suspended_cycles import MAX_CYCLES
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.scheduling.engines import DrivenEngine
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.worlds import struct


def rooms(*names, pods=110, cpu=4):
    return [a_node(name).allocatable(cpu=cpu, pods=pods) for name in names]


def asked(extender="e", **points):
    """An extender that is interested in pods with the label `asks`."""
    return FakeExtender(extender, only="asks", **points)


def asking(name):
    return a_pod(name).labels(asks="yes")


# -- serial -----------------------------------------------------------------------------------------------------------


def serial(*objects, **options):
    return DrivenEngine(*objects, overlaps=False, **options)


def test_no_other_pod_is_decided_while_one_waits():
    engine = serial(*rooms("n1"), extenders=[asked(filters=True, prioritizes=True)])
    engine.create(a_pod("before"), asking("p"), a_pod("after"))
    assert engine.bound == {"before": "n1"}
    engine.answer("e", ["n1"])
    assert engine.bound == {"before": "n1", "p": "n1", "after": "n1"}


def test_prioritize_and_preempt_block_other_pods_too():
    extender = asked(filters=True, prioritizes=True, preempts=True)
    engine = serial(*rooms("n1", "n2", pods=1), a_pod("v").on("n1").priority(1), extenders=[extender])
    engine.create(asking("p").priority(9), a_pod("q"))
    engine.answer("e", ["n2"])
    assert engine.bound == {"p": "n2"}
    engine.create(asking("r").priority(9), a_pod("s"))
    assert list(engine.question("e")) == ["n1"]
    assert engine.place("s") is Place.ACTIVE
    engine.answer("e", {})
    assert engine.place("r") is engine.place("s") is Place.UNSCHEDULABLE


@pytest.mark.parametrize("ends", ["deleted", "bound elsewhere", "fails", "answers badly"])
def test_other_pods_continue_however_the_wait_ends(ends):
    engine = serial(*rooms("n1"), extenders=[asked(filters=True)])
    engine.create(asking("p"), a_pod("q"))
    if ends == "deleted":
        engine.delete(engine.pod("p"))
    elif ends == "bound elsewhere":
        engine.change(struct(asking("p").on("n1")))
        engine.run()
    else:
        engine.answer("e", Unreachable("gone") if ends == "fails" else 7)
    assert engine.bound == {"q": "n1"}


def test_no_room_is_reserved_for_a_pod_that_cannot_be_overtaken():
    engine = serial(*rooms("n1"), extenders=[asked(filters=True)])
    engine.create(asking("p"))
    assert not engine.engine.state.nominator
    engine.answer("e", ["n1"])
    assert engine.bound == {"p": "n1"}


# -- reserved room ----------------------------------------------------------------------------------------------------


def overlapping(*objects, **options):
    return DrivenEngine(*objects, overlaps=True, **options)


@pytest.mark.parametrize("point", ["filters", "prioritizes"])
def test_lower_priority_pods_do_not_take_the_room_of_a_waiting_pod(point):
    engine = overlapping(*rooms("n1", "n2", pods=1), extenders=[asked(**{point: True})])
    engine.create(asking("p").priority(5), a_pod("low").priority(1), a_pod("lower"))
    assert list(engine.bound) == ["low"]
    assert engine.place("lower") is Place.UNSCHEDULABLE
    (left,) = {"n1", "n2"} - set(engine.bound.values())
    engine.answer("e", [left] if point == "filters" else {left: 10})
    assert engine.bound["p"] == left


@pytest.mark.parametrize("ends", ["nowhere", "fails", "deleted"])
def test_unused_reserved_room_is_released(ends):
    engine = overlapping(
        *rooms("n1", pods=1), a_node("big").allocatable(cpu=1, pods=1), extenders=[asked(filters=True)]
    )
    engine.create(asking("p").priority(5).spec(preemptionPolicy="Never"), a_pod("q").priority(5).on("big"))
    engine.create(a_pod("low"))
    assert engine.place("low") is Place.UNSCHEDULABLE
    match ends:
        case "nowhere":
            engine.answer("e", {"unresolvable": {"n1": "never"}})
        case "deleted":
            engine.delete(engine.pod("p"))
        case _:
            engine.answer("e", Unreachable("gone"))
    assert not engine.engine.state.nominator
    engine.advance(10)
    assert "low" in engine.bound


def test_an_existing_nomination_is_kept():
    engine = overlapping(*rooms("n1", "n2"), extenders=[asked(filters=True)])
    engine.create(asking("p").obj() | {"status": {"nominatedNodeName": "n2"}})
    uid = engine.pod("p").metadata.uid or "default/p"
    assert engine.engine.state.nominator.node_of(uid) == "n2"
    engine.answer("e", Unreachable("gone"))
    assert engine.question("e")["nodes"] == ["n1", "n2"]
    assert engine.engine.state.nominator.node_of(uid) == "n2"


# -- concurrency limits -----------------------------------------------------------------------------------------------


def test_concurrent_questions_to_an_extender_are_limited():
    engine = overlapping(*rooms("n1", pods=1000, cpu=1000), extenders=[asked(filters=True)])
    engine.create(*(asking(f"p{i}") for i in range(MAX_CYCLES + 3)), a_pod("free"))
    assert len(engine.questions()) == MAX_CYCLES
    assert engine.bound == {"free": "n1"}
    for answered in range(MAX_CYCLES + 3):
        assert len(engine.questions()) == min(MAX_CYCLES, MAX_CYCLES + 3 - answered)
        engine.answer("e", ["n1"])
    assert len(engine.bound) == MAX_CYCLES + 4


def test_the_waiting_pod_with_the_highest_priority_is_next():
    engine = overlapping(*rooms("n1", pods=1000, cpu=1000), extenders=[asked(filters=True)])
    engine.create(*(asking(f"p{i}") for i in range(MAX_CYCLES)))
    engine.create(asking("low").priority(1), asking("high").priority(9), asking("also-low").priority(1))
    last = []
    for _ in range(3):
        engine.answer("e", Unreachable("gone"))
        last.append(engine.question("e", -1)["pod"])
    assert last == ["default/high", "default/low", "default/also-low"]


def test_the_limit_of_one_extender_does_not_affect_pods_of_another():
    other = FakeExtender("other", filters=True, only="other")
    engine = overlapping(*rooms("n1", pods=1000, cpu=1000), extenders=[asked(filters=True), other])
    engine.create(*(asking(f"p{i}") for i in range(MAX_CYCLES + 1)))
    engine.create(asking("both").labels(asks="yes", other="yes"), a_pod("q").labels(other="yes"))
    assert engine.question("other") == {"pod": "default/q", "nodes": ["n1"]}
    engine.answer("other", ["n1"])
    assert engine.bound == {"q": "n1"}


def test_waiting_pods_may_change_or_be_deleted():
    engine = overlapping(*rooms("n1", pods=1000, cpu=1000), extenders=[asked(filters=True)])
    engine.create(*(asking(f"p{i}") for i in range(MAX_CYCLES)))
    engine.create(asking("gone"), asking("changed"), asking("waits"))
    engine.delete(engine.pod("gone"))
    engine.change(struct(a_pod("changed")))
    engine.run()
    assert engine.bound == {"changed": "n1"}, "the extender is no longer interested in it"
    engine.answer("e", Unreachable("gone"))
    assert engine.question("e", -1)["pod"] == "default/waits"


# -- binding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlaps", [False, True])
def test_an_extender_binds_in_place_of_the_plugins(overlaps):
    engine = DrivenEngine(*rooms("n1"), extenders=[asked(binds=True)], overlaps=overlaps)
    engine.create(asking("p"), a_pod("q"))
    assert engine.question("e") == {"pod": "default/p", "node": "n1"}
    assert engine.bound == {"q": "n1"}, "a binding blocks no other pod"
    engine.answer("e", "bound")
    assert engine.bound == {"q": "n1"}
    assert engine.engine.under_way == 0
    assert [tell.reason for tell in engine.told] == ["Scheduled", "Scheduled"]


@pytest.mark.parametrize(
    ("answer", "text"), [(Unreachable("gone"), "gone"), ("it cannot", "it cannot")], ids=["no answer", "refused"]
)
def test_a_binder_that_fails(answer, text):
    engine = DrivenEngine(*rooms("n1"), extenders=[asked(binds=True)])
    engine.create(asking("p"))
    engine.answer("e", answer)
    assert engine.bound == {}
    assert engine.notes() == [text]
    assert engine.place("p") is Place.ERROR_BACKOFF
    assert engine.engine.state.sizes()["assumed_pods"] == 0


@pytest.mark.parametrize("answer", [Unreachable("gone"), "it cannot"], ids=["no answer", "refused"])
def test_after_an_ignorable_binder_fails_the_next_one_binds(answer):
    engine = DrivenEngine(
        *rooms("n1"),
        extenders=[asked("first", binds=True, ignorable=True), asked("second", binds=True, ignorable=True)],
    )
    engine.create(asking("p"))
    engine.answer("first", answer)
    engine.answer("second", answer)
    assert engine.bound == {"p": "n1"}


@pytest.mark.slow
def test_extenders_that_do_not_bind_do_not_block_bindings():
    engine = DrivenEngine(*rooms("n1", pods=1000, cpu=1000), extenders=[asked(binds=True)])
    engine.create(*(asking(f"p{i}") for i in range(300)), a_pod("q"))
    assert len(engine.questions()) == 300
    assert engine.bound == {"q": "n1"}
