"""Measured load: which metric counts, and when a new measurement is read."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.load import Metric, average_of, deviation_of
from stowplan_scheduler_plugins.load_sources import measured

WATCHER = "http://watcher"


def scheduler(plugin, **args):
    plugins = {"multiPoint": {"disabled": [{"name": "*"}]}, "queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    plugins["bind"] = {"enabled": [{"name": "DefaultBinder"}]}
    plugins["score"] = {"enabled": [{"name": plugin}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}]}],
    }


def cpu_load(end=4_102_444_800, **percent):
    metrics = {
        name: {"metrics": [{"type": "CPU", "operator": "AVG", "value": value}]} for name, value in percent.items()
    }
    return measured(WATCHER, {"window": {"end": end}, "data": {"NodeMetricsMap": metrics}})


def points(cluster, plugin, pod=None):
    scores = cluster.explain(pod or a_pod("p").requests(cpu="1").obj()).to_dict()["scores"]
    return {node: of_node.get(plugin, 0) for node, of_node in scores.items()}


def cpu(operator, value):
    return Metric("CPU", operator, value)


@pytest.mark.parametrize(
    ("metrics", "average"),
    [
        ([cpu("AVG", 1.0), cpu("Latest", 2.0)], (1.0, True)),
        ([cpu("Latest", 2.0), cpu("AVG", 1.0)], (1.0, True)),
        ([cpu("Latest", 2.0), cpu("", 3.0)], (3.0, True)),
        pytest.param([cpu("STD", 4.0)], (0.0, True), id="only a deviation"),
        pytest.param([Metric("Memory", "AVG", 4.0)], (0.0, False), id="another resource"),
    ],
)
def test_which_metric_is_the_average(metrics, average):
    assert average_of("CPU")(metrics) == average


def test_the_last_deviation_counts():
    assert deviation_of("CPU")([cpu("STD", 1.0), cpu("AVG", 7.0), cpu("STD", 2.0)]) == (2.0, True)


@pytest.mark.parametrize("plugin", ["TargetLoadPacking", "LoadVariationRiskBalancing"])
def test_a_new_measurement_is_read_and_a_lost_one_scores_nothing(plugin):
    nodes = [a_node(name).allocatable(cpu="4").obj() for name in ("n1", "n2")]
    cluster = stowplan.Cluster([*nodes, cpu_load(n1=10, n2=60)], config=scheduler(plugin, watcherAddress=WATCHER))
    before = points(cluster, plugin)
    assert before["n1"] != before["n2"]
    cluster.add(cpu_load(n1=60, n2=10))
    assert points(cluster, plugin) == {"n1": before["n2"], "n2": before["n1"]}
    cluster.remove(cpu_load())
    assert points(cluster, plugin) == {"n1": 0, "n2": 0}


def test_a_node_that_is_not_measured_scores_nothing():
    nodes = [a_node(name).allocatable(cpu="4").obj() for name in ("n1", "n2")]
    config = scheduler("LoadVariationRiskBalancing", watcherAddress=WATCHER)
    found = points(stowplan.Cluster([*nodes, cpu_load(n1=50)], config=config), "LoadVariationRiskBalancing")
    # The mean of load (0.5 + 1 of 4 CPUs) and no deviation.
    assert found == {"n1": 63, "n2": 0}
