"""TargetLoadPacking: pods that came after the measurement are predicted, until the measurement includes them."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.load_sources import measured

WATCHER = "http://watcher"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"disabled": [{"name": "*"}]},
                "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                "bind": {"enabled": [{"name": "DefaultBinder"}]},
                "score": {"enabled": [{"name": "TargetLoadPacking"}]},
            },
            "pluginConfig": [{"name": "TargetLoadPacking", "args": {"watcherAddress": WATCHER}}],
        }
    ],
}


def load(percent, end):
    metrics = {"n1": {"metrics": [{"type": "CPU", "operator": "AVG", "value": percent}]}}
    return measured(WATCHER, {"window": {"end": end}, "data": {"NodeMetricsMap": metrics}})


def points(cluster, cpu="1"):
    pod = a_pod("p").limits(cpu=cpu).obj()
    return cluster.explain(pod).to_dict()["scores"].get("n1", {}).get("TargetLoadPacking", 0)


def a_cluster(*objects, now):
    node = a_node("n1").allocatable(cpu="10").obj()
    node["status"]["capacity"] = {"cpu": "10"}
    return stowplan.Cluster([node, *objects], config=CONFIG, now=now)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        pytest.param(0, 55, id="10 % of 40 %"),
        pytest.param(30, 100, id="exactly the target"),
        pytest.param(60, 20, id="beyond it"),
        pytest.param(95, 0, id="overloaded"),
    ],
)
def test_points_rise_up_to_the_target_and_fall_beyond(percent, expected):
    assert points(a_cluster(load(percent, 1000), now=2000)) == expected


def test_a_pod_that_came_since_is_predicted():
    cluster = a_cluster(load(0, 1000), now=2000)
    before = points(cluster)
    cluster.add(a_pod("new").limits(cpu="2").on("n1").obj())
    assert points(cluster) == points(a_cluster(load(20, 1000), now=2000)) > before
    # A minute later, a measurement has it.
    cluster.add(load(20, 2060))
    assert points(cluster) == points(a_cluster(load(20, 1000), now=2000))


@pytest.mark.parametrize(("scheduled", "expected"), [("1970-01-01T00:10:00Z", 0), ("1970-01-01T00:16:00Z", 20)])
def test_when_a_pod_came_is_in_its_condition(scheduled, expected):
    """However late the plugin sees it first; measured was at 1000 seconds."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}
    pod = a_pod("there").limits(cpu="2").on("n1").status(conditions=[condition]).obj()
    assert points(a_cluster(load(0, 1000), pod, now=2000)) == points(a_cluster(load(expected, 1000), now=2000))
