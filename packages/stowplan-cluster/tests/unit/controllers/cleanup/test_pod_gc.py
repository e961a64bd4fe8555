import pytest

from stowplan_cluster.controllers.cleanup.pod_gc import PodGCController
from support.live.living_cluster import Living, condition, node


@pytest.fixture
def cluster():
    cluster = Living(PodGCController)
    cluster.create(node())
    return cluster


def test_pods_of_a_deleted_node_are_deleted_after_a_delay(cluster):
    cluster.run()
    cluster.create(node("node-2"))
    cluster.run("other", node="node-2")
    cluster.delete("Node", "node-1")
    cluster.advance(39)
    assert cluster.phase("web") == "Pending"
    cluster.advance(1)
    assert cluster.names("Pod") == ["other"]


def test_they_are_marked_failed_first(cluster):
    cluster.run(finalizers=["example.com/keep"])
    cluster.delete("Node", "node-1")
    cluster.advance(40)
    web = cluster.pod("web")
    assert web["status"]["phase"] == "Failed"
    assert condition(web, "DisruptionTarget") == ("True", "DeletionByPodGC")
    assert "deletionTimestamp" in web["metadata"]


def test_a_node_recreated_in_time_keeps_its_pods(cluster):
    cluster.run()
    cluster.delete("Node", "node-1")
    cluster.advance(30)
    cluster.create(node())
    cluster.advance(100)
    assert cluster.phase("web") == "Pending"
    cluster.delete("Node", "node-1")
    cluster.advance(39)
    assert cluster.phase("web") == "Pending"
    cluster.advance(1)
    assert cluster.pod("web") is None


def test_pods_of_a_node_that_never_existed(cluster):
    cluster.run(node="nowhere")
    cluster.advance(39)
    assert cluster.phase("web") == "Pending"
    cluster.advance(1)
    assert cluster.pod("web") is None


def test_a_terminating_pod_without_a_node_fails(cluster):
    cluster.run(node="", finalizers=["example.com/keep"])
    cluster.delete("Pod", "web")
    cluster.settle()
    assert cluster.phase("web") == "Failed"
