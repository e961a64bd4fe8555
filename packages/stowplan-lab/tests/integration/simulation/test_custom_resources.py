"""Custom resources of a scenario's files, which plugins of its configuration read: quotas that can be borrowed."""

import json

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import container, group, scenario

PLUGINS = {
    "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
    "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
}


def quota(namespace, least):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least, "memory": "64Gi"}},
    }


def pods(name, count, cpu, at):
    manifest = {"kind": "Pod", "metadata": {"namespace": name}, "spec": {"containers": [container(cpu)]}}
    return {"name": name, "manifest": manifest, "count": count, "every": 1, "at": at}


def simulated(tmp_path, *objects, plugins=PLUGINS):
    (tmp_path / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    given = scenario(
        pods("a", 4, "1", 0), pods("b", 1, "2", 60), groups=[group(count=1, cpu=4, labels={})], duration=300
    )
    given["cluster"]["files"] = [str(tmp_path / "objects.json")]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    return simulate_scenario(given, config=config)


def ends(result):
    return sorted((row.pod.partition("/")[0], row.end) for row in result.decisions)


def test_what_a_namespace_borrowed_is_taken_back(tmp_path):
    result = simulated(tmp_path, quota("a", "2"), quota("b", "2"))
    assert ends(result) == [("a", "preempted")] * 2 + [("a", "running")] * 2 + [("b", "running")]
    assert not [note for note in result.summary.notes if "ElasticQuota" in note]


def test_without_the_plugin_quotas_are_skipped_with_a_note(tmp_path):
    result = simulated(tmp_path, quota("a", "2"), plugins={})
    assert ends(result) == [("a", "running")] * 4 + [("b", "pending")]
    assert [note for note in result.summary.notes if "skipped 1 object of kind ElasticQuota" in note]


def test_an_object_that_is_wrong_is_an_error(tmp_path):
    with pytest.raises(ScenarioError, match=r'cluster.files: ElasticQuota "b/quota"'):
        simulated(tmp_path, quota("b", "2") | {"metadata": {"name": "quota", "namespace": "b", "labels": 5}})
