"""User plugins that write to columns, or return what would fail later: their pods fail, the scheduler does not."""

import numpy as np
import pytest

import stowplan
from stowplan.plugins import (
    Code,
    Entry,
    FilterPlugin,
    Placement,
    PlacementGeneratePlugin,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    Reason,
    Rejections,
    ScorePlugin,
    ShapeSigned,
)
from stowplan.scheduler.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.testing import a_node, a_pod
from support.scheduling.groups import a_group

REASON = Reason("No", "no")
NODES = [a_node(f"n{i}").allocatable(cpu="4", pods="9").obj() for i in range(3)]


def made(base, method, call, **members):
    return type("Odd", (base, ShapeSigned), {"name": "Odd", method: call, **members})


def a_cluster(plugin, nodes=NODES, **options):
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Odd", "weight": 10}]}}}
    kinds = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return stowplan.Cluster(nodes, {**kinds, "profiles": [profile]}, plugins=[plugin], **options)


def in_place(plugin, state, pod, nodes):
    requested = nodes.requested(nodes.table.resources["cpu"])
    requested += 4000


def fails(self=None):
    raise ValueError("later")


def rejected(answer):
    return made(FilterPlugin, "filter", lambda plugin, state, pod, nodes: answer(len(nodes)))


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        pytest.param(made(FilterPlugin, "filter", in_place), "output array is read-only (test_answers", id="in place"),
        pytest.param(
            rejected(lambda n: Rejections.where(np.ones(1, bool), REASON)),
            "want a mask of 3 nodes (bool), got an array of bool with shape (1,)",
            id="short",
        ),
        pytest.param(
            rejected(lambda n: Rejections.where(np.ones(n, int), REASON)), "got an array of int64", id="numbers"
        ),
        pytest.param(rejected(lambda n: Rejections.where([True] * n, REASON)), "a mask of 3 nodes, got [", id="list"),
        pytest.param(rejected(lambda n: Rejections(np.ones(n, bool), fails)), "ValueError: later (test_", id="lazily"),
        pytest.param(rejected(lambda n: Rejections(np.ones(n, bool), [1])), "of type Entry, got 1", id="no entry"),
        pytest.param(
            rejected(lambda n: Rejections(np.ones(n, bool), [Entry(np.ones(n, bool), 2, REASON)])),
            "want a Code as the code of an Entry, got 2",
            id="code",
        ),
        pytest.param(
            rejected(lambda n: Rejections(np.ones(n, bool), [Entry(np.ones(n, bool), Code.Unschedulable, "no")])),
            "want a Reason as the reason",
            id="reason",
        ),
        pytest.param(
            made(PreFilterPlugin, "pre_filter", lambda *_: PreFilterResult("n1")), "want a set of node names", id="name"
        ),
    ],
)
def test_the_pod_fails_and_says_why(plugin, said):
    cluster = a_cluster(plugin)
    [decision] = cluster.schedule([a_pod("a").requests(cpu="1").obj()])
    assert decision.status.code == Code.Error
    assert said in decision.message
    assert said in cluster.explain(a_pod("b").requests(cpu="1").obj()).error.message
    assert cluster.state.table.requested[:, :3].sum() == 0


def test_a_score_that_is_a_column_is_copied():
    """Scores are updated in place as pods come."""

    def score(plugin, state, pod, nodes):
        return nodes.pod_count()

    plugin = made(ScorePlugin, "score", score, reads=Reads.NODE_SUMS)
    cluster = a_cluster(plugin)
    decisions = cluster.schedule([a_pod(f"p{i}").requests(cpu="100m").obj() for i in range(9)])
    assert all(decision.node_name for decision in decisions)
    assert cluster.state.table.pod_count[:3].sum() == 9


class Odd(FilterPlugin, ShapeSigned):
    """Refuses one of two nodes after the other, in a buffer of its own."""

    name = "Odd"

    def filter(self, state, pod, nodes):
        self.args = np.zeros(len(nodes), bool) if self.args is None else self.args
        self.args[:] = np.arange(len(nodes)) == len(self.handle.cluster.placed_pods()) % 2
        return Rejections.where(self.args, REASON)


