"""What explain says of scores by measured load."""

import pytest

import stowplan
from stowplan.ask.explain.detailed_record import detailed
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.load_sources import measured

WATCHER = "http://watcher"
MEASURED = measured(
    WATCHER,
    {
        "window": {"end": 4_102_444_800},
        "data": {
            "NodeMetricsMap": {
                "n1": {
                    "metrics": [
                        {"type": "CPU", "operator": "AVG", "value": 71.4},
                        {"type": "CPU", "operator": "STD", "value": 5},
                        {"type": "Memory", "operator": "Latest", "value": 30},
                    ]
                }
            }
        },
    },
)


def told(plugin, **args):
    """Node -> what its score rests on."""
    plugins = {"score": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}}
    if plugin == "LowRiskOverCommitment":
        plugins["preScore"] = {"enabled": [{"name": plugin}]}
    profile = {"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}]}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    nodes = [a_node(name).allocatable(cpu="10", memory="8Gi", pods="110").obj() for name in ("n1", "n2")]
    for node in nodes:
        node["status"]["capacity"] = node["status"]["allocatable"]
    cluster = stowplan.Cluster([*nodes, MEASURED], config=config | {"profiles": [profile]})
    record = detailed(cluster.engine, cluster.explain(a_pod("p").requests(cpu="1").limits(cpu="1").obj()))
    return {node: of_node[plugin] for node, of_node in record.score_details.items()}


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        pytest.param("TargetLoadPacking", {"watcherAddress": WATCHER}, "at 71 % of 40, 81 % with the pod", id="target"),
        pytest.param(
            "Peaks",
            {"WatcherAddress": WATCHER, "NodePowerModel": {"n1": {"k1": 1, "k2": 0.01}}},
            "at 71 %, 81 % with the pod",
            id="peaks",
        ),
        pytest.param(
            "LoadVariationRiskBalancing", {"watcherAddress": WATCHER}, "at 71 % ± 5 % cpu, 30 % memory", id="variation"
        ),
        pytest.param("LowRiskOverCommitment", {"watcherAddress": WATCHER}, "at 71 % ± 5 % cpu, 30 % memory", id="risk"),
    ],
)
def test_what_was_measured_is_told_of_each_node(plugin, args, expected):
    assert told(plugin, **args) == {"n1": expected, "n2": "was not measured"}
