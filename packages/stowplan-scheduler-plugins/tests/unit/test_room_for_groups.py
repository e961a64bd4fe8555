"""What all nodes together lack for a group."""

import pytest

import stowplan
from stowplan.plugins import Nodes
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.room_for_groups import gap, shown_gap

NANO = 10**9


def cluster(*pods):
    nodes = [a_node(name).allocatable({"cpu": "4", "memory": "8Gi", "pods": "2"}).obj() for name in ("a", "b")]
    return stowplan.Cluster([*nodes, *pods])


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        pytest.param({"cpu": "7"}, {}, id="enough, on several nodes"),
        pytest.param({"cpu": "7500m"}, {"cpu": NANO // 2}, id="too little"),
        pytest.param({"pods": 4}, {"pods": NANO}, id="pods count"),
        pytest.param({"example.com/gpu": "1"}, {"example.com/gpu": NANO}, id="no node has it"),
    ],
)
def test_what_is_missing(wanted, missing):
    found = cluster(a_pod("other").requests(cpu="1").on("a").obj())
    assert gap(wanted, Nodes(found.state), ()) == missing


def test_what_the_groups_own_pods_use_is_free():
    found = cluster(a_pod("own").requests(cpu="3").on("a").obj())
    assert gap({"cpu": "8"}, Nodes(found.state), ()) == {"cpu": 3 * NANO}
    assert gap({"cpu": "8"}, Nodes(found.state), found.state.placed_pods()) == {}


def test_a_gap_is_shown_as_go_prints_it():
    shown = shown_gap({"memory": 2**30 * NANO, "cpu": 1500 * 10**6}, {"memory": "1Gi", "cpu": "2"})
    assert shown == "map[cpu:{{1500 -3} {<nil>}  DecimalSI} memory:{{1073741824 0} {<nil>}  BinarySI}]"
