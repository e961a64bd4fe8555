"""A policy read from a ConfigMap, as in Kubernetes up to 1.22: by `--policy-configmap`, or named in a configuration."""

import json

import pytest

from stowplan import load_config
from stowplan.kube.api.types import ObjectMeta
from stowplan.kube.api.users import ConfigMap
from stowplan.kube.config import ClientConnection
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi
from support.older_configurations import named, policy
from support.processes import forked
from support.processes.scheduler_process import COMMAND

POLICY = policy(predicates=named("PodFitsResources"), priorities=named("MostRequestedPriority", weight=3))
MAPS = {"good": {"policy.cfg": json.dumps(POLICY)}, "other": {"policy.yaml": ""}, "bad": {"policy.cfg": "kind: Pod"}}


@pytest.fixture
async def config_maps(embedded):
    connection = ClusterFlags(kubeconfig=str(embedded.kubeconfig)).connect()
    async with HttpApi.open(connection, client_settings=ClientConnection(), agent="test") as api:
        for name, data in MAPS.items():
            await api.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data))
        yield
        for name in MAPS:
            await api.delete(ConfigMap, name, namespace="default")


def started(server, target, *flags):
    base = [f"--kubeconfig={server.kubeconfig}", "--secure-port=0", f"--write-config-to={target}"]
    ran = forked.run([*COMMAND, *base, *flags], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in ran.stderr
    return ran


def test_a_policy_in_a_config_map(embedded, config_maps, tmp_path):
    target = tmp_path / "written.yaml"
    ran = started(embedded, target, "--policy-configmap=good", "--policy-configmap-namespace=default")
    assert ran.returncode == 0, ran.stderr
    assert load_config(target).profiles[0].points == load_config(POLICY).profiles[0].points


def of_config_map(server, folder, **config_map):
    """The path of a configuration whose policy is in a ConfigMap."""
    path = folder / "v1alpha1.json"
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1alpha1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(server.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "algorithmSource": {"policy": {"configMap": config_map}},
    }
    path.write_text(json.dumps(configuration))
    return path


def test_a_policy_config_map_in_a_configuration(embedded, config_maps, tmp_path):
    target, path = tmp_path / "written.yaml", of_config_map(embedded, tmp_path, name="good", namespace="default")
    ran = started(embedded, target, f"--config={path}")
    assert ran.returncode == 0, ran.stderr
    assert load_config(target).profiles[0].points == load_config(POLICY).profiles[0].points
    missing = started(embedded, target, f"--config={of_config_map(embedded, tmp_path, name='good')}")
    assert missing.returncode == 1
    assert "couldn't get policy config map kube-system/good: " in missing.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--policy-configmap=good"], "couldn't get policy config map kube-system/good: "),
        (
            ["--policy-configmap=other", "--policy-configmap-namespace=default"],
            'missing policy config map value at key \\"policy.cfg\\"',
        ),
        (["--policy-configmap=bad", "--policy-configmap-namespace=default"], "invalid policy: "),
    ],
)
def test_config_maps_without_a_policy(embedded, config_maps, tmp_path, flags, message):
    ran = started(embedded, tmp_path / "written.yaml", *flags)
    assert ran.returncode == 1
    assert message in ran.stderr
