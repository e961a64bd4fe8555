"""Scores of plugins by measured load, on two nodes with 10 CPUs."""

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.load_sources import measured

WATCHER = "http://watcher"


def metric(type_, operator, value):
    return {"type": type_, "operator": operator, "value": value}


def load(**of_nodes):
    metrics = {name: {"metrics": listed} for name, listed in of_nodes.items()}
    return measured(WATCHER, {"window": {"end": 4_102_444_800}, "data": {"NodeMetricsMap": metrics}})


def scores(plugin, loads, pod=None, objects=(), address="watcherAddress", **args):
    """Node -> points; nodes have 10 CPUs."""
    points = {name: {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]} for name in ("score", "preScore")}
    if plugin != "LowRiskOverCommitment":
        del points["preScore"]
    profile = {"plugins": points, "pluginConfig": [{"name": plugin, "args": {address: WATCHER, **args}}]}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    nodes = [a_node(name).allocatable(cpu="10", memory="8Gi", pods="110").obj() for name in ("n1", "n2")]
    for node in nodes:
        node["status"]["capacity"] = node["status"]["allocatable"]
    cluster = stowplan.Cluster([*nodes, loads, *objects], config=config | {"profiles": [profile]})
    found = cluster.explain(pod or a_pod("p").requests(cpu="1").obj()).to_dict()["scores"]
    return {node: of_node[plugin] for node, of_node in found.items()}
