"""NodeMetadata prefers nodes by the value of a label or an annotation."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod


def points(nodes, pod=None, *others, **args):
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "NodeMetadata"}], "disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": "NodeMetadata", "args": args}],
            }
        ],
    }
    cluster = stowplan.Cluster([*(node.obj() for node in nodes), *others], config=config)
    scores = cluster.explain(pod or a_pod("p").obj()).to_dict()["scores"]
    return {node: of_node.get("NodeMetadata", 0) for node, of_node in scores.items()}


def by(strategy, type_="Number", source="Label"):
    return {
        "metadataKey": "rank",
        "metadataSource": source,
        "metadataType": type_,
        "scoringStrategy": strategy,
    }


RANKED = [a_node("a").labels(rank="1"), a_node("b").labels(rank="3"), a_node("c"), a_node("d").labels(rank="none")]
TIMES = [
    a_node("a").annotations(rank="2026-01-01T00:00:00Z"),
    a_node("b").annotations(rank="2026-02-01T00:00:00Z"),
    a_node("c").annotations(rank="yesterday"),
]


@pytest.mark.parametrize(
    ("nodes", "args", "expected"),
    [
        pytest.param(RANKED, by("Highest"), {"a": 1, "b": 100, "c": 0, "d": 0}, id="highest"),
        pytest.param(RANKED, by("Lowest"), {"a": 100, "b": 1, "c": 0, "d": 0}, id="lowest"),
        pytest.param(RANKED[1:], by("Highest"), {"b": 1, "c": 0, "d": 0}, id="all valid ones equal"),
        pytest.param(TIMES, by("Newest", "Timestamp", "Annotation"), {"a": 1, "b": 100, "c": 0}, id="newest"),
        pytest.param(TIMES, by("Oldest", "Timestamp", "Annotation"), {"a": 100, "b": 1, "c": 0}, id="oldest"),
    ],
)
def test_by_values(nodes, args, expected):
    assert points(nodes, **args) == expected


def test_numbers_are_no_times():
    with pytest.raises(ValueError, match='are only valid for metadataType "Timestamp"'):
        points(RANKED, **by("Newest"))
