import pytest

from stowplan_cluster.controllers.nodes.node_lifecycle import TaintEvictionController
from support.live.living_cluster import Living, condition, node

TAINT = {"key": "example.com/gone", "value": "yes", "effect": "NoExecute"}


def tolerating(seconds=None, **rest):
    toleration = {"key": "example.com/gone", "operator": "Exists", "effect": "NoExecute", **rest}
    return [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]


def set_taints(*taints):
    return lambda obj: obj["spec"].update(taints=list(taints))


@pytest.fixture
def cluster():
    cluster = Living(TaintEvictionController)
    cluster.create(node(ready="True"))
    return cluster


def taint(cluster, *taints):
    cluster.change("Node", "node-1", set_taints(*taints))
    cluster.settle()


def is_marked(cluster, name="web"):
    """Whether the pod is being deleted and has the condition."""
    web = cluster.pod(name)
    reason = ("True", "DeletionByTaintManager")
    assert ("deletionTimestamp" in web["metadata"]) == (condition(web, "DisruptionTarget") == reason)
    return "deletionTimestamp" in web["metadata"]


def test_a_pod_without_toleration_is_evicted_at_once(cluster):
    cluster.run()
    taint(cluster, TAINT)
    assert is_marked(cluster)
    assert cluster.pod("web")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster.events("web") == [("Normal", "TaintManagerEviction", "Marking for deletion Pod default/web")]


def test_a_taint_removed_in_time_evicts_no_pod(cluster):
    cluster.run(tolerations=tolerating(60))
    taint(cluster, TAINT)
    cluster.advance(59)
    taint(cluster)
    cluster.advance(100)
    assert not is_marked(cluster)
    assert cluster.events("web") == [("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/web")]
    taint(cluster, TAINT)
    cluster.advance(59)
    assert not is_marked(cluster)
    cluster.advance(1)
    assert is_marked(cluster)


def test_changes_of_node_and_pod_do_not_restart_the_timer(cluster):
    cluster.run(tolerations=tolerating(60))
    taint(cluster, TAINT)
    cluster.advance(30)
    taint(cluster, TAINT, {"key": "soft", "effect": "NoSchedule"})
    cluster.change("Pod", "web", lambda obj: obj["metadata"].update(labels={"a": "b"}))
    cluster.advance(30)
    assert is_marked(cluster)


def test_a_pod_bound_to_a_tainted_node(cluster):
    taint(cluster, TAINT)
    cluster.run("safe", tolerations=tolerating())
    cluster.run()
    assert is_marked(cluster)
    assert not is_marked(cluster, "safe")


def test_a_recreated_pod_has_its_own_timer(cluster):
    cluster.run(tolerations=tolerating(60))
    taint(cluster, TAINT)
    cluster.advance(50)
    cluster.delete("Pod", "web", grace_period_seconds=0)
    cluster.run(tolerations=tolerating(60))
    cluster.advance(50)
    assert not is_marked(cluster)
