"""How many nodes of which group waiting pods need."""

import pytest

from stowplan_cluster.reconcile.cluster_autoscaler import NodeGroup, WaitingPod, nodes_to_add, unhelped_text


def group(name, cpu=4, *, price=1.0, coming=0, room=10):
    return NodeGroup(name, {"cpu": cpu, "pods": 10}, price, coming, room)


def pods(*cpus):
    return [WaitingPod(f"p{number}", {"cpu": cpu}) for number, cpu in enumerate(cpus)]


def anything(name, waiting):
    return {pod.uid for pod in waiting}


def numbers(found):
    return {order.group: order.nodes for order in found.orders}


@pytest.mark.parametrize(
    ("groups", "waiting", "added"),
    [
        pytest.param([group("a")], [], {}, id="nothing waits"),
        pytest.param([group("a")], pods(2, 2, 2), {"a": 2}, id="by their requests"),
        pytest.param([group("a")], pods(*[0] * 11), {"a": 2}, id="by the number of pods"),
        pytest.param([group("a")], pods(5), {}, id="too large"),
        pytest.param([group("a", room=1)], pods(4, 4), {"a": 1}, id="up to the limit"),
        pytest.param([group("a", coming=1)], pods(4, 4), {"a": 1}, id="next to those that come"),
        pytest.param([group("a", coming=1, room=0)], pods(4), {}, id="those that come suffice"),
        pytest.param([group("a", room=-1)], pods(4), {}, id="too many already"),
        pytest.param([group("a", price=2.0), group("b")], pods(4), {"b": 1}, id="the cheaper one"),
        pytest.param([group("a"), group("b", cpu=8, price=1.5)], pods(4, 4), {"b": 1}, id="cheaper by the cpu"),
        pytest.param(
            [group("a", room=1), group("b", price=2.0)], pods(4, 4), {"a": 1, "b": 1}, id="the rest elsewhere"
        ),
    ],
)
def test_nodes_to_add(groups, waiting, added):
    assert numbers(nodes_to_add(groups, waiting, anything)) == added


def test_only_pods_that_a_group_accepts():
    def accepts(name, waiting):
        return {"p0"} if name == "a" else {pod.uid for pod in waiting}

    assert numbers(nodes_to_add([group("a"), group("b", price=2.0)], pods(4, 4), accepts)) == {"a": 1, "b": 1}


def test_pods_that_fit_on_nodes_that_come_did_not_order_any():
    (order,), left = nodes_to_add([group("a", coming=1)], pods(4, 4, 4), anything)
    assert (order.nodes, order.pods, left) == (2, ["p1", "p2"], [])


def test_pods_that_no_node_would_take_are_left():
    waiting = pods(4, 5)
    assert nodes_to_add([group("a", coming=1), group("b", room=0)], waiting, anything).left == waiting[1:]


def test_why_no_group_helps():
    groups = [group("a"), group("b", room=0), group("c"), group("d")]
    reasons = {"a": ["Insufficient cpu"], "c": ["Insufficient cpu", "Insufficient memory"], "d": []}
    text = "pod didn't trigger scale-up: 1 Insufficient memory, 1 max node group size reached, 2 Insufficient cpu"
    assert unhelped_text(groups, reasons) == text
