"""A column has what its plugin would return now, for every row, whoever read it before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins import (
    CountsPods,
    FilterPlugin,
    PreScorePlugin,
    Reads,
    ReadsNoObjects,
    Reason,
    Rejections,
    ScorePlugin,
    ShapeSigned,
)
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation import columns
from stowplan.scheduler.engine.evaluation.columns import (
    FilterColumn,
    ObjectWatches,
    ScoreColumn,
    SharedColumns,
    SumColumn,
)
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.scoring import Score
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.scheduling.evaluations import findings
from support.scheduling.worlds import state_of, struct


class World:
    def __init__(self):
        self.state = state_of(a_node(f"n{i}").allocatable(cpu=2 + i % 2) for i in range(20))
        self.framework = framework(self.state)
        self.shared = SharedColumns(self.framework)
        self.pod = self.state.pod_info(struct(a_pod().requests(cpu="1")))
        plugins = self.framework.plugins
        self.fit, self.balanced = plugins["NodeResourcesFit"], plugins["NodeResourcesBalancedAllocation"]
        self.cycle = CycleState()
        for plugin in (self.fit, self.balanced):
            plugin.pre_score(self.cycle, self.pod, None)
        self.fit.pre_filter(self.cycle, self.pod, None)
        self.count = 0

    def column(self, kind, *plugins):
        return self.shared.column(kind, plugins, self.pod, ObjectWatches(self.framework, self.pod, plugins))

    def step(self, row, cpu):
        """Add a pod to a node, or remove one."""
        pods = self.state.row_pods[row]
        if cpu == 0 and pods:
            self.state.remove_pod(pods[0].uid)
        elif cpu:
            self.count += 1
            self.state.add_pod(
                struct(a_pod(f"p{self.count}").uid(f"u{self.count}").requests(cpu=str(cpu)).on(f"n{row}"))
            )


@pytest.mark.parametrize("few", [0, 16])
def test_a_shared_column_follows_the_pods(few, monkeypatch):
    monkeypatch.setattr(columns, "FEW", few)

    @examples(40)
    @given(st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 2)), max_size=25), max_size=8), st.booleans())
    def follows(batches, undone):
        world = World()
        fits, fit = world.column(FilterColumn, world.fit), world.column(ScoreColumn, world.fit)
        read = (fits, fit, world.column(SumColumn, world.fit, world.balanced))
        versions = {}
        for batch in batches:
            if undone:
                with world.state.transaction():
                    world.step(0, 1)
                    assert fits.refresh(world.cycle, world.pod) is None
            for row, cpu in batch:
                world.step(row, cpu)
            for column in read:
                assert column.refresh(world.cycle, world.pod) is None
                kind = type(column)
                fresh = kind(world.framework, column.plugins, True)
                assert fresh.rerun(world.cycle, world.pod, Nodes(world.state)) is None
                assert column.values.tolist() == fresh.values.tolist()
                version, before = versions.get(id(column), (None, None))
                assert version != column.version or before == column.values.tolist()
                versions[id(column)] = column.version, column.values.tolist()

    follows()


def test_a_column_that_another_evaluation_read_with_other_nodes():
    """Nodes came and went since, so that neither the nodes nor the pods differ from those that this one knows."""
    world = World()
    mine, other = (Evaluation(world.framework, world.shared) for _ in range(2))
    before = findings(world.framework, mine, world.pod)
    with world.state.transaction():
        world.state.add_node(struct(a_node("new")))
        findings(world.framework, other, world.pod)
    assert findings(world.framework, mine, world.pod) == before


def test_pods_with_the_same_question_share_a_column():
    world = World()
    fit = world.column(ScoreColumn, world.fit)
    world.pod = world.state.pod_info(struct(a_pod("other").labels(app="b").requests(cpu="1")))
    assert world.column(ScoreColumn, world.fit) is fit
    assert world.column(FilterColumn, world.fit) is not fit
    world.pod = world.state.pod_info(struct(a_pod("larger").requests(cpu="2")))
    assert world.column(ScoreColumn, world.fit) is not fit


def test_a_full_run_of_another_evaluation_outdates_no_scores():
    world = World()
    fit = world.column(ScoreColumn, world.fit)
    assert fit.rerun(world.cycle, world.pod, Nodes(world.state)) is None
    before = fit.version
    fit.store(fit.values.copy())
    assert fit.version == before
    world.step(0, 1)
    fit.store(fit.values.copy())
    assert fit.version > before


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=2, max_size=8), st.booleans())
def test_bounds_hold_only_if_minimum_and_maximum_are_unchanged(rows, computed):
    raw, before, feasible = (np.array(column) for column in zip(*rows, strict=True))
    part = Score(None, 1, ScoreColumn(None, (), False, raw))
    changed = np.flatnonzero(before != feasible).tolist()
    if computed:
        part.bounds_hold([], before, before)
    if feasible.sum() > 1 and part.bounds_hold(changed, before, feasible):
        assert (raw[before].min(), raw[before].max()) == (raw[feasible].min(), raw[feasible].max())


# -- plugins for which less than the whole truth would do --------------------------------------------------------------


class OnePodOnN0(FilterPlugin, ShapeSigned, ReadsNoObjects):
    """Reads the node and its number of pods: nodes with the same sums differ."""

    name = "OnePodOnN0"
    reads = Reads.NODE_SUMS

    def filter(self, state, pod, nodes):
        full = np.array([name == "n0" for name in nodes.names()]) & (nodes.pod_count() > 0)
        return Rejections.where(full, Reason("Full", "full")) if full.any() else None


class SameRawScores(PreScorePlugin, ScorePlugin, ShapeSigned, ReadsNoObjects, CountsPods):
    """Only `normalize` tells what PreScore counted."""

    name = "SameRawScores"
    reads = Reads.CLUSTER_PODS

    def pre_score(self, state, pod, nodes):
        state.write(self.name, len(self.handle.cluster.placed_pods()))

    def score(self, state, pod, nodes):
        return np.zeros(len(nodes), np.int64)

    def normalize(self, state, pod, scores, feasible):
        return scores + state.read(self.name)

    def filter_holds(self, state, pod):
        return True

    def score_holds(self, state, pod, feasible_moved):
        return state.get(self.name) == len(self.handle.cluster.placed_pods())


def two_nodes(*plugins):
    state = state_of([a_node("n0"), a_node("n1")])
    return state, framework(state, *plugins)


def test_rows_with_the_same_sums_differ_for_a_plugin_that_reads_nodes():
    state, profile = two_nodes(OnePodOnN0)
    shared = Evaluation(profile)
    for node in ("n1", "n0"):
        pod = state.pod_info(struct(a_pod(f"on-{node}").uid(node)))
        assert shared.filter(pod).feasible.tolist() == Evaluation(profile).filter(pod).feasible.tolist()
        state.assume(pod, node)
    pod = state.pod_info(struct(a_pod("last").uid("last")))
    assert shared.filter(pod).feasible.tolist() == [False, True]


def test_the_same_raw_scores_are_normalized_again_after_pre_score():
    state, profile = two_nodes(SameRawScores)
    shared = Evaluation(profile)
    for i in range(3):
        pod = state.pod_info(struct(a_pod(f"p{i}").uid(f"p{i}")))
        scored = shared.score(pod, shared.filter(pod).feasible)
        assert scored.by_plugin()["SameRawScores"].tolist() == [i, i]
        state.assume(pod, "n0")


# -- the invariant -----------------------------------------------------------------------------------------------------


def spoil_known(filtering, scoring):
    column = scoring._sums
    column.known[column.states.of([0])[0]] = 201


def spoil_position(filtering, scoring):
    column = filtering._columns["NodeResourcesFit"]
    column.position, column.states = column.position - 1, None


def spoil_feasible(filtering, scoring):
    filtering.feasible = ~filtering.feasible


def spoil_version(filtering, scoring):
    scoring._scores["TaintToleration"].column.version += 1


def spoil_totals(filtering, scoring):
    scoring.ranked = scoring.ranked + 1


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (spoil_known, "NodeResourcesFit: 97 of row 0, and 201 of rows in its state"),
        (spoil_position, "NodeResourcesFit rejects rows as of change"),
        (spoil_feasible, "other rows are feasible than those that no filter rejects"),
        (spoil_version, "TaintToleration's scores were normalized before they changed"),
        (spoil_totals, "the totals are not the sums of the scores"),
    ],
)
def test_what_violates_the_invariant_is_reported(spoil, text):
    state, profile = two_nodes()
    evaluation = Evaluation(profile)
    pod = state.pod_info(struct(a_pod()))
    evaluation.score(pod, evaluation.filter(pod).feasible)
    assert list(evaluation.problems()) == []
    spoil(evaluation._filtering, evaluation._scoring)
    assert next(evaluation.problems()).startswith(text)
