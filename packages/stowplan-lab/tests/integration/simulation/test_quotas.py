"""ResourceQuotas in simulations: pods that exceed one are refused, and tried again by their controllers."""

import json

import pytest

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
