"""What the plugins declare: decisions about equal pods are those of a cluster that decides each from scratch."""

import json
from pathlib import Path

import pytest

import stowplan
from stowplan_scheduler_plugins.golden import scenarios
from stowplan_scheduler_plugins.golden.categories import rows_of
from support.examples import sampled

DATA = Path(__file__).parent / "data"
CATEGORIES = ["allocatable", "chart", "elasticquota", "networkaware", "nodemetadata", "nrt", "podstate", "sysched"]
CATEGORIES += ["trimaran-lroc", "trimaran-lvrb", "trimaran-tlp", "peaks"]


def copies(pod):
    """Three pods that differ in name alone."""
    for i in range(3):
        copy = json.loads(json.dumps(pod))
        copy["metadata"] |= {"name": f"{pod['metadata']['name']}-{i}", "uid": f"copy-{pod['metadata']['uid']}-{i}"}
        yield copy


def decisions(scenario, *, reuse):
    objects = scenarios.objects_of(scenario)
    cluster = stowplan.Cluster(objects, config=scenario["config"], now=scenarios.NOW, reuse=reuse)
    pods = [copy for pod in scenario["pods"][:5] for copy in copies(pod)]
    return [(decision.node_name, decision.message) for decision in cluster.schedule(pods)]


@pytest.mark.parametrize("category", CATEGORIES)
def test_equal_pods_are_decided_as_if_each_was_the_first(category):
    for scenario in rows_of(DATA, category, sampled):
        assert decisions(scenario, reuse=True) == decisions(scenario, reuse=False), scenario["name"]
