"""Pods by a value, and their sums, after any changes and undone transactions: as a look at all pods finds them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.pod_indexes import PodIndex
from stowplan.scheduler.cluster.recount import problems_of
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.worlds import struct

TEAM = PodIndex("team", lambda shape: shape.labels.get("team", ""), lambda shape: shape.requests)
NAMES = ("a", "b", "c")
TEAMS = ("", "red", "blue")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pending"), st.sampled_from(NAMES), st.sampled_from(TEAMS), st.integers(1, 3)),
        st.tuples(st.just("bound"), st.sampled_from(NAMES), st.sampled_from(TEAMS), st.integers(1, 3)),
        st.tuples(st.sampled_from(("assume", "forget", "gone")), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(("node gone", "node there", "begin", "undo", "keep", "first look"))),
    ),
    max_size=40,
)


def a_member(name, team, cpu, **spec):
    return struct(a_pod(name).uid(name).labels(team=team).requests(cpu=str(cpu)).spec(**spec))


class Changing:
    """A cluster that is changed step by step, some of it in transactions."""

    def __init__(self):
        self.state = ClusterState()
        self.state.add_node(struct(a_node("n")))
        self.open = []

    def step(self, what, name="", team="", cpu=1):
        state, key = self.state, f"default/{name}"
        match what:
            case "pending" if state.placed(name) is None:
                state.pending.put(state.pod_info(a_member(name, team, cpu)))
            case "bound":
                state.add_pod(a_member(name, team, cpu, nodeName="n"))
            case "assume" if key in state.pending and state.placed(name) is None:
                state.assume(state.pending.get(key), "n")
            case "forget" if state.is_assumed(name):
                state.forget(state.placed(name))
            case "gone":
                state.remove_pod(name)
                state.pending.remove(key)
            case "node gone":
                state.remove_node("n")
            case "node there":
                state.add_node(struct(a_node("n")))
            case "begin" if len(self.open) < 2:
                self.open.append(state.transaction())
                self.open[-1].__enter__()
            case "undo" if self.open:
                self.open.pop().rollback()
            case "keep" if self.open:
                self.open.pop().commit()
            case "first look":
                state.pods_by(TEAM)


@examples(300)
@given(steps=STEPS)
def test_an_index_has_what_a_look_at_all_pods_finds(steps):
    changing = Changing()
    state = changing.state
    for step in steps:
        changing.step(*step)
        assert not problems_of(state)
    found = state.pods_by(TEAM)
    for team in TEAMS[1:]:
        placed = {one.uid for one in state.placed_pods() if one.labels["team"] == team}
        pending = {one.uid for one in state.pending.values() if one.labels["team"] == team}
        assert set(found.placed.of(team)) == placed
        assert {one.uid for one in found.all(team)} == placed | pending
        assert found.count(team) == len(placed | pending)
        used = Counter()
        for one in state.placed_pods():
            used.update(one.shape.requests if one.labels["team"] == team else {})
        assert +Counter(found.placed.sums(team)) == +used
    assert "" not in found.placed.values()


def test_changes_name_the_values_whose_pods_changed():
    changing = Changing()
    placed = changing.state.pods_by(TEAM).placed
    position = placed.changes.position
    changing.step("bound", "a", "red")
    changing.step("bound", "b", "")
    assert placed.changes.since(position) == ["red"]


def test_pods_are_counted_although_an_index_function_raises_and_its_users_are_told():
    def broken(shape):
        raise KeyError("team")

    changing = Changing()
    index = PodIndex("broken", broken)
    changing.step("bound", "a", "red")
    found = changing.state.pods_by(index)
    changing.step("bound", "b", "red")
    changing.step("gone", "a")
    assert changing.state.placed("b") is not None
    with pytest.raises(KeyError, match="team"):
        found.all("red")
