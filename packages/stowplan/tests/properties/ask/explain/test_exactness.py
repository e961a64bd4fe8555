"""Every suggestion, carried out, has the promised effect on the reference's random clusters.

The changed pod, nodes and pods are put into a new cluster. Searching suggestions must leave the original cluster
unchanged.
"""

import copy
import gzip
import json

import pytest

import stowplan
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.kube.api.decode import to_dict
from support.paths import TESTS

DATA = sorted((TESTS / "golden" / "data").rglob("*.jsonl.gz"))
CATEGORIES = ("mixed", "nodeaffinity", "pdb", "podaffinity", "ports", "preemption", "resources", "spread", "taints")
SCENARIOS = 12


def scenarios(category):
    path = next(path for path in DATA if path.name == f"{category}.jsonl.gz")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for _, line in zip(range(SCENARIOS), lines, strict=False)]


def text_of(taint):
    return f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"


def changed_node(node, change):
    node = copy.deepcopy(node)
    name, spec = node["metadata"]["name"], node.setdefault("spec", {})
    gone = set(change["taints"]) if name in change.get("recover", ()) else set()
    if name in change.get("uncordon", ()):
        spec.pop("unschedulable", None)
        gone.add("node.kubernetes.io/unschedulable:NoSchedule")
    spec["taints"] = [taint for taint in spec.get("taints") or [] if text_of(taint) not in gone]
    return node


def key_of(pod):
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def feasible_nodes_after(scenario, verdict, suggestion):
    """The number of feasible nodes in a cluster with the suggestion applied."""
    changes = suggestion.changes_data
    objects = []
    for obj in scenario["objects"] + scenario["pods"]:
        if obj["kind"] == "Node":
            for change in changes:
                obj = changed_node(obj, change)
        elif obj["kind"] == "Pod" and (
            key_of(obj) == verdict.key or any(key_of(obj) in change.get("move", ()) for change in changes)
        ):
            continue
        objects.append(obj)
    again = stowplan.Cluster(objects, config=scenario["config"])
    return int(again.explain(to_dict(suggestion.applied_to(verdict.pod.pod))).feasible.sum())


@pytest.mark.parametrize("category", CATEGORIES)
def test_suggestions_have_the_promised_effect(category):
    pending = 0
    for scenario in scenarios(category):
        cluster = stowplan.Cluster(scenario["objects"] + scenario["pods"], config=scenario["config"])
        for pod in scenario["pods"]:
            verdict = cluster.explain(pod)
            if verdict.node_name or verdict.error is not None:
                continue
            pending += 1
            assert verdict.suggestions() or verdict.advice.obstacles or verdict.preemption.selected
            for suggestion in verdict.suggestions():
                assert feasible_nodes_after(scenario, verdict, suggestion) == suggestion.gain, suggestion.text
    assert pending


@pytest.mark.parametrize("category", ["mixed", "preemption"])
def test_explaining_changes_nothing(category):
    for scenario in scenarios(category):
        cluster = stowplan.Cluster(scenario["objects"] + scenario["pods"], config=scenario["config"])
        before = [cluster.explain(pod).to_dict() for pod in scenario["pods"]]
        for pod in scenario["pods"]:
            verdict = cluster.explain(pod)
            for wide in (False, True):
                assert plain(explanation(cluster.engine, verdict, wide=wide))
        assert [cluster.explain(pod).to_dict() for pod in scenario["pods"]] == before
