"""Nominations of queued pods."""

import pytest

from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_pod
from support.scheduling.queues import QueueHarness, plugin_waiting_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def named(node, name="a"):
    return a_pod(name).status(nominatedNodeName=node)


def nominated(harness):
    nominator = harness.state.nominator
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
    harness = QueueHarness()
    harness.add(a_pod("a"))
    harness.queue.nominate(harness.info(a_pod("a")), "before")
    harness.queue.nominate(harness.info(pod), node)
    assert nominated(harness) == expected


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="gone"),
        pytest.param(a_pod("a").uid("another"), id="made anew"),
    ],
)
def test_pods_that_are_not_pending_are_not_nominated(stored):
    harness = QueueHarness()
    harness.add(a_pod("a").uid("u"))
    harness.queue.nominate(harness.info(a_pod("a").uid("u")), "n")
    harness.state.pending.remove("default/a")
    if stored is not None:
        harness.state.pending.put(harness.info(stored))
    harness.queue.nominate(harness.info(a_pod("a").uid("u")), "m")
    assert nominated(harness) == {}


def test_a_new_pod_is_nominated_by_its_status():
    harness = QueueHarness()
    harness.add(named("n"))
    assert nominated(harness) == {"n": ["a"]}


def test_a_gated_pod_is_not_nominated():
    harness = QueueHarness(plugin_waiting_for("A", pre_enqueue=CLOSED))
    harness.add(named("n"))
    assert nominated(harness) == {}


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
    harness = QueueHarness(plugin_waiting_for("P"))
    if asleep:
        harness.add_rejected(old, "P")
    else:
        harness.add(old)
    harness.queue.nominate(harness.info(old), "memory")
    info = harness.update(old, new)
    assert nominated(harness) == expected
    for node in expected:
        assert harness.state.nominator.on(node) == [info], "not the newest version"


def test_a_deleted_pod_is_not_nominated():
    harness = QueueHarness()
    harness.add(named("n"), named("n", "b"))
    harness.delete(a_pod("a"))
    assert nominated(harness) == {"n": ["b"]}


def test_nominations_are_listed_in_order_and_keep_their_age_when_renewed():
    harness = QueueHarness()
    harness.add(named("n"), named("n", "b"), named("n", "c"))
    harness.queue.nominate(harness.info(a_pod("b")), "n")
    assert nominated(harness) == {"n": ["a", "b", "c"]}
    harness.queue.nominate(harness.info(a_pod("a")), "m")
    harness.queue.nominate(harness.info(a_pod("a")), "n")
    assert nominated(harness) == {"n": ["b", "c", "a"]}
