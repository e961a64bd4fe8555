"""examples/devices on `stowplan up`: pods get GPUs, and a waiting pod gets one that is deallocated."""

from collections import Counter

import yaml

from support.paths import ROOT
from support.processes.cluster_commands import serving

DEVICES = ROOT / "examples" / "devices"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def phases(pods):
    return Counter(one.get("status", {}).get("phase") for one in pods.values())


def test_the_example_runs(tmp_path):
    files = [f"--filename={DEVICES / 'classes.yaml'}", f"--filename={DEVICES / 'training.yaml'}"]
    nodes = ["--nodes=2", f"--node-template={DEVICES / 'gpu-node.yaml'}"]
    with serving("up", tmp_path, *nodes, *files) as (_, client, _log):
        # Eight GPUs: two for the pair, one for the large one, one that two pods share; the fifth worker waits.
        client.until(PODS, lambda pods: phases(pods) == {"Running": 8, "Pending": 1})
        claims = client(CLAIMS)["items"]
        results = [one["status"]["allocation"]["devices"]["results"] for one in claims if "allocation" in one["status"]]
        taken = [(result["pool"], result["device"]) for of_claim in results for result in of_claim]
        assert len(taken) == len(set(taken)) == 8
        (shared,) = [one for one in claims if one["metadata"]["name"] == "shared"]
        assert {user["name"] for user in shared["status"]["reservedFor"]} == {"reader", "writer"}
        # A GPU is deallocated when the pair has finished.
        client.delete(f"{PODS}/pair")
        client.until(PODS, lambda pods: phases(pods) == {"Running": 8})


RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
ENTRY = "resource.kubernetes.io/pod-claim-name"


def test_partitions_run_and_a_rule_evicts(tmp_path):
    files = [f"--filename={DEVICES / name}" for name in ("classes.yaml", "partitions.yaml")]
    nodes = ["--nodes=1", f"--node-template={DEVICES / 'partitioned-node.yaml'}"]
    with serving("up", tmp_path, *nodes, *files, "--feature-gates=DRADeviceTaintRules=true") as (_, client, _log):
        # Quarters of one GPU, as the halves of the other are allocated; the network card has room for four shares.
        client.until(PODS, lambda pods: phases(pods) == {"Running": 5, "Pending": 1})
        claims = client(CLAIMS)["items"]
        results = {
            one["metadata"]["annotations"][ENTRY]: one["status"]["allocation"]["devices"]["results"]
            for one in claims
            if "allocation" in one["status"]
        }
        halves = sorted(result["device"] for result in results["gpu"])
        whole = halves[0].removesuffix("-half-0")
        assert halves == [f"{whole}-half-0", f"{whole}-half-1"]
        assert results["devices"][1]["consumedCapacity"] == {"bandwidth": "20G"}
        rule = yaml.safe_load((DEVICES / "broken-gpu.yaml").read_text())
        rule["spec"]["deviceSelector"] |= {"pool": results["gpu"][0]["pool"], "device": halves[0]}
        client(RULES, rule)
        client.until(PODS, lambda pods: "both-halves" not in pods)
        rules = client.until(RULES, lambda rules: rules["broken-gpu"].get("status", {}).get("conditions"))
        (told,) = rules["broken-gpu"]["status"]["conditions"]
        assert told["type"] == "EvictionInProgress"
        assert told["reason"] in ("PodsPendingEviction", "Completed")
