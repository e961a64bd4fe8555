"""Room reserved for nominated pods: cached results per node equal those of a full evaluation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins import (
    FilterPlugin,
    NodeFilterPlugin,
    NodePodExtensions,
    PreFilterPlugin,
    Reads,
    ShapeSigned,
    unschedulable,
)
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.framework.status import Status
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.scheduling.worlds import HOST, ZONE, state_of, struct

WEB = {"matchLabels": {"app": "web"}}


class Odd(NodeFilterPlugin, ShapeSigned):
    """Reads the pods of the node, and raises when there are too many."""

    name = "Odd"
    reads = Reads.NODE_PODS

    def filter_node(self, state, pod, node):
        if len(node.pods) > 5:
            raise RuntimeError(f"a crowd on {node.name}")
        return unschedulable("odd") if len(node.pods) % 2 else None


class CountsAddedPods(PreFilterPlugin, NodeFilterPlugin, NodePodExtensions, ShapeSigned):
    """Counts AddPod and RemovePod calls."""

    name = "Told"

    def pre_filter(self, state, pod, nodes):
        state.write(self.name, 0)

    def add_pod(self, state, pod, added, node):
        state.write(self.name, state.read(self.name) + 1)

    def remove_pod(self, state, pod, removed, node):
        state.write(self.name, state.read(self.name) - 1)

    def filter_node(self, state, pod, node):
        return None


class Judges(FilterPlugin, ShapeSigned):
    """Counts the nodes that it is asked about with nominated pods added."""

    name = "Judges"
    reads = Reads.NODES
    judged = 0

    def filter(self, state, pod, nodes):
        self.judged += len(nodes) if isinstance(nodes, HypotheticalNodes) else 0


class World:
    """Nodes with nominations, and evaluations shared by equal pods."""

    def __init__(self, *plugins, nodes=6):
        self.state = state_of(a_node(f"n{i}").zone("ab"[i % 2]).allocatable(cpu="4", pods="9") for i in range(nodes))
        self.framework = framework(self.state, *plugins)
        self.shared = {}
        self.count = 0

    def pod(self, kind, priority):
        self.count += 1
        name = f"p{self.count}"
        pod = a_pod(name).uid(name).priority(priority).requests(cpu=("1", "3")[kind == "large"]).labels(app="web")
        if kind == "port":
            pod = pod.host_port(80)
        if kind == "choosy":
            pod = pod.avoids_pods(HOST, WEB)
        if kind == "spread":
            pod = pod.spreads(ZONE, WEB)
        if kind == "new resource":
            pod = pod.requests(**{"cpu": "1", f"example.com/r{self.count % 3}": "1"})
        return self.state.pod_info(struct(pod))

    def check(self, pod):
        signature = self.framework.signature(pod)
        shared = self.shared.setdefault(signature, Evaluation(self.framework))
        assert summary_of(shared.filter(pod)) == summary_of(Evaluation(self.framework).filter(pod))


def summary_of(outcome):
    if outcome.error is not None:
        return str(outcome.error)
    refused = {row: (s.code, s.reasons, s.plugin, s.records) for row, s in outcome.refused.items()}
    return np.flatnonzero(outcome.feasible).tolist(), refused


KINDS = ("small", "small", "large", "port", "choosy", "spread", "new resource")
#: Pods that affect others by their requests alone.
TAKERS = ("small", "large", "port", "spread", "new resource")
STEPS = st.tuples(
    st.sampled_from((*["nominate", "place", "delete"] * 3, "renew", "take back", "node", "remove node", "transaction")),
    st.sampled_from(KINDS),
    st.integers(0, 29),
)


def change(world, what, kind, which):
    state, node = world.state, f"n{which % 3}"
    nominated = sorted(info.uid for name in state.nominator.nodes() for info in state.nominator.on(name))
    placed = sorted(info.uid for info in state.placed_pods())
    if what == "nominate":
        state.nominator.add(world.pod(kind, which % 3), node)
    elif what == "renew" and nominated:
        infos = {info.uid: info for name in state.nominator.nodes() for info in state.nominator.on(name)}
        state.nominator.add(infos[nominated[which % len(nominated)]], node)
    elif what == "take back" and nominated:
        state.nominator.delete(nominated[which % len(nominated)])
    elif what == "place":
        state.assume(world.pod(kind, 0), node)
    elif what == "delete" and placed:
        state.remove_pod(placed[which % len(placed)])
    elif what == "node":
        state.add_node(struct(a_node(node).zone("ab"[which % 2]).allocatable(cpu=str(which % 5), pods="9")))
    elif what == "remove node" and len(state.table.row_of) > 1:
        state.remove_node(sorted(state.table.row_of)[which % len(state.table.row_of)])
    elif what == "transaction" and placed:
        with state.transaction():
            state.remove_pod(placed[which % len(placed)])
            world.check(world.pod(kind, 1))


@pytest.mark.parametrize("plugins", [(), (Odd,), (CountsAddedPods,)], ids=["in tree", "counts pods", "has AddPod"])
def test_cached_results_are_exact(plugins, monkeypatch):
    # On a small table a single changed row exceeds the maximum share for updates.
    monkeypatch.setattr("stowplan.scheduler.engine.evaluation.columns.MAX_CHANGED_SHARE", 1.0)

    @examples(30)
    @given(st.lists(STEPS, min_size=5, max_size=20))
    def exact(steps):
        world = World(*plugins, nodes=3)
        world.state.nominator.add(world.pod("small", 1), "n0")
        for what, kind, which in steps:
            change(world, what, kind, which)
            world.check(world.pod(kind, which % 2))
            # A nominated pod.
            nominated = [info for name in world.state.nominator.nodes() for info in world.state.nominator.on(name)]
            if nominated:
                world.check(nominated[which % len(nominated)])
            world.check(world.pod("large", 1))

    exact()


def test_only_changed_nodes_are_evaluated_again():
    """Each new preemptor adds a nomination; in total, each node is evaluated a few times only."""
    world = World(Judges)
    for i in range(6, 100):
        world.state.add_node(struct(a_node(f"n{i}").allocatable(cpu="4", pods="9")))
    evaluation = Evaluation(world.framework)
    for i in range(100):
        outcome = evaluation.filter(world.pod("large", 1))
        assert len(outcome.refused) == i
        world.state.nominator.add(world.pod("large", 1), f"n{i}")
    assert world.framework.plugins["Judges"].judged == 99


def test_results_are_dropped_when_a_plugin_starts_to_skip():
    """Parity: without a placed pod with anti-affinity, nominated pods' anti-affinity is not checked."""
    world = World()
    placed = world.pod("choosy", 0)
    world.state.assume(placed, "n0")
    world.state.nominator.add(world.pod("choosy", 1), "n1")
    evaluation = Evaluation(world.framework)
    assert list(evaluation.filter(world.pod("small", 1)).refused) == [1]
    world.state.forget(placed)
    assert list(evaluation.filter(world.pod("small", 1)).refused) == []


