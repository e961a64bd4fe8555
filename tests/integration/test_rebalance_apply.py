"""`stowplan rebalance --apply` as a process, on `stowplan up`: a Deployment with a budget leaves a tainted node."""

import json
import sys

from support.api import manifests
from support.processes import forked
from support.processes.cluster_commands import serving

PODS = "/api/v1/namespaces/default/pods"
REPLICAS = 2


def are_ready(pods):
    ready = [one for one in pods.values() if "deletionTimestamp" not in one["metadata"] and _is_ready(one)]
    return len(ready) == len(pods) == REPLICAS


def _is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_moves_are_carried_out_and_a_second_run_finds_nothing(tmp_path):
    deployment = manifests.workload("Deployment", replicas=REPLICAS)
    budget = manifests.budget(minAvailable=REPLICAS - 1)
    (tmp_path / "objects.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [deployment, budget]})
    )
    with serving("up", tmp_path, "--nodes=1", "-f", str(tmp_path / "objects.json")) as (_, client, _):
        client.until(PODS, are_ready)
        client("/api/v1/nodes", manifests.node("other"))
        tainted = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
        client("/api/v1/nodes/node-0000", tainted, method="PATCH", content_type="application/merge-patch+json")

        def rebalanced(*options):
            line = [sys.executable, "-m", "stowplan", "rebalance", "--kubeconfig", str(tmp_path / "kubeconfig")]
            return forked.run([*line, "--goal=mend", "--exit-code", *options], capture_output=True, text=True)

        first = rebalanced("--apply", "-o", "json")
        assert first.returncode == 0, first.stderr
        assert first.stderr.splitlines() == [f"step {number}: 1 pod moved" for number in range(1, REPLICAS + 1)]
        record = json.loads(first.stdout)
        assert (record["state"], record["moved"]) == ("finished", REPLICAS)
        pods = client.until(PODS, are_ready)
        assert {one["spec"]["nodeName"] for one in pods.values()} == {"other"}
        second = rebalanced("--apply")
        assert second.stdout.endswith(": 0 moved\n")
