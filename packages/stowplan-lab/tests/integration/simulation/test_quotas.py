"""ResourceQuotas in simulations: pods that exceed one are refused, and tried again by their controllers."""

import json

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import container, group, scenario


@pytest.fixture
def simulated(tmp_path):
    def run(hard, *workloads, files=(), **rest):
        metadata = {"name": "q", "namespace": "default"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
        items = {"apiVersion": "v1", "kind": "List", "items": [quota, *files]}
        (tmp_path / "objects.json").write_text(json.dumps(items))
        found = scenario(*workloads, groups=[group(count=1, cpu=100, labels={})], **rest)
        found["cluster"]["files"] = [str(tmp_path / "objects.json")]
        return simulate_scenario(found)

    return run


def workload(kind, name="web", lifetime=None, **spec):
    manifest = {"kind": kind, "spec": {**spec, "template": {"spec": {"containers": [container("100m")]}}}}
    return {"name": name, "manifest": manifest, **({"lifetime": lifetime} if lifetime else {})}


def rows(result):
    return {row.pod.removeprefix("default/"): row for row in result.decisions}


def test_a_refused_pod_has_the_quotas_message(simulated):
    pod = {
        "name": "p",
        "manifest": {"kind": "Pod", "spec": {"containers": [container("100m")]}},
        "count": 2,
        "every": 1,
    }
    found = rows(simulated({"requests.cpu": "150m"}, pod))
    assert [row.end for row in found.values()] == ["refused", "running"]
    message = "exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=100m, limited: requests.cpu=150m"
    assert found["p-2"].message == f'pods "p-2" is forbidden: {message}'


def test_a_controller_tries_again_when_there_is_room(simulated):
    job = workload("Job", "job", 50, parallelism=1, completions=2)
    scale = {"at": 100, "scale": {"workload": "web", "replicas": 1}}
    result = simulated({"pods": "3"}, workload("Deployment", replicas=5), job, events=[scale], duration=600)
    found = rows(result)
    # Those that were refused are the first that are no longer wanted.
    assert [row.end for name, row in sorted(found.items()) if name.startswith("web")] == [
        "scaled down",
        "scaled down",
        "running",
    ]
    first, second = found["job-1"], found["job-2"]
    assert 100 < first.arrived <= 165
    # It ended and made room itself, so its controller did not wait.
    assert second.arrived == pytest.approx(first.ended + 0.1)


def test_pods_that_are_refused_until_the_end(simulated):
    result = simulated({"pods": "2"}, workload("ReplicaSet", replicas=4))
    assert result.summary.ends == {"running": 2, "refused": 2}
    # Nothing would ever make room.
    assert result.summary.simulated < 1000


def test_what_exists_counts_and_is_not_refused(simulated):
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container("100m")]}}
        for name in ("a", "b")
    ]
    result = simulated({"pods": "1"}, workload("ReplicaSet", replicas=1), files=pods)
    assert result.summary.ends == {"running": 2, "refused": 1}


def limit_range(*limits):
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


def test_a_limit_range_adds_requests_and_refuses(simulated):
    limits = limit_range({"type": "Container", "max": {"cpu": "500m"}, "defaultRequest": {"ephemeral-storage": "1Gi"}})
    manifest = {"kind": "Pod", "spec": {"containers": [container("600m")]}}
    too_large = {"name": "large", "manifest": manifest, "at": 1}
    result = simulated({"pods": "9"}, workload("ReplicaSet", replicas=1), too_large, files=[limits])
    found = rows(result)
    assert found["web-1"].requests["ephemeral-storage"] == 2**30
    [refused] = [row for row in result.decisions if row.workload == "large"]
    problem = "maximum cpu usage per Container is 500m, but request is 600m"
    assert (refused.end, refused.message) == ("refused", f'pods "{refused.pod[8:]}" is forbidden: {problem}')


def test_a_runtime_class_adds_overhead_and_chooses_nodes(simulated):
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": {"podFixed": {"cpu": "50m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}},
    }
    spec = {"runtimeClassName": "vm", "containers": [container("100m")]}
    pods = [
        {"name": name, "manifest": {"kind": "Pod", "spec": {**spec, "runtimeClassName": name}}} for name in ("vm", "no")
    ]
    result = simulated({"pods": "9"}, *pods, files=[runtime_class], duration=60)
    found = {row.workload: row for row in result.decisions}
    assert (found["vm"].requests["cpu"], found["vm"].end) == (150, "pending")
    assert found["no"].message.endswith('is forbidden: pod rejected: RuntimeClass "no" not found')


@pytest.mark.parametrize(
    "wrong", [limit_range("x"), limit_range({"type": "Container", "max": {"cpu": "x"}})], ids=["no item", "no amount"]
)
def test_what_cannot_be_understood_is_refused(simulated, wrong):
    with pytest.raises(ScenarioError, match="LimitRange l"):
        simulated({"pods": "9"}, workload("ReplicaSet", replicas=1), files=[wrong])
