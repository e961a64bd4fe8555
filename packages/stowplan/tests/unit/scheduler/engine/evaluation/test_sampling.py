"""percentageOfNodesToScore: the result of a search that stops early, compared with a plain loop over the nodes."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.plugins import (
    NodeFilterPlugin,
    NodeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ShapeSigned,
    unschedulable,
)
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.evaluation import sampling
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.sampling import nodes_to_find
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.answering_plugins import configuration
from support.plugins.raised import in_short
from support.plugins.users_plugins import EvenPods
from support.scheduling.worlds import PLACEABLE, clusters, named_like, pods, remove_placed, state_of, struct


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [
        pytest.param(0, 5000, 5000, id="sampling disabled"),
        pytest.param(100, 5000, 5000, id="all"),
        pytest.param(40, 1000, 400, id="a share"),
        pytest.param(1, 99, 99, id="a small cluster is searched whole"),
        pytest.param(1, 100, 100, id="never fewer than a hundred"),
        pytest.param(5, 1999, 100, id="a share of less than a hundred"),
        pytest.param(7, 1999, 139, id="rounded down"),
        pytest.param(50, 0, 0, id="no nodes"),
    ],
)
def test_number_of_feasible_nodes_to_find(percentage, nodes, wanted):
    assert nodes_to_find(percentage, nodes) == wanted


# -- against a plain loop ---------------------------------------------------------------------------------------------


class Narrow(PreFilterPlugin, ShapeSigned):
    """Sometimes narrows the nodes."""

    name = "Narrow"

    def pre_filter(self, state, pod, nodes):
        which = len(self.handle.cluster.placed_pods()) % 3
        return PreFilterResult(frozenset(f"n{i}" for i in (0, 2, 3, 5, 9)[which:])) if which else None


class ByName(NodeScorePlugin, ShapeSigned):
    name = "ByName"

    def score_node(self, state, pod, node):
        return int(node.name[1:]) * 7 % 5

    def normalize(self, state, pod, scores, feasible):
        return scores * 100 // max(1, int(scores[feasible].max(initial=0)))


def framework_on(state, *plugins, percentage=None, without=()):
    """The default profile with users' plugins before all others, and some points empty."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    points = {point: {"enabled": [{"name": p.name} for p in plugins if p in of]} for point, of in _POINTS.items()}
    points |= {point: {"disabled": [{"name": "*"}]} for point in without}
    profile = {"plugins": points, **({} if percentage is None else {"percentageOfNodesToScore": percentage})}
    raw = configuration(profile)
    config = load_config(raw, plugins=registry.declarations)
    handle = Handle(cluster=state, profile_name="default-scheduler", features=DEFAULT_FEATURES)
    return Framework(config.profiles[0], registry, handle)


_POINTS = {"filter": (EvenPods,), "preFilter": (Narrow,), "score": (ByName,)}


