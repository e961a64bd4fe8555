"""Placements of pod groups: which ones there are, and what each is worth."""

import numpy as np
import pytest

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupInfo,
)
from stowplan.scheduler.framework.runtime.placements import run_placement_generate, run_placement_score, whole_cluster
from stowplan.scheduler.framework.status import SUCCESS, error, unresolvable, unschedulable
from stowplan.testing import a_node
from support.plugins.recording_plugins import framework_of, shown

GROUP = PodGroupInfo("default", "gang")
NODES = (a_node("n1").labels(rack="r1"), a_node("n2").labels(rack="r2"), a_node("n3").labels(rack="r1"), a_node("n4"))


class Racks(PlacementGeneratePlugin):
    name = "Racks"

    def generate_placements(self, group_state, group, parent):
        column, codes = parent.nodes.label("rack"), parent.nodes.codes("rack")
        return [parent.restricted(codes == code, value) for value, code in column.items() if (codes == code).any()]


def generator(answer):
    class Generator(PlacementGeneratePlugin):
        name = "Generator"

        def generate_placements(self, group_state, group, parent):
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Generator


def scorer(name, scores, normalize=None):
    """Scores by the placement's name; `normalize` works on the list of scores."""

    class Scorer(PlacementScorePlugin):
        def score_placement(self, group_state, group, assignments):
            score = scores[assignments.placement.name]
            if isinstance(score, Exception):
                raise score
            return score

        def normalize_placements(self, group_state, group, found):
            return normalize(found) if normalize else found

    Scorer.name = name
    return Scorer


def shape(placements):
    return {placement.name: placement.nodes.names() for placement in placements}


def test_without_a_plugin_there_is_one_placement_with_all_nodes():
    framework = framework_of(objects=NODES)
    framework.handle.cluster.remove_node("n2")
    assert shape(run_placement_generate(framework, CycleState(), GROUP)) == {"": ["n1", "n3", "n4"]}


def test_a_plugin_divides_the_parent():
    framework = framework_of(Racks, objects=NODES)
    placements = run_placement_generate(framework, CycleState(), GROUP)
    assert shape(placements) == {"r1": ["n1", "n3"], "r2": ["n2"]}
    part = placements[0].restricted(np.array([False, True]), "part")
    assert shape(run_placement_generate(framework, CycleState(), GROUP, part)) == {"r1": ["n3"]}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param([], ("Unschedulable", "Generator", "no feasible placements found"), id="none"),
        pytest.param(SUCCESS, ("Unschedulable", "Generator", "no feasible placements found"), id="bare success"),
        pytest.param(unschedulable("later"), ("Unschedulable", "Generator", "later"), id="rejected"),
        pytest.param(unresolvable("never"), ("UnschedulableAndUnresolvable", "Generator", "never"), id="unresolvable"),
        pytest.param(error("no group"), ("Error", "Generator", "no group"), id="error"),
        pytest.param(
            RuntimeError("oops"),
            ("Error", "Generator", 'running PlacementGenerate plugin "Generator": oops'),
            id="raises",
        ),
    ],
)
def test_a_plugin_that_finds_no_placement(answer, status):
    framework = framework_of(generator(answer), objects=NODES)
    assert shown(run_placement_generate(framework, CycleState(), GROUP)) == status


def scored(*plugins, weights=None):
    framework = framework_of(Racks, *plugins, objects=NODES, weights=weights)
    trials = [PodGroupAssignments(p) for p in run_placement_generate(framework, CycleState(), GROUP)]
    answer = run_placement_score(framework, CycleState(), GROUP, trials)
    return {s.placement.name: (s.scores, s.total) for s in answer} if isinstance(answer, list) else shown(answer)


def test_totals_are_weighted_sums():
    plugins = scorer("A", {"r1": 50, "r2": 75}), scorer("B", {"r1": 25, "r2": 10})
    assert scored(*plugins, weights={"B": 2}) == {"r1": ({"A": 50, "B": 50}, 100), "r2": ({"A": 75, "B": 20}, 95)}


def test_scores_are_normalized_over_all_placements():
    plugin = scorer("Count", {"r1": 5, "r2": 20}, lambda found: [100 * score // max(found) for score in found])
    assert scored(plugin) == {"r1": ({"Count": 25}, 25), "r2": ({"Count": 100}, 100)}


def test_without_plugins_all_are_worth_the_same():
    assert scored() == {"r1": ({}, 0), "r2": ({}, 0)}


SCORE = 'running PlacementScore plugins: plugin "P" failed with: '
NORMALIZE = 'running NormalizePlacementScore on PlacementScore plugins: plugin "P" failed with: '
RANGE = (
    'applying score defaultWeights on PlacementScore plugins: plugin "P" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)


def raising(found):
    raise RuntimeError("oops")


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        pytest.param(scorer("P", {"r1": 1, "r2": error("bad")}), SCORE + "bad", id="score"),
        pytest.param(scorer("P", {"r1": 1, "r2": unschedulable("bad")}), SCORE + "bad", id="score rejects"),
        pytest.param(scorer("P", {"r1": RuntimeError("oops")}), SCORE + "oops", id="score raises"),
        pytest.param(scorer("P", {"r1": 0, "r2": 0}, lambda _: error("none")), NORMALIZE + "none", id="normalize"),
        pytest.param(scorer("P", {"r1": 0, "r2": 0}, raising), NORMALIZE + "oops", id="normalize raises"),
        pytest.param(
            scorer("P", {"r1": 0, "r2": 0}, lambda _: [1]), NORMALIZE + "got 1 scores for 2 placements", id="too few"
        ),
        pytest.param(
            scorer("P", {"r1": "high"}), SCORE + "'str' object cannot be interpreted as an integer", id="not a number"
        ),
        pytest.param(scorer("P", {"r1": 1, "r2": 101}), RANGE.format(101), id="above the range"),
        pytest.param(scorer("P", {"r1": -1, "r2": 1}), RANGE.format(-1), id="below the range"),
    ],
)
def test_a_plugin_that_cannot_score(plugin, text):
    assert scored(plugin) == ("Error", "P", text)


def test_the_whole_cluster_is_unnamed():
    placement = whole_cluster(framework_of(objects=NODES).handle.cluster)
    assert placement.name == ""
    assert placement.nodes.names() == ["n1", "n2", "n3", "n4"]
