"""Custom resources of a scenario's files, which plugins of its configuration read: quotas that can be borrowed."""

import json

import pytest

from stowplan_lab.compare.comparison import Scheduler, compare
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import container, group, scenario
from support.sweeps.in_process import InProcessWorkers

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


def scenario_with(tmp_path, *objects):
    (tmp_path / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    given = scenario(
        pods("a", 4, "1", 0), pods("b", 1, "2", 60), groups=[group(count=1, cpu=4, labels={})], duration=300
    )
    given["cluster"]["files"] = [str(tmp_path / "objects.json")]
    return given


def configuration(plugins):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }


def simulated(tmp_path, *objects, plugins=PLUGINS):
    return simulate_scenario(scenario_with(tmp_path, *objects), config=configuration(plugins))


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


def test_schedulers_with_and_without_quotas_are_compared(tmp_path):
    files = {"without": configuration({}), "with": configuration(PLUGINS)}
    for name, config in files.items():
        (tmp_path / name).write_text(json.dumps(config))
    (tmp_path / "s.json").write_text(json.dumps(scenario_with(tmp_path, quota("a", "2"), quota("b", "2"))))
    schedulers = [Scheduler.of(str(tmp_path / name)) for name in files]
    found = compare(str(tmp_path / "s.json"), schedulers, names=tuple(files), seeds=(1, 2), workers=InProcessWorkers())
    values = {measure.name: [one.mean for one in measure.values] for measure in found.measures}
    assert (values["unplaced"], values["evictions"]) == ([1, 0], [0, 2])


@pytest.mark.parametrize(("whole", "single"), [(False, "pending"), (True, "running")])
def test_a_gang_without_room_holds_none_if_it_is_decided_as_a_whole(tmp_path, whole, single):
    """Three of its four pods fit; otherwise they wait for the last one, and another pod for them."""
    gang = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "a"},
        "spec": {"minMember": 4, "scheduleTimeoutSeconds": 600},
    }
    given = scenario_with(tmp_path, gang)
    members, alone = pods("a", 4, "1300m", 0), pods("b", 1, "2", 60)
    members["manifest"]["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "gang"}
    given["workloads"] = [members, alone]
    sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    config = configuration({"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "queueSort": sort})
    args = {"wholeGroups": whole, "podGroupRejectPercentage": 100}
    config["profiles"][0]["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    assert ends(simulate_scenario(given, config=config)) == [("a", "pending")] * 4 + [("b", single)]
