"""`stowplan up` with the plugins and their controllers: statuses follow what runs."""

import json

import yaml

from support.api import manifests
from support.paths import ROOT
from support.processes.cluster_commands import serving

DEFINITIONS = ROOT / "deploy" / "manifests" / "scheduler-plugins" / "crds"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/elasticquotas"
PODS = "/api/v1/namespaces/default/pods"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
                "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            }
        }
    ],
}


def custom(kind, name, **spec):
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def member(name, group):
    pod = manifests.pod(name)
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return pod


def status(name, **wanted):
    def ready(objects):
        found = objects.get(name, {}).get("status") or {}
        return wanted.items() <= found.items()

    return ready


def test_groups_and_quotas_show_what_runs(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with serving("up", tmp_path, "-f", DEFINITIONS, f"--config={tmp_path / 'config.json'}") as (_, client, log):
        client(QUOTAS, custom("ElasticQuota", "team", min={"cpu": "4"}, max={"cpu": "2"}))
        client(GROUPS, custom("PodGroup", "gang", minMember=2))
        client(PODS, member("a", "gang"))
        client.until(GROUPS, status("gang", phase="Pending"))
        client(PODS, member("b", "gang"))
        client.until(GROUPS, status("gang", phase="Running", running=2))
        client.until(QUOTAS, status("team", used={"cpu": "2"}))
        reasons = {event["reason"] for event in client("/api/v1/namespaces/default/events")["items"]}
        assert {"Synced", "MinAboveMax"} <= reasons
        assert "Traceback" not in log.read_text()


def test_definitions_may_come_later(tmp_path):
    with serving("up", tmp_path) as (_, client, log):
        definition = yaml.safe_load((DEFINITIONS / "podgroups.yaml").read_text())
        client("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        client(GROUPS, custom("PodGroup", "gang", minMember=1))
        client.until(GROUPS, status("gang", phase="Pending"))
        assert "not served" not in log.read_text()
