"""Pods of one template that share an evaluation although their labels distinguish them in rare cases."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.scheduling.worlds import HOST, ZONE, replica_set

ONE_A_ZONE = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
LISTED = configuration(
    {
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {"defaultingType": "List", "defaultConstraints": [ONE_A_ZONE]},
            }
        ]
    }
)
WEB, FIRST = {"matchLabels": {"app": "web"}}, {"matchLabels": {"tier": "1"}}


def placed(cluster, *pods):
    return [cluster.schedule([pod.obj()])[0].node_name for pod in pods]


@pytest.mark.parametrize("reuse", [True, False])
def test_a_pod_that_does_not_match_its_own_default_selector(reuse):
    """Its controller's selector does not match its labels, so the pod itself does not count."""
    nodes = [a_node("x").zone("1"), a_node("y").zone("2").unschedulable()]
    there = a_pod("there").labels(app="web").on("x")
    objects = [*(o.obj() for o in (*nodes, there)), replica_set("rs", WEB)]
    cluster = stowplan.Cluster(objects, config=LISTED, reuse=reuse)
    pods = [a_pod(name).labels(app=app).owner("ReplicaSet", "rs") for name, app in (("p", "db"), ("q", "web"))]
    assert placed(cluster, *pods) == ["x", ""]


@pytest.mark.parametrize("reuse", [True, False])
def test_anti_affinity_of_a_nominated_pod_against_one_of_them(reuse):
    """No placed pod has that term, so it does not distinguish the two pods."""
    objects = (
        a_node("x"),
        a_node("y").unschedulable(),
        a_pod("there").avoids_pods(HOST, WEB).on("y"),
        a_pod("nominated").priority(5).avoids_pods(HOST, FIRST).nominated_to("x"),
    )
    cluster = stowplan.Cluster([o.obj() for o in objects], reuse=reuse)
    pods = [a_pod("p").labels(app="web"), a_pod("q").labels(app="web", tier="1"), a_pod("r").labels(app="web")]
    assert placed(cluster, *pods) == ["x", "", "x"]
