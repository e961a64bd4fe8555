"""Nodes and pods as rows, and the heat map of nodes; what Python shows of answers."""

from __future__ import annotations

import pytest

from stowplan import Cluster, ClusterError
from stowplan.ask.offline.cluster_tables import node_rows, pod_rows
from stowplan.ask.rebalance import FreeNodes, rebalance, room
from stowplan.ask.what_if import AddNodes, Remove, drain, fit, heatmaps, survive, what_if
from stowplan.testing import a_node, a_pod

GPU = "nvidia.com/gpu"


def cluster():
    gpus = {"cpu": "8", "pods": 10, GPU: 4}
    nodes = [
        a_node("a").zone("x").allocatable(gpus).tainted(GPU).obj(),
        a_node("b").zone("x").allocatable(gpus).unschedulable().obj(),
        a_node("c").zone("y").allocatable(cpu="8", pods=10).obj(),
    ]
    pods = [
        a_pod("p").labels(team="<ml>").requests({"cpu": "2", GPU: 3}).on("a").owner("ReplicaSet", "web-1").obj(),
        a_pod("q").requests(cpu="1").obj(),
    ]
    return Cluster([*nodes, *pods])


def test_rows_of_nodes():
    a, b, c = node_rows(cluster().state)
    assert (a[f"{GPU}.requested"], a[f"{GPU}.free"], a["taints"], a["labels.topology.kubernetes.io/zone"]) == (
        *(3, 1),
        *(f"{GPU}:NoSchedule", "x"),
    )
    assert (b["takes_pods"], b[f"{GPU}.free"], c[f"{GPU}.allocatable"]) == (False, 0, 0)


def test_rows_of_pods():
    p, q = pod_rows(cluster().state)
    assert (p["workload"], p[f"requests.{GPU}"], p["labels.team"]) == ("Deployment/web", 3, "<ml>")
    assert (q["node"], q["requests.cpu"], q["workload"]) == ("", 1000, "")


def test_frames():
    pytest.importorskip("pandas")
    assert list(cluster().nodes_frame()["node"]) == ["a", "b", "c"]
    assert list(cluster().pods_frame()["requests.cpu"]) == [2000, 1000]


def test_a_heat_map_sets_nodes_without_the_resource_apart():
    found = cluster().heatmap(GPU)
    assert repr(found) == f"<HeatMap: x: 1 of 8 {GPU} free; y: no node has {GPU}>"
    page = found._repr_html_()
    assert f"a: 3 of 4 {GPU} requested" in page
    assert "⊘" in page
    assert repr(cluster().heatmap(GPU, by="")) == f"<HeatMap: 1 of 8 {GPU} free, 1 node without any>"
    with pytest.raises(ClusterError, match=f"no node has 'gpu'; nodes have cpu, memory, ephemeral-storage, {GPU}"):
        cluster().heatmap("gpu")


@pytest.mark.parametrize(
    "ask",
    [
        lambda it: fit(it, "q"),
        lambda it: drain(it, ["a"]),
        survive,
        lambda it: what_if(it, Remove("a")),
        lambda it: rebalance(it, FreeNodes(1)),
        room,
    ],
)
def test_answers_are_shown_in_a_line_and_as_the_page_of_the_command(ask):
    answer = ask(cluster())
    assert len(repr(answer)) < 200
    assert answer._repr_html_().startswith("<pre>")
    assert "<ml>" not in answer._repr_html_()


def test_heat_maps_before_and_after_a_change():
    """The pending pod goes to c on both sides, and c is gone on one of them."""
    found = heatmaps(cluster(), [AddNodes(2, "c"), Remove("c")], by="")
    assert str(found) == "<HeatMaps: before <HeatMap: 13 of 24 cpu free>, after <HeatMap: 21 of 32 cpu free>>"
    page = found._repr_html_()
    assert page.count("cpu requested") == 3 + 4
    assert page.index("Before") < page.index("After")
