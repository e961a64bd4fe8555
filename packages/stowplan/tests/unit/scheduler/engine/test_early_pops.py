"""Pods in backoff are tried early while nothing else is ready and no rejected pod's status is being written."""

import pytest

from stowplan.kube.api.api_errors import Forbidden, ServiceUnavailable
from stowplan.kube.api.types import Node
from stowplan.scheduler.framework.requests import Patch
from stowplan.testing import a_node, a_pod
from support.scheduling.engine_by_hand import EngineByHand


@pytest.fixture
def room():
    """The taint that kept pods a and b out is gone, but there is no room for them. Only a was tried again so far."""
    room = EngineByHand()
    room.create(
        a_node("n").allocatable(cpu="3", pods="9").tainted("k"),
        a_pod("blocker").requests(cpu="2").on("n"),
        *(a_pod(name).requests(cpu="2") for name in "ab"),
    )
    room.schedule()
    room.answer_all()
    room.write(Patch(kind=Node, namespace="", name="n", body={"spec": {"taints": None}}))
    room.deliver(Node)
    assert room.engine.queue.counts()["backoff"] == 2
    room.schedule()
    assert (places(room), list(room.under_way)) == (["UNSCHEDULABLE", "BACKOFF"], room.answerable)
    return room


def places(room):
    return [room.engine.queue.get(f"default/{name}").place.name for name in "ab"]


def test_none_while_a_status_is_written(room):
    assert places(room) == ["UNSCHEDULABLE", "BACKOFF"]
    room.answer_about("a")
    room.schedule()
    assert places(room) == ["UNSCHEDULABLE"] * 2


def test_a_status_that_cannot_be_written_is_not_waited_for(room):
    room.answer_about("a", refused=Forbidden("no"))
    assert room.engine.wants_turn


def test_a_status_that_is_written_later_is(room):
    room.answer_about("a", refused=ServiceUnavailable("later"))
    assert not room.engine.wants_turn
    room.advance(0.1)
    room.answer_about("a")
    assert room.engine.wants_turn


def test_other_pods_wait_for_no_status(room):
    room.create(a_pod("new").requests(cpu="2"))
    assert room.engine.wants_turn
    room.advance(3.0)
    room.schedule()
    assert places(room) == ["UNSCHEDULABLE"] * 2, "its backoff is over"