class Plain:
    """The plain rule: node by node."""

    def __init__(self, state, framework, *, share, least):
        self.state, self.framework, self.share, self.least = state, framework, share, least
        self.start = 0

    def wanted(self, nodes):
        if not self.framework.score:
            return 1
        if nodes < self.least or not self.share:
            return nodes
        return max(self.least, nodes * self.share // 100)

    def verdicts(self, pod):
        """Names in the order of the search, and those that do not fit."""
        evaluation = Evaluation(self.framework)
        outcome = evaluation.filter(pod)
        table = self.state.table
        names = [table.names[row] for row in table.order.rows.tolist() if outcome.examined[row]]
        return names, {name for name in names if not outcome.feasible[table.row_of[name]]}

    def found(self, pod):
        names, refusing = self.verdicts(pod)
        statuses = set()
        nominated = self.state.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
        if nominated in names:
            if nominated not in refusing:
                return [nominated], 1
            statuses.add(nominated)
        wanted, found = self.wanted(len(names)), []
        for i in range(len(names)):
            name = names[(self.start + i) % len(names)]
            if name in refusing:
                statuses.add(name)
            else:
                found.append(name)
                if len(found) == wanted:
                    break
        seen = len(found) + len(statuses)
        self.start = (self.start + seen) % self.state.table.count
        return found, seen

    def best(self, pod, found):
        """The names with the highest total among these nodes only."""
        if len(found) == 1:
            return set(found)
        evaluation = Evaluation(self.framework)
        evaluation.filter(pod)
        mask = np.zeros(self.state.table.n, np.bool_)
        rows = [self.state.table.row_of[name] for name in found]
        mask[rows] = True
        totals = evaluation.score(pod, mask).ranked
        return {name for name, row in zip(found, rows, strict=True) if totals[row] == max(totals[rows])}


def check(plain, scheduler, pod):
    found, seen = plain.found(pod)
    decision = run_at_once(schedule_pod(scheduler, plain.framework, pod))
    if not found:
        assert not decision.node_name
        assert decision.diagnosis is not None
    else:
        assert decision.node_name in plain.best(pod, found)
        assert (decision.evaluated, decision.feasible) == (seen, len(found))
    assert scheduler.sampling.start == plain.start
    return decision.node_name


def play(cluster, shapes, steps, *, plugins, share, without, reuse, least):
    state = state_of(*cluster[:2])
    profile = framework_on(state, *plugins, without=without)
    scheduler = SchedulingAlgorithm(
        state, {"default-scheduler": profile}, random=Random(1), reuse=reuse, percentage_of_nodes_to_score=share
    )
    plain = Plain(state, profile, share=share, least=least)
    for i, (what, which) in enumerate(steps):
        shape = shapes[which % len(shapes)]
        nominated = {"nominatedNodeName": f"n{which % 12}"} if what == "nominated" else {}
        pod = state.pod_info(named_like({**shape, "status": nominated}, f"p{i}"))
        if what == "remove":
            remove_placed(state, which)
        elif what == "nominate":
            state.nominator.add(pod, f"n{which % 12}")
        node = check(plain, scheduler, pod)
        if node and what != "try":
            state.assume(pod, node)


steps = st.lists(
    st.tuples(
        st.sampled_from(("place", "place", "place", "try", "remove", "nominated", "nominate")), st.integers(0, 60)
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.parametrize("reuse", [True, False], ids=["shared evaluations", "separate evaluations"])
def test_a_search_agrees_with_a_plain_loop(reuse, monkeypatch):
    monkeypatch.setattr(sampling, "LEAST_FEASIBLE", 2)
    monkeypatch.setattr(sampling, "_AT_ONCE", 2)

    @examples(80)
    @given(
        clusters(least_nodes=4),
        st.lists(pods("shape", special=PLACEABLE), min_size=1, max_size=2),
        steps,
        st.lists(st.sampled_from((EvenPods, Narrow, ByName)), unique=True, max_size=2),
        st.sampled_from((0, 10, 30, 60, 100)),
        st.sampled_from(((), (), ("preScore", "score"), ("filter",))),
    )
    def as_the_plain_loop(cluster, shapes, steps, plugins, share, without):
        play(cluster, shapes, steps, plugins=plugins, share=share, without=without, reuse=reuse, least=2)

    as_the_plain_loop()


# -- by example -------------------------------------------------------------------------------------------------------


def a_scheduler(nodes, *plugins, percentage=0, own=None, without=(), zones="abc"):
    state = state_of(a_node(f"n{i}").zone(zones[i % len(zones)]) for i in range(nodes))
    profile = framework_on(state, *plugins, percentage=own, without=without)
    return SchedulingAlgorithm(state, {"default-scheduler": profile}, percentage_of_nodes_to_score=percentage), profile


def schedule(scheduler, profile, name="p", **spec):
    pod = scheduler.cluster.pod_info(struct(a_pod(name).uid(name).requests(cpu="100m")))
    return run_at_once(schedule_pod(scheduler, profile, pod))


@pytest.mark.parametrize(
    ("general", "own", "feasible"),
    [
        pytest.param(0, None, 300, id="unset"),
        pytest.param(50, None, 150, id="for all profiles"),
        pytest.param(50, 40, 120, id="the profile's own wins"),
        pytest.param(50, 0, 300, id="its 0 stands for all, too"),
        pytest.param(0, 40, 120, id="the profile's alone"),
        pytest.param(100, None, 300, id="hundred"),
    ],
)
def test_precedence_of_percentages(general, own, feasible):
    decision = schedule(*a_scheduler(300, percentage=general, own=own))
    assert decision.feasible == decision.evaluated == feasible


def test_profiles_share_the_start_of_searches():
    scheduler, profile = a_scheduler(300, percentage=40)
    other = framework_on(scheduler.cluster, percentage=50)
    scheduler.frameworks["other"] = other
    scheduler.forget()
    schedule(scheduler, profile)
    pod = scheduler.cluster.pod_info(struct(a_pod("q").uid("q")))
    assert run_at_once(schedule_pod(scheduler, other, pod)).feasible == 150
    assert scheduler.sampling.start == 270


class Counts(NodeFilterPlugin, ShapeSigned):
    """Counts its calls per node, and fails on one node."""

    name = "Counts"
    bad = ""

    def filter_node(self, state, pod, node):
        self.asked[node.name] += 1
        if node.name == self.bad:
            raise RuntimeError(f"cannot stand {node.name}")
        return unschedulable("even") if int(node.name[1:]) % 2 == 0 else None


class CountsScores(NodeScorePlugin, ShapeSigned):
    name = "CountsScores"

    def score_node(self, state, pod, node):
        self.scored[node.name] += 1
        return 1


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(_POINTS, "filter", (Counts,))
    monkeypatch.setitem(_POINTS, "score", (CountsScores,))
    monkeypatch.setattr(Counts, "asked", Counter(), raising=False)
    monkeypatch.setattr(CountsScores, "scored", Counter(), raising=False)


@pytest.mark.usefixtures("counting")
def test_per_node_plugins_are_not_called_for_nodes_after_the_end_of_the_search():
    scheduler, profile = a_scheduler(1000, Counts, CountsScores, percentage=10)
    decision = schedule(scheduler, profile)
    assert decision.feasible == 100
    assert 199 <= decision.evaluated <= 200
    assert decision.evaluated <= len(Counts.asked) <= decision.evaluated + 16
    assert set(Counts.asked.values()) == {1}
    assert len(CountsScores.scored) == 100
    assert decision.node_name in CountsScores.scored


@pytest.mark.usefixtures("counting")
def test_a_node_on_which_a_plugin_fails_fails_only_the_searches_that_reach_it(monkeypatch):
    monkeypatch.setattr(Counts, "bad", "n700")
    scheduler, profile = a_scheduler(1000, Counts, percentage=10, zones="a")
    messages = [in_short(schedule(scheduler, profile).message) for _ in range(12)]
    failed = 'running "Counts" filter plugin: cannot stand n700'
    assert messages[:3] == ["", "", ""]
    assert failed in messages
    assert "" in messages[messages.index(failed) + 1 :]


@pytest.mark.usefixtures("counting")
def test_an_unschedulable_pods_diagnosis_has_every_node():
    scheduler, profile = a_scheduler(200, Counts, percentage=10)
    for i in range(1, 200, 2):
        scheduler.cluster.add_node(struct(a_node(f"n{i}").zone("abc"[i % 3]).unschedulable()))
    for _ in range(2):
        decision = schedule(scheduler, profile)
        assert decision.message.startswith("0/200 nodes are available: 100 even, 100 node(s) were unschedulable.")
        assert decision.unschedulable_plugins == {"Counts", "NodeUnschedulable"}
        assert decision.evaluated == 200
    scheduler.cluster.add_node(struct(a_node("n151").zone("b")))
    assert schedule(scheduler, profile).node_name == "n151"


@pytest.mark.usefixtures("counting")
def test_a_nominated_node_is_tried_before_the_search():
    scheduler, profile = a_scheduler(300, Counts, percentage=40)
    for nominated, node, start in (("n201", "n201", 0), ("n200", None, 240), ("gone", None, 180)):
        pod = scheduler.cluster.pod_info(struct(a_pod(nominated).uid(nominated).nominated_to(nominated)))
        decision = run_at_once(schedule_pod(scheduler, profile, pod))
        assert node in (None, decision.node_name)
        assert scheduler.sampling.start == pytest.approx(start, abs=1)
