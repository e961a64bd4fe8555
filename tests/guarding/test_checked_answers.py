"""User plugins that write to columns, or return what would fail later: their pods fail, the scheduler does not."""

import numpy as np
import pytest

import stowplan
from stowplan.plugins import (
    Code,
    Entry,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    Reason,
    Rejections,
    ScorePlugin,
    ShapeSigned,
)
from stowplan.testing import a_node, a_pod

REASON = Reason("No", "no")
NODES = [a_node(f"n{i}").allocatable(cpu="4", pods="9").obj() for i in range(3)]


def made(base, method, call, **members):
    return type("Odd", (base, ShapeSigned), {"name": "Odd", method: call, **members})


def a_cluster(plugin):
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}
    kinds = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return stowplan.Cluster(NODES, {**kinds, "profiles": [profile]}, plugins=[plugin])


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
        pytest.param(made(FilterPlugin, "filter", in_place), "output array is read-only (test_checked", id="in place"),
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
            rejected(lambda n: Rejections.where(np.ones(n, bool), "no")), "want a Reason as the reason", id="reason"
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


def test_an_object_without_a_text_of_its_own_has_no_address_in_the_message():
    """A message that changes would be a new event at each attempt."""
    plugin = made(FilterPlugin, "filter", lambda *_: object())
    [decision] = a_cluster(plugin).schedule([a_pod("a").obj()])
    assert "want Rejections, a Status or None, got an object of type object" in decision.message


def test_a_constructor_with_other_arguments():
    plugin = made(FilterPlugin, "__init__", lambda plugin: None, filter=lambda *_: None)
    with pytest.raises(ValueError, match=r"__init__ is called with the plugin's arguments and its handle$"):
        a_cluster(plugin)
