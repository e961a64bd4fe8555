"""`stowplan scenario`: pools, prices and a Prometheus become a scenario that runs."""

import csv
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from click.testing import CliRunner

from stowplan_lab.commands.scenario import scenario
from stowplan_lab.simulation.simulate import simulate_scenario

# 2026-11-02T00:00:00Z, a Monday.
BEGIN = 1793577600
END = BEGIN + 86_400
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready"}]},
}
ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def node(number, zone, pool="karpenter.sh/nodepool", cpu="3900m", spot="on-demand"):
    labels = {pool: "general", TYPE: "m5.xlarge", ZONE: zone, "kubernetes.io/hostname": f"n{number}", "disk": "ssd"}
    if pool.startswith("karpenter"):
        labels["karpenter.sh/capacity-type"] = spot
    allocatable = {"cpu": cpu, "memory": "15Gi", "pods": "58"}
    return NODE | {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": allocatable}}


NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "limits": {"cpu": "100"},
        "disruption": {"consolidateAfter": "5m"},
        "template": {
            "metadata": {"labels": {"team": "ml"}},
            "spec": {
                "requirements": [
                    {"key": TYPE, "operator": "In", "values": ["m5.xlarge", "g5.xlarge", "x1.huge"]},
                    {"key": ZONE, "operator": "In", "values": ["a", "b"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            },
        },
    },
}
STATUS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
    "data": {
        "status": yaml.safe_dump(
            {
                "nodeGroups": [
                    {"name": "eks-general-a-1f2e", "health": {"minSize": 1, "maxSize": 4}},
                    {"name": "eks-general-b-3d4c", "health": {"minSize": 0, "maxSize": 3}},
                    {"name": "eks-generals", "health": {"minSize": 0, "maxSize": 9}},
                ]
            }
        )
    },
}
PRICES = """type,capacityType,price,cpu,memory,nvidia.com/gpu
m5.xlarge,on-demand,0.192,,,
m5.xlarge,spot,0.07,,,
g5.xlarge,,1.006,4,16Gi,1
"""


def sample(value, name="", owner="", namespace="ml", **labels):
    labels |= {"namespace": namespace, "pod": name, "uid": f"uid-{name}"} if name else {}
    labels |= dict(zip(("owner_kind", "owner_name"), owner.split("/"), strict=True)) if owner else {}
    return {"metric": labels, "value": [END, str(value)]}


#: A part of a query -> its samples.
ANSWERS = {
    "max_over_time(kube_pod_created[86400s])": [
        sample(BEGIN - 500, "web-6d4cf-x"),
        sample(BEGIN + 3600, "train-1-a"),
        sample(BEGIN + 60, "logs-1"),
        sample(BEGIN + 7200, "brief"),
        sample(BEGIN - 9000, "old"),
    ],
    "kube_pod_status_scheduled_time": [sample(BEGIN - 400, "web-6d4cf-x"), sample(BEGIN + 3660, "train-1-a")],
    "kube_pod_completion_time": [sample(BEGIN + 5460, "train-1-a"), sample(BEGIN - 5, "old")],
    "timestamp(kube_pod_created)": [
        *(sample(END, name) for name in ("web-6d4cf-x", "train-1-a", "logs-1", "old")),
        sample(BEGIN + 7260, "brief"),
    ],
    "kube_pod_container_resource_requests[": [
        sample(0.25, "web-6d4cf-x", resource="cpu"),
        sample(2**30, "web-6d4cf-x", resource="memory"),
        sample(1, "train-1-a", resource="nvidia_com_gpu"),
        sample(1, "train-1-a", resource="example_com_fpga"),
        sample(0.1, "brief", resource="cpu"),
    ],
    "kube_pod_owner": [
        sample(1, "web-6d4cf-x", "ReplicaSet/web-6d4cf"),
        sample(1, "train-1-a", "Job/train-2958"),
        sample(1, "logs-1", "DaemonSet/logs"),
    ],
    "container_cpu_usage": [{"metric": {}, "values": [[BEGIN + 3600 * hour, "0.5"] for hour in range(1, 25)]}],
    "container_memory": [],
}


@contextmanager
def prometheus(asked):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            asked.append((url.path, query, self.headers.get("Authorization")))
            (found,) = [samples for part, samples in ANSWERS.items() if part in query["query"]][:1]
            body = json.dumps({"status": "success", "data": {"result": found}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def made(tmp_path, *manifests, prices=PRICES, more=()):
    (tmp_path / "pools.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    (tmp_path / "prices.csv").write_text(prices)
    given = ["--pools", tmp_path / "pools.json", "--prices", tmp_path / "prices.csv", "--out", tmp_path / "week"]
    result = CliRunner().invoke(scenario, [*map(str, given), *more], catch_exceptions=False)
    written = tmp_path / "week" / "scenario.yaml"
    return result, yaml.safe_load(written.read_text()) if written.exists() else None


def groups_of(found):
    return {group["name"]: group for group in found["cluster"]["groups"]}


def test_karpenters_pools_with_prices(tmp_path):
    nodes = [node(1, "a"), node(2, "b", cpu="3800m"), node(3, "a", spot="spot")]
    result, found = made(tmp_path, *nodes, NODE_POOL)
    groups = groups_of(found)
    first = groups["general-m5.xlarge-on-demand"]
    assert first["capacity"] == {"cpu": "3800m", "memory": "15Gi", "pods": "58"}
    assert (first["count"], first["zones"], first["price"]) == (2, ["a", "b"], 0.192)
    assert first["labels"]["disk"] == "ssd"
    assert "kubernetes.io/hostname" not in first["labels"]
    assert first["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
    assert first["autoscale"] == {"min": 0, "max": 26, "idle": "5m"}
    assert groups["general-m5.xlarge-spot"]["price"] == 0.07
    new = groups["general-g5.xlarge-on-demand"]
    assert (new["count"], new["price"], new["capacity"]["nvidia.com/gpu"], new["labels"]["team"]) == (
        0,
        1.006,
        "1",
        "ml",
    )
    assert "no node has the type x1.huge" in result.stderr


def test_the_cluster_autoscalers_bounds(tmp_path):
    result, found = made(tmp_path, node(1, "a", "eks.amazonaws.com/nodegroup"), STATUS, prices="type,price\nc5,1\n")
    (group,) = found["cluster"]["groups"]
    assert group["autoscale"] == {"min": 1, "max": 7}
    assert "node group eks-generals of the Cluster Autoscaler has no nodes" in result.stderr
    assert "the price list has no m5.xlarge" in result.stderr


@pytest.mark.parametrize(
    ("prices", "status", "wrong"),
    [
        pytest.param("type,prise\n", STATUS, "has no column 'price'; did you mean prise?", id="column"),
        pytest.param("type,price\na,x\n", STATUS, "prices.csv: line 2: could not convert", id="number"),
        pytest.param("type,price\na,1\na,2\n", STATUS, "line 3: type 'a' has a price already", id="twice"),
        pytest.param(PRICES, STATUS | {"data": {"status": "as before 1.30"}}, "1.30 or newer", id="status"),
    ],
)
def test_wrong_files_are_refused(tmp_path, prices, status, wrong):
    result, found = made(tmp_path, node(1, "a"), status, prices=prices)
    assert (result.exit_code, found) == (2, None)
    assert wrong in result.stderr


def test_pods_that_prometheus_saw(tmp_path):
    asked = []
    (tmp_path / "token").write_text("secret\n")
    with prometheus(asked) as url:
        more = ["--prometheus", url, "--prometheus-token-file", str(tmp_path / "token"), "--since", "1d"]
        result, found = made(tmp_path, node(1, "a"), NODE_POOL, more=[*more, "--until", "2026-11-03T00:20"])
    assert result.exit_code == 0, result.output
    assert {token for *_, token in asked} == {"Bearer secret"}
    with (tmp_path / "week" / "pods.csv").open() as file:
        rows = {row.pop("name"): row for row in csv.DictReader(file)}
    assert {name: (row["time"], row["lifetime"], row["owner"]) for name, row in rows.items()} == {
        "ml-web-6d4cf-x": ("0", "", "web"),
        "ml-train-1-a": ("3600", "1800", "train"),
        "ml-brief": ("7200", "60", "brief"),
    }
    web, train = rows["ml-web-6d4cf-x"], rows["ml-train-1-a"]
    assert (web["cpu"], web["memory"], train["nvidia.com/gpu"]) == ("250m", "1073741824", "1")
    assert "1 pod of DaemonSets left out" in result.stderr
    assert "requests of example_com_fpga are left out" in result.stderr
    (workload,) = found["workloads"]
    assert list(workload["usage"]) == ["cpu"]
    assert workload["usage"]["cpu"]["each"][:2] == [["0h", "50.0%"], ["1h", "50.0%"]]
    # It runs, and the pod with a GPU gets a node that is added for it.
    assert "taints of general-m5.xlarge-on-demand are left out" in result.stderr
    ran = simulate_scenario(str(tmp_path / "week" / "scenario.yaml"))
    assert {row.pod.partition("/")[2]: (row.end, row.node.rpartition("-")[0]) for row in ran.decisions} == {
        "ml-web-6d4cf-x": ("running", "general-m5.xlarge-on-demand"),
        "ml-train-1-a": ("finished", "general-g5.xlarge-on-demand"),
        "ml-brief": ("finished", "general-m5.xlarge-on-demand"),
    }


def test_hours_and_run_times_of_what_prometheus_saw(tmp_path):
    with prometheus([]) as url:
        more = ["--prometheus", url, "--since", "1d", "--until", "2026-11-03T00:20", "--arrivals", "profile"]
        result, found = made(tmp_path, node(1, "a"), NODE_POOL, more=more)
    assert result.exit_code == 0, result.output
    workloads = {one["name"]: one for one in found["workloads"]}
    assert set(workloads) == {"ml-web-before", "ml-train", "ml-brief"}
    web, train = workloads["ml-web-before"], workloads["ml-train"]
    assert (web["each"], "lifetime" in web, list(web["usage"])) == (1, False, ["cpu"])
    assert (train["poisson"], train["lifetime"]) == ("1/24h", {"choice": ["1800s"]})
    assert [hour for hour, weight in enumerate(train["hours"]) if weight] == [1, 2]
    assert "weekdays" not in train
    ran = simulate_scenario(str(tmp_path / "week" / "scenario.yaml"))
    assert any(row.workload == "ml-web-before" for row in ran.decisions)
