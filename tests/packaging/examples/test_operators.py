"""Gangs as KubeRay, mpi-operator and Kubeflow Trainer make them, scheduled in `stowplan up`."""

import sys

import pytest
import yaml

from support.paths import ROOT
from support.processes.cluster_commands import serving

FOLDER = ROOT / "examples" / "scheduler-plugins"
DEFINITIONS = ROOT / "deploy" / "manifests" / "scheduler-plugins" / "crds"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "operators", raising=False)
    from operators import objects_of

    return objects_of(list(yaml.safe_load_all((FOLDER / "workloads.yaml").read_text())))


def test_groups_are_those_of_the_operators(made):
    groups = {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "PodGroup"}
    assert groups == {
        "ray": {"minMember": 4, "minResources": {"cpu": "4", "memory": "5Gi"}},
        "pi": {"minMember": 3, "minResources": {"cpu": "3", "memory": "3Gi"}, "scheduleTimeoutSeconds": 0},
        "train": {"minMember": 4, "minResources": {"cpu": "8", "memory": "16Gi"}, "scheduleTimeoutSeconds": 120},
    }
    pods = [one for one in made if one["kind"] == "Pod"]
    assert len(pods) == 11
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"scheduler-plugins-scheduler"}


def test_up_runs_them_as_gangs(made, tmp_path):
    config = FOLDER / "scheduler.yaml"
    with serving("up", tmp_path, "-f", DEFINITIONS, f"--config={config}", "--nodes=3") as (_, client, log):
        for one in made:
            client(GROUPS if one["kind"] == "PodGroup" else PODS, one)
        found = client.until(
            GROUPS,
            lambda groups: (
                {name: one.get("status", {}).get("phase") for name, one in groups.items()}
                == dict.fromkeys(("ray", "pi", "train"), "Running")
            ),
            seconds=120,
        )
        assert {name: one["status"]["running"] for name, one in found.items()} == {"ray": 4, "pi": 3, "train": 4}
        assert "Traceback" not in log.read_text()