def test_equal_refusals_are_one_object():
    world = World()
    for i in range(6):
        world.state.nominator.add(world.pod("large" if i else "small", 1), f"n{i}")
    refused = Evaluation(world.framework).filter(world.pod("large", 1)).refused
    assert sorted(refused) == [1, 2, 3, 4, 5]
    assert len({id(status) for status in refused.values()}) == 1
    assert str(refused[1]) == "Insufficient cpu"


@given(st.lists(st.tuples(st.sampled_from(TAKERS), st.integers(0, 5)), min_size=1, max_size=8))
def test_nominated_pods_use_the_same_resources_as_placed_ones(nominations):
    """The first pass agrees with a cluster in which they are placed."""
    nominating, placing = World(), World()
    for kind, row in nominations:
        nominating.state.nominator.add(nominating.pod(kind, 1), f"n{row}")
        placing.state.assume(placing.pod(kind, 1), f"n{row}")
    outcome = Evaluation(nominating.framework).filter(nominating.pod("port", 1))
    there = Evaluation(placing.framework).filter(placing.pod("port", 1))
    assert outcome.feasible.tolist() == there.feasible.tolist()


def test_add_pod_is_called_even_if_no_filter_needs_it():
    seen = []

    class Looks(PreFilterPlugin, NodePodExtensions, ShapeSigned):
        name = "Looks"
        reads = Reads.NODES

        def pre_filter(self, state, pod, nodes):
            return None

        def add_pod(self, state, pod, added, node):
            seen.append((added.uid, [p.uid for p in node.pods]))

        def remove_pod(self, state, pod, removed, node):
            raise AssertionError("no pod is removed")

    world = World(Looks)
    nominated = world.pod("small", 1)
    world.state.nominator.add(nominated, "n0")
    assert not isinstance(Evaluation(world.framework).filter(world.pod("small", 1)).error, Status)
    assert seen == [(nominated.uid, [nominated.uid])]
