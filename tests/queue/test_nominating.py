"""Which node a waiting pod is nominated."""

import pytest

from stowplan.framework.status import Code, Status
from stowplan.testing import a_pod
from support.scheduling.queues import Room, waits_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def named(node, name="a"):
    return a_pod(name).status(nominatedNodeName=node)


def nominated(room):
    nominator = room.state.nominator
    return {node: [info.pod.metadata.name for info in nominator.on(node)] for node in nominator.nodes()}


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(a_pod("a"), "n", {"n": ["a"]}, id="a name"),
        pytest.param(named("s"), "n", {"n": ["a"]}, id="a name, over the status"),
        pytest.param(named("s"), None, {"s": ["a"]}, id="what the status says"),
        pytest.param(a_pod("a"), None, {}, id="the status says nothing"),
        pytest.param(named("s"), "", {}, id="cleared"),
    ],
)
def test_nominate(pod, node, expected):
    room = Room()
    room.add(a_pod("a"))
    room.queue.nominate(room.info(a_pod("a")), "before")
    room.queue.nominate(room.info(pod), node)
    assert nominated(room) == expected


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="gone"),
        pytest.param(a_pod("a").uid("another"), id="made anew"),
    ],
)
def test_who_is_no_longer_pending_is_nominated_nothing(stored):
    room = Room()
    room.add(a_pod("a").uid("u"))
    room.queue.nominate(room.info(a_pod("a").uid("u")), "n")
    room.state.pending.remove("default/a")
    if stored is not None:
        room.state.pending.put(room.info(stored))
    room.queue.nominate(room.info(a_pod("a").uid("u")), "m")
    assert nominated(room) == {}


def test_a_new_pod_brings_its_nomination():
    room = Room()
    room.add(named("n"))
    assert nominated(room) == {"n": ["a"]}


def test_a_gated_pod_does_not():
    room = Room(waits_for("A", pre_enqueue=CLOSED))
    room.add(named("n"))
    assert nominated(room) == {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(a_pod("a"), a_pod("a").labels(a="b"), {"memory": ["a"]}, id="silent before and after"),
        pytest.param(a_pod("a"), named("n"), {"n": ["a"]}, id="named"),
        pytest.param(named("n"), named("m"), {"m": ["a"]}, id="renamed"),
        pytest.param(named("n"), a_pod("a"), {}, id="taken back"),
    ],
)
@pytest.mark.parametrize("asleep", [True, False])
def test_updates_of_a_waiting_pod(old, new, expected, asleep):
    room = Room(waits_for("P"))
    if asleep:
        room.rejected(old, "P")
    else:
        room.add(old)
    room.queue.nominate(room.info(old), "memory")
    info = room.update(old, new)
    assert nominated(room) == expected
    for node in expected:
        assert room.state.nominator.on(node) == [info], "the newest version"


def test_a_pod_that_goes_is_nominated_nothing():
    room = Room()
    room.add(named("n"), named("n", "b"))
    room.delete(a_pod("a"))
    assert nominated(room) == {"n": ["b"]}


def test_nominations_are_listed_in_order_and_keep_their_age_when_renewed():
    room = Room()
    room.add(named("n"), named("n", "b"), named("n", "c"))
    room.queue.nominate(room.info(a_pod("b")), "n")
    assert nominated(room) == {"n": ["a", "b", "c"]}
    room.queue.nominate(room.info(a_pod("a")), "m")
    room.queue.nominate(room.info(a_pod("a")), "n")
    assert nominated(room) == {"n": ["b", "c", "a"]}
