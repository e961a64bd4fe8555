"""PodState prefers nodes that pods are leaving, and avoids those that pods are nominated to."""

import stowplan
from stowplan.testing import a_node, a_pod


def points(nodes, pod=None, *others, **args):
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "PodState"}], "disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": "PodState", "args": args}],
            }
        ],
    }
    cluster = stowplan.Cluster([*(node.obj() for node in nodes), *others], config=config)
    scores = cluster.explain(pod or a_pod("p").obj()).to_dict()["scores"]
    return {node: of_node.get("PodState", 0) for node, of_node in scores.items()}


NODES = [a_node(name) for name in ("a", "b", "c")]


def leaving(name, node):
    pod = a_pod(name).on(node).obj()
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return pod


def nominated(name, node):
    return a_pod(name).obj() | {"status": {"nominatedNodeName": node}}


def test_pods_that_leave_and_pods_that_come():
    others = [leaving("p0", "a"), a_pod("p1").on("b").obj(), nominated("p2", "c")]
    assert points(NODES, None, *others) == {"a": 100, "b": 50, "c": 0}


def test_without_either_all_nodes_are_equal():
    assert points(NODES) == {"a": 0, "b": 0, "c": 0}
