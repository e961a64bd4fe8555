"""examples/devices on `stowplan up`: pods get their GPUs, and who waits gets one that is given back."""

from collections import Counter
from pathlib import Path

from support.processes.cluster_commands import serving

DEVICES = Path(__file__).parents[2] / "examples" / "devices"
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
        # A GPU comes free when the pair has ended.
        client.delete(f"{PODS}/pair")
        client.until(PODS, lambda pods: phases(pods) == {"Running": 8})
