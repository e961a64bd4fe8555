"""Nominations of queued pods."""

import pytest

from stowplan.testing import a_pod
from support.scheduling.queues import QueueHarness


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
