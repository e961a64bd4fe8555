"""Binds are evaluated in the order in which they were decided, as far as it can be inferred."""

import pytest

from stowplan.history.shadow import decision_order
from stowplan.history.shadow.decision_order import CONCURRENT_SECONDS, DecisionOrder
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.testing import a_pod

LATER = CONCURRENT_SECONDS


def pod(name, node="", **fields):
    made = a_pod(name).uid(name)
    if "priority" in fields:
        made = made.priority(fields["priority"])
    if node:
        made = made.on(node)
    return convert(made.obj(), Pod)


class Order(DecisionOrder):
    def come(self, *names, came=True, **fields):
        for name in names:
            self.pending(pod(name, **fields), 0.0, came=came)

    def bind(self, *names, at=0.0, **fields):
        for name in names:
            self.bound(Change(pod(name, **fields), pod(name, "n", **fields)), at)

    def released(self, at=LATER):
        return "".join(bind.uid for bind in self.release(at, lambda node: True))


@pytest.fixture
def order():
    return Order()


def test_in_the_order_of_the_queue(order):
    order.come("a", "b", "c")
    order.bind("b")
    assert order.released() == ""
    order.bind("a")
    assert order.released() == "ab"


def test_higher_priority_comes_first(order):
    order.come("a")
    order.come("b", priority=5)
    order.bind("a")
    order.bind("b", priority=5)
    assert order.released() == "ba"


def test_initial_pods_are_ordered_by_their_binds(order):
    order.come("a", "b", "c", came=False)
    order.bind("c", "a", "b")
    assert order.released() == "cab"


def test_initial_pods_follow_bound_ones(order):
    order.come("x", "y", came=False)
    order.come("a", "b", "c", "d")
    order.bind("a", "x", "b", "y")
    # Not behind d, which was created before their binds were observed: it still waits.
    assert order.released() == "axby"
    order.bind("d")
    assert order.released() == ""
    order.bind("c")
    assert order.released() == "cd"


def test_binds_of_the_same_moment_are_held_back(order):
    order.come("a", came=False)
    order.bind("a", at=5.0)
    assert order.released(5.0 + LATER / 2) == ""
    assert order.released(5.0 + LATER) == "a"


def test_waiting_for_overtaken_pods_is_bounded(order, monkeypatch):
    order.come("a", "b", "c")
    order.bind("b", at=1.0)
    assert order.released(5.9) == ""
    assert order.released(6.0) == "b"
    # Nor again; and it is evaluated when it is bound.
    order.bind("c", at=7.0)
    assert order.released(7.0 + LATER) == "c"
    order.bind("a", at=8.0)
    assert order.released(8.0 + LATER) == "a"
    monkeypatch.setattr(decision_order, "MAX_OVERTAKING", 2)
    order.come("d", "e", "f", "g")
    order.bind("e", "f", "g", at=9.0)
    assert order.released(9.0 + LATER) == "efg"


def test_refused_gated_and_deleted_pods_are_not_waited_for(order):
    order.come("a", "b", "c", "d")
    refused = convert(a_pod("a").uid("a").condition("PodScheduled", "False").obj(), Pod)
    order.updated(pod("a"), refused)
    order.gone("b")
    gated = convert(a_pod("g").uid("g").gated("wait").obj(), Pod)
    order.pending(gated, 0.0, came=True)
    order.bind("c")
    assert order.released() == "c"
    # Once ungated, it is last.
    order.updated(gated, pod("g"))
    order.bind("g")
    assert order.released() == ""
    order.bind("d")
    assert order.released() == "dg"


def test_held_back_pods_are_updated(order):
    order.come("a", "b")
    order.bind("b")
    newer = pod("b", "n")
    assert order.renewed(Change(pod("b", "n"), newer))
    assert not order.renewed(Change(pod("a"), pod("a")))
    (bind,) = order.release_up_to("b")
    assert bind.change.new is newer
    assert bind.change.old.spec.node_name == ""
    order.bind("a")
    assert [one.uid for one in order.release_all()] == ["a"]
    assert list(order.release_all()) == []
