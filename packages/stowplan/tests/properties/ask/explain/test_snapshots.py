"""A verdict never changes; operations that need the cluster of its time are refused once the cluster has changed."""

import gzip
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.ask.explain.verdicts.verdict import StaleVerdictError
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.paths import TESTS

DATA = sorted((TESTS / "golden" / "data").rglob("*.jsonl.gz"))
CATEGORIES = ("mixed", "preemption", "podaffinity", "spread", "ports", "nodeaffinity")


def small(name="n1", cpu="2"):
    return a_node(name).allocatable(cpu=cpu, memory="8Gi", pods="10").obj()


def big(cpu="4"):
    return a_pod("big").requests(cpu=cpu).obj()


@pytest.fixture
def cluster():
    return stowplan.Cluster([small(), small("n2"), a_pod("db").requests(cpu="1").on("n1").obj(), big()])


def page(cluster, verdict):
    return plain(explanation(cluster.engine, verdict))


def full(verdict):
    return json.dumps(verdict.to_dict(), sort_keys=True), verdict.message, verdict.full_message, verdict.ranked()


MOVES = {
    "a pod comes": lambda c: c.add(a_pod("new").requests(cpu="1").on("n2").obj()),
    "a pod goes": lambda c: c.remove(a_pod("db").obj()),
    "a node comes": lambda c: c.add(small("n3")),
    "a node changes": lambda c: c.add(small("n1", cpu="16")),
    "a node goes": lambda c: c.remove(small("n2")),
    "the pod is placed": lambda c: (c.add(small("n4", cpu="8")), c.schedule()),
    "a class changes": lambda c: c.add(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {}}
    ),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_after_a_change_verdicts_stay_and_suggestions_are_refused(cluster, move):
    verdict = cluster.explain("big")
    before = full(verdict)
    move(cluster)
    assert full(verdict) == before
    with pytest.raises(
        StaleVerdictError, match=r'the verdict on pod "default/big" is of an earlier state.*explain the pod'
    ):
        verdict.suggestions()
    with pytest.raises(StaleVerdictError):
        page(cluster, verdict)
    assert full(verdict) == before


def test_suggestions_computed_in_time_are_part_of_the_snapshot(cluster):
    verdict = cluster.explain("big")
    assert [s.text for s in verdict.suggestions()]
    before = full(verdict)
    cluster.add(a_pod("new").requests(cpu="2").on("n2").obj())
    assert verdict.suggestions()
    assert full(verdict) == before


def test_details_do_not_make_other_verdicts_stale(cluster):
    cluster.add({**small("n3", cpu="8"), "spec": {"unschedulable": True}})
    verdicts = [cluster.explain("big"), cluster.explain("db"), cluster.explain("big")]
    for verdict in verdicts:
        page(cluster, verdict)
        verdict.suggestions()
    assert any("uncordon n3" in suggestion.text for suggestion in verdicts[-1].suggestions())


def test_details_of_a_placed_pod(cluster):
    verdict = cluster.explain("db")
    assert verdict.current_node == "n1"
    before = full(verdict)
    assert "runs on n1" in page(cluster, verdict)
    cluster.remove(a_pod("db").obj())
    assert full(verdict) == before
    with pytest.raises(StaleVerdictError):
        page(cluster, verdict)


def test_inside_a_hypothetical_change(cluster):
    outside = cluster.explain("big")
    with cluster.transaction():
        cluster.remove(a_pod("db").obj())
        with pytest.raises(StaleVerdictError):
            outside.suggestions()
        inside = cluster.explain(big(cpu="3"))
        page(cluster, inside)
        known = full(inside)
        left_alone = cluster.explain(big(cpu="3"))
    assert full(inside) == known
    with pytest.raises(StaleVerdictError):
        left_alone.suggestions()


def scenarios(category, number):
    path = next(path for path in DATA if path.name == f"{category}.jsonl.gz")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in itertools.islice(lines, number)]


@pytest.mark.parametrize("category", CATEGORIES)
@given(data=st.data())
@settings(max_examples=times(15), deadline=None)
def test_later_changes_do_not_affect_verdicts(category, data):
    scenario = data.draw(st.sampled_from(scenarios(category, 6)))
    cluster = stowplan.Cluster(scenario["objects"] + scenario["pods"], config=scenario["config"])
    placed = [obj for obj in scenario["objects"] if obj["kind"] == "Pod"]
    nodes = [obj for obj in scenario["objects"] if obj["kind"] == "Node"]
    verdicts = [cluster.explain(pod) for pod in scenario["pods"] + placed[:2]]
    untouched = [cluster.explain(pod) for pod in scenario["pods"] + placed[:2]]
    before = [full(verdict) for verdict in verdicts]
    for obj in data.draw(st.lists(st.sampled_from(placed + nodes), min_size=1, max_size=6)):
        cluster.remove(obj)
    cluster.schedule()
    assert [full(verdict) for verdict in verdicts] == before
    # Also if they were not read before the cluster changed.
    assert [full(verdict) for verdict in untouched] == before
