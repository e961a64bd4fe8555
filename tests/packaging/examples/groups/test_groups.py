"""examples/groups: a training job over two racks, from files and with kubectl on the embedded cluster."""

import pytest

import stowplan
from support.paths import ROOT
from support.processes.cluster_commands import serving
from support.processes.own_process import run_here
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import Server, embedded_server

GROUPS = ROOT / "examples" / "groups"
GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
FLAG = "--feature-gates=" + ",".join(f"{name}=true" for name in GATES)


def files(*names):
    return [str(GROUPS / name) for name in names]


def test_the_job_is_placed_in_the_rack_where_it_fits():
    cluster = stowplan.Cluster.from_files(*files("racks.yaml", "training.yaml"), feature_gates=GATES)
    assert cluster.explain_group("training").best.name == "b"
    assert sorted(decision.node_name for decision in cluster.schedule()) == ["b1", "b1", "b2", "b2"]


def test_suggestions_for_a_larger_job():
    racks, job = files("racks.yaml", "too-large.yaml")
    out = run_here("explain", "-f", racks, "-f", job, "podgroup/too-large").out
    assert out.startswith(
        "pod group default/too-large does not fit: 4 of 6 pods fit together in b, 2 more pods are needed"
    )
    assert "add 1 node like b1: places 6 pods" in out


def check_placed_in_the_rack_where_it_fits(server):
    server.kubectl("create", "-f", files("training.yaml")[0])
    server.kubectl("wait", "--for=condition=PodGroupInitiallyScheduled", "podgroup/training", "--timeout=20s")
    server.kubectl("wait", "--for=condition=PodScheduled", "pods", "-l", "job-name=training", "--timeout=20s")
    pods = server.json("get", "pods", "-l", "job-name=training")["items"]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["b1", "b1", "b2", "b2"]
    (row,) = server.json("get", "podgroups")["items"]
    assert row["status"]["conditions"][0]["reason"] == "Scheduled"


def test_with_kubectl(tmp_path):
    with embedded_server(tmp_path) as server:
        server.kubectl("create", "-f", files("racks.yaml")[0])
        with kube_scheduler(tmp_path, server.kubeconfig, FLAG, "--leader-elect=false"):
            check_placed_in_the_rack_where_it_fits(server)


def test_in_one_process(tmp_path):
    with serving("up", tmp_path, "--nodes=0", FLAG) as (process, _, _):
        server = Server("embedded", tmp_path / "kubeconfig", tmp_path, process)
        server.kubectl("create", "-f", files("racks.yaml")[0])
        check_placed_in_the_rack_where_it_fits(server)


@pytest.mark.parametrize("name", ["racks.yaml", "training.yaml", "too-large.yaml"])
def test_each_is_listed(name):
    assert f"groups/{name}" in (GROUPS.parent / "README.md").read_text(encoding="utf-8")
