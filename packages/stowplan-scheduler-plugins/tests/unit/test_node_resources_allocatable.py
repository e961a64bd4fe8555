"""NodeResourcesAllocatable prefers small nodes, or large ones, whatever is requested."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod


def points(nodes, pod=None, *others, **args):
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "NodeResourcesAllocatable"}], "disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": "NodeResourcesAllocatable", "args": args}],
            }
        ],
    }
    cluster = stowplan.Cluster([*(node.obj() for node in nodes), *others], config=config)
    scores = cluster.explain(pod or a_pod("p").obj()).to_dict()["scores"]
    return {node: of_node.get("NodeResourcesAllocatable", 0) for node, of_node in scores.items()}


NODES = [a_node(f"n{cpu}").allocatable(cpu=str(cpu), memory="8Gi", pods="110") for cpu in (2, 4, 10)]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({}, {"n2": 100, "n4": 75, "n10": 0}, id="by default, the smallest"),
        pytest.param({"mode": "Most"}, {"n2": 0, "n4": 25, "n10": 100}, id="the largest"),
        pytest.param({"resources": [{"name": "memory", "weight": 1}]}, {"n2": 0, "n4": 0, "n10": 0}, id="all equal"),
        pytest.param({"resources": [{"name": "pods", "weight": 1}]}, {"n2": 0, "n4": 0, "n10": 0}, id="not counted"),
    ],
)
def test_by_allocatable_resources(args, expected):
    assert points(NODES, **args) == expected


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param({"mode": "Middle"}, "invalid support ModeType", id="mode"),
        pytest.param(
            {"resources": [{"name": "cpu", "weight": -1}]}, "should be a positive value, got :-1", id="weight"
        ),
    ],
)
def test_invalid_arguments(args, text):
    with pytest.raises(ValueError, match=text):
        points(NODES, **args)
