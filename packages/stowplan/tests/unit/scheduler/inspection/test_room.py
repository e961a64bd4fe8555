"""Room for shapes, counted node by node in plain Python; and what keeps it from use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.ask.rebalance import room
from stowplan.scheduler.inspection.room import Shape, fragmentation, room_for, room_of
from stowplan.testing import a_node, a_pod
from support.examples import times

GPU = "nvidia.com/gpu"


def gpu_node(name, gpus=4, **labels):
    return a_node(name).labels(**labels).allocatable(cpu="16", memory="64Gi", pods=10, **{GPU: gpus}).obj()


def gpu_pod(name, node, gpus):
    return a_pod(name).requests(cpu="1", **{GPU: gpus}).on(node).obj()


def by_name(record):
    return {shape.name: (shape.fits, shape.together) for shape in record.shapes if not shape.seen}


def test_free_gpus_are_of_no_use_where_there_is_one_each():
    cluster = Cluster([gpu_node("a"), gpu_node("b"), gpu_pod("p", "a", 3), gpu_pod("q", "b", 1)])
    found = room_of(cluster.state)
    assert by_name(found) == {f"1 {GPU}": (4, 4), f"4 {GPU} on a node": (0, 1)}
    assert found.nodes == 2
    # Of pods with three GPUs and with one: on a there is one of the four that are free.
    assert found.fragmentation[GPU] == pytest.approx((1 / 4 + 0) / 2)


def test_gangs_need_a_rack():
    nodes = [gpu_node(f"{rack}{i}", **{"example.com/rack": rack}) for rack in "xy" for i in range(3)]
    found = by_name(room_of(Cluster([*nodes, gpu_node("without")]).state))
    assert found[f"4 × 4 {GPU} in a rack"] == (0, 1)
    nodes.append(gpu_node("x4", **{"example.com/rack": "x"}))
    assert by_name(room_of(Cluster(nodes).state))[f"4 × 4 {GPU} in a rack"] == (1, 1)


def test_nodes_that_take_no_pods_have_no_room():
    resources = {"cpu": "16", "pods": 10, GPU: 4}
    cordoned = a_node("a").allocatable(resources).unschedulable().obj()
    broken = a_node("b").allocatable(resources).tainted("node.kubernetes.io/not-ready").obj()
    tainted = a_node("c").allocatable(resources).tainted(GPU).obj()
    found = room_of(Cluster([cordoned, broken, tainted]).state)
    assert (found.nodes, by_name(found)[f"1 {GPU}"]) == (1, (4, 4))


def test_the_most_frequent_requests_are_shapes_without_those_of_daemons():
    daemon = a_pod("d").requests(cpu="2").on("a").owner("DaemonSet", "d").obj()
    pods = [a_pod(f"p{i}").requests(cpu="3").on("a").obj() for i in range(2)]
    pending = a_pod("q").requests(cpu="5").obj()
    found = room_of(Cluster([a_node("a").allocatable(cpu="16", pods=10).obj(), daemon, *pods, pending]).state)
    assert [(shape.name, shape.seen, shape.fits) for shape in found.shapes] == [("3 cpu", 2, 2), ("5 cpu", 1, 1)]


def test_an_empty_cluster_has_no_room():
    assert room_of(Cluster().state).shapes == ()
    (found,) = room_for(Cluster().state.table, [Shape(name="x", requests={GPU: 1})])
    assert (found.fits, found.together, found.lost) == (0, 0, 0.0)


@settings(max_examples=times(12), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(1, 3), max_size=3)), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_as_counted_node_by_node(nodes, wanted):
    objects, free = [], []
    for number, (gpus, pods) in enumerate(nodes):
        objects.append(gpu_node(f"n{number}", gpus))
        left, slots = gpus, 10
        for index, size in enumerate(pods):
            if size <= left:
                objects.append(gpu_pod(f"p{number}-{index}", f"n{number}", size))
                left, slots = left - size, slots - 1
        free.append((left, slots))
    state = Cluster(objects).state
    (found,) = room_for(state.table, [Shape(name="x", requests={GPU: wanted})])
    assert found.fits == sum(min(left // wanted, slots) for left, slots in free)
    assert found.together == sum(left for left, _ in free) // wanted
    whole = sum(left for left, _ in free)
    useless = sum(left for left, _ in free if left < wanted)
    shares = fragmentation(state.table, [(1.0, {GPU: wanted})])
    assert shares.get(GPU, 0.0) == pytest.approx(useless / whole if whole else 0.0, abs=1e-6)


def test_moving_a_pod_makes_room():
    pod = a_pod("p").requests(cpu="1", **{GPU: 2}).on("a").owner("ReplicaSet", "r").obj()
    other = a_pod("q").requests(cpu="1", **{GPU: 2}).on("b").owner("ReplicaSet", "r").obj()
    found = room(Cluster([gpu_node("a"), gpu_node("b"), pod, other]))
    whole = next(gain for gain in found.gains if gain.shape == f"4 {GPU} on a node")
    assert (whole.gained, whole.moves, len(whole.nodes)) == (True, 1, 1)
    bare = [{**one, "metadata": {**one["metadata"], "ownerReferences": []}} for one in (pod, other)]
    stays = room(Cluster([gpu_node("a"), gpu_node("b"), *bare]))
    assert not stays.gains[0].gained
    assert "no room for all" in stays.gains[0].why_not
