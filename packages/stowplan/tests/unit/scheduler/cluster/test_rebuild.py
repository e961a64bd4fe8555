"""After any sequence of changes the cluster's columns, counters and indexes equal a rebuild from scratch."""

import pytest
from hypothesis import settings

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.scheduling.cluster_changes import KEYS, TERMS, Changes
from support.scheduling.dump import dump
from support.scheduling.worlds import MOMENTS, ZONE, state_of, struct


@pytest.mark.slow
class TestChanges(Changes.TestCase):
    settings = settings(max_examples=times(40), stateful_step_count=50)


def test_growth_beyond_the_first_capacity():
    """Many nodes, pods, shapes, resources and terms; then most of them are removed and their rows reused."""
    state, fresh = ClusterState(), ClusterState()
    resources = {f"example.com/r{i}": 1 for i in range(5)}
    all_nodes = [a_node(f"n{i}").zone(f"z{i % 7}").allocatable(resources).obj() for i in range(150)]
    all_pods = [
        a_pod(f"p{i}")
        .labels(app=f"a{i % 90}")
        .requests({f"example.com/r{i % 9}": 1}, cpu=f"{i % 5}00m")
        .avoids_pods(ZONE, {"matchLabels": {"app": f"a{i % 40}"}})
        .on(f"n{i % 160}")
        .obj()
        for i in range(600)
    ]
    for i, pod in enumerate(all_pods):
        if i % 4 == 0:
            state.add_node(struct(all_nodes[i // 4]))
        state.add_pod(struct(pod))
        if i % 50 == 0:
            state.matches.slot(TERMS[i // 50], state.pods)
            state.table.label(ZONE)
    gone = range(0, 140, 2)
    for i in gone:
        state.remove_node(f"n{i}")
    for i in range(0, 600, 3):
        state.remove_pod(all_pods[i]["metadata"]["uid"])
    newcomers = [a_node(f"new{i}").zone("z1").obj() for i in range(30)]
    for node in newcomers:
        state.add_node(struct(node))
    for node in (*(node for i, node in enumerate(all_nodes) if i not in gone), *newcomers):
        fresh.add_node(struct(node))
    for i, pod in enumerate(all_pods):
        if i % 3:
            fresh.add_pod(struct(pod))
    for term in dict(state.matches.items()):
        fresh.matches.slot(term, fresh.pods)
    assert state.table.n == 150, "rows of nodes that went are used again"
    assert dump(state, KEYS) == dump(fresh, KEYS)


def test_terminating_pods_of_nodes_that_are_removed_together():
    state = ClusterState()
    for name in ("a", "b"):
        state.add_node(struct(a_node(name).obj()))
        pod = a_pod(f"p-{name}").labels(app="web").on(name).obj()
        pod["metadata"] |= {"uid": name, "deletionTimestamp": MOMENTS[1]}
        state.add_pod(struct(pod))
    slots = [state.matches.slot(term, state.pods) for term in TERMS]
    before = state.matches.counts[slots].tolist()
    with state.transaction():
        state.remove_nodes(["a", "b"])
        assert not state.matches.counts[slots].any()
    assert state.matches.counts[slots].tolist() == before


def test_an_image_keeps_its_first_size_while_any_node_has_it():
    state = state_of([a_node("a").image("x:1", size=10), a_node("b").image("x:1", size=99)])
    assert state.table.images.get("x:1").size == 10
    state.remove_node("a")
    assert state.table.images.get("x:1").size == 10
    state.remove_node("b")
    assert state.table.images.get("x:1") is None
    state.add_node(struct(a_node("b").image("x:1", size=99)))
    assert state.table.images.get("x:1").size == 99


def test_only_changes_that_plugins_can_read_change_the_generation():
    state = state_of([a_node("a").zone("x")])
    before = state.table.generation
    state.add_node(struct(a_node("a").zone("x").created(MOMENTS[0])))
    assert state.table.generation == before
    state.add_node(struct(a_node("a").zone("y")))
    assert state.table.generation > before


def test_forgetting_an_assumed_pod():
    state = state_of([a_node("a")])
    info = state.pod_info(struct(a_pod("p")))
    state.forget(info)  # unknown pod: no-op
    state.add_pod(struct(a_pod("p").on("a")))
    with pytest.raises(ValueError, match="wasn't assumed so cannot be forgotten"):
        state.forget(info)


def test_assuming_a_pod_ends_its_nomination():
    state = state_of([a_node("a")])
    info = state.pod_info(struct(a_pod("p")))
    state.nominator.add(info, "a")
    state.assume(info, "a")
    assert not state.nominator


def test_the_pod_table_has_the_order_of_a_nodes_pods():
    """A removed pod's position is filled with the last one, as in the reference; preemption breaks ties by that
    order."""
    state = state_of([a_node("n")], [a_pod(name).uid(name).on("n") for name in "abcd"])
    state.remove_pod("a")
    listed = state.row_pods[0]
    assert [info.uid for info in listed] == ["d", "b", "c"]
    assert [info.uid for info in sorted(listed, key=lambda info: state.pods.order[info.slot])] == ["d", "b", "c"]
