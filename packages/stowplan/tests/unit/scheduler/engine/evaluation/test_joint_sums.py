"""A joint column has the combined result of its columns for every row, and logs the rows whose result changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.evaluation import joint_sums
from stowplan.scheduler.engine.evaluation.joint_sums import JointRefusals, JointScores
from stowplan.scheduler.engine.evaluation.node_sums import NodeSums
from stowplan.scheduler.engine.evaluation.score import Score
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.scheduling.worlds import struct

WEIGHTS = (3, 2)


class World:
    def __init__(self):
        self.state = ClusterState()
        for i in range(20):
            self.state.add_node(struct(a_node(f"n{i}").allocatable(cpu=2 + i % 2)))
        self.framework = framework(self.state)
        self.sums = NodeSums(self.framework)
        self.pod = self.state.pod_info(struct(a_pod().requests(cpu="1")))
        plugins = self.framework.plugins
        fit, balanced = plugins["NodeResourcesFit"], plugins["NodeResourcesBalancedAllocation"]
        self.cycle = CycleState()
        for plugin in (fit, balanced):
            plugin.pre_score(self.cycle, self.pod, None)
        fit.pre_filter(self.cycle, self.pod, None)
        self.filters = (self.sums.refused(fit, self.pod),)
        self.scores = (self.sums.scored(fit, self.pod), self.sums.scored(balanced, self.pod))
        self.count = 0

    def expected(self):
        refused = np.logical_or.reduce([column.values(self.cycle, self.pod) for column in self.filters])
        values = [column.values(self.cycle, self.pod) for column in self.scores]
        return refused, sum(value * weight for value, weight in zip(values, WEIGHTS, strict=True))

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
def test_a_joint_column_follows_its_columns(few, monkeypatch):
    monkeypatch.setattr(joint_sums, "FEW", few)

    @examples(40)
    @given(st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 2)), max_size=25), max_size=8), st.booleans())
    def follows(batches, undone):
        world = World()
        refused = JointRefusals.of(world.sums, world.filters)
        worth = JointScores.of(world.sums, world.scores, WEIGHTS)
        known, position = None, None
        for batch in batches:
            if undone:
                with world.state.transaction():
                    world.step(0, 1)
                    assert refused.update(world.cycle, world.pod)
            for row, cpu in batch:
                world.step(row, cpu)
            assert refused.update(world.cycle, world.pod)
            assert worth.update(world.cycle, world.pod)
            want_refused, want_worth = world.expected()
            assert refused.values.tolist() == want_refused.tolist()
            assert worth.values.tolist() == want_worth.tolist()
            rows = None if position is None else worth.changes.since(position)
            if rows is not None:
                changed = np.flatnonzero(known != worth.values).tolist()
                assert set(changed) <= set(rows)
            known, position = worth.values.copy(), worth.changes.position

    follows()


def test_evaluations_with_the_same_questions_share_a_joint_column():
    world = World()
    one, other = (JointScores.of(world.sums, world.scores, WEIGHTS) for _ in range(2))
    assert one is other
    assert JointScores.of(world.sums, world.scores, (1, 1)) is not one


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=2, max_size=8), st.booleans())
def test_bounds_hold_only_if_minimum_and_maximum_are_unchanged(rows, computed):
    raw, before, feasible = (np.array(column) for column in zip(*rows, strict=True))
    part = Score(None, 1, raw, raw, raw)
    changed = np.flatnonzero(before != feasible).tolist()
    if computed:
        part.bounds_hold([], before, before)
    if feasible.sum() > 1 and part.bounds_hold(changed, before, feasible):
        assert (raw[before].min(), raw[before].max()) == (raw[feasible].min(), raw[feasible].max())