class OddScore(ScorePlugin, ShapeSigned):
    name = "Odd"

    def score(self, state, pod, nodes):
        self.args = np.zeros(len(nodes), np.int64) if self.args is None else self.args
        self.args[:] = np.arange(len(nodes)) == len(self.handle.cluster.placed_pods()) % 2
        return self.args

    def normalize(self, state, pod, scores, feasible):
        scores *= 100
        return scores


@pytest.mark.parametrize("plugin", [Odd, OddScore])
def test_a_plugin_may_refill_its_buffer_for_the_next_pod(plugin):
    nodes = NODES[:2]
    found = []
    for reuse in (True, False):
        cluster = a_cluster(plugin, nodes, reuse=reuse)
        found.append([decision.node_name for decision in cluster.schedule([a_pod(f"p{i}").obj() for i in range(6)])])
    assert found[0] == found[1] == (["n1", "n0"] if plugin is Odd else ["n0", "n1"]) * 3


class FarOut(NodeResourcesFit):
    """Scores of its base are in range, those of its own are not."""

    name = "Odd"

    def score(self, state, pod, nodes):
        return super().score(state, pod, nodes) + 1000


def test_scores_are_checked_if_they_are_not_those_that_were_declared_to_be_in_range():
    [decision] = a_cluster(FarOut).schedule([a_pod("a").obj()])
    assert 'plugin "Odd" returns an invalid score' in decision.message


def test_a_plugin_that_defines_normalize_need_not_declare_it():
    scores = a_cluster(OddScore, NODES[:2]).explain(a_pod("a").obj()).to_dict()["scores"]
    assert [scores[node]["Odd"] for node in ("n0", "n1")] == [1000, 0]


def test_masks_that_are_passed_in_are_read_only():
    def normalize(plugin, state, pod, scores, feasible):
        feasible[:] = True

    plugin = made(ScorePlugin, "normalize", normalize, score=lambda *args: np.zeros(3, int))
    [decision] = a_cluster(plugin).schedule([a_pod("a").obj()])
    assert "assignment destination is read-only (test_answers" in decision.message


def test_an_object_without_a_text_of_its_own_has_no_address_in_the_message():
    """A message that changes would be a new event at each attempt."""
    plugin = made(FilterPlugin, "filter", lambda *_: object())
    [decision] = a_cluster(plugin).schedule([a_pod("a").obj()])
    assert "want Rejections, a Status or None, got an object of type object" in decision.message


def test_a_constructor_with_other_arguments():
    plugin = made(FilterPlugin, "__init__", lambda plugin: None, filter=lambda *_: None)
    with pytest.raises(ValueError, match=r"__init__ is called with the plugin's arguments and its handle$"):
        a_cluster(plugin)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(lambda parent: ["n0"], "want a Placement with Nodes, got 'n0'", id="a name"),
        pytest.param(
            lambda parent: [Placement(parent.nodes.restricted(np.array([7])))],
            "want a Placement with rows from 0 to 2, got 7 to 7",
            id="no such row",
        ),
    ],
)
def test_invalid_placements(answer, said):
    plugin = made(PlacementGeneratePlugin, "generate_placements", lambda self, state, group, parent: answer(parent))
    gates = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
    points = {"placementGenerate": {"enabled": [{"name": "Odd"}], "disabled": [{"name": "*"}]}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config["profiles"] = [{"plugins": points}]
    cluster = stowplan.Cluster(NODES, config, plugins=[plugin], feature_gates=gates, emulated_version="1.36")
    cluster.add(a_group("g", gang=1))
    cluster.schedule([a_pod("a").spec(schedulingGroup={"podGroupName": "g"}).obj()])
    [failure] = cluster.failures
    assert failure.startswith(f'running PlacementGenerate plugin "Odd": {said} (test_answers.py:')
