import pytest

from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.nodes.node_lifecycle import NodeLifecycleController
from support.live.living_cluster import Living, condition, node, taints

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
STOPPED = {"stowplan.io/kubelet": "stopped"}


@pytest.fixture
def cluster():
    return Living(Kubelet, NodeLifecycleController)


def stop(cluster, name="node-1"):
    cluster.change("Node", name, lambda obj: obj["metadata"].update(annotations=STOPPED))
    cluster.settle()


def resume(cluster, name="node-1"):
    cluster.change("Node", name, lambda obj: obj["metadata"].update(annotations={}))
    cluster.settle()


def set_condition(type_, status):
    def change(obj):
        obj["status"]["conditions"] = [one for one in obj["status"]["conditions"] if one["type"] != type_]
        obj["status"]["conditions"].append({"type": type_, "status": status})

    return change


def test_a_new_node_loses_its_initial_taint(cluster):
    created = cluster.create(node())
    assert taints(created) == {(NOT_READY, "NoSchedule")}
    cluster.settle()
    assert taints(cluster.get("Node", "node-1")) == set()


@pytest.mark.parametrize(
    ("type_", "status", "expected"),
    [
        ("Ready", "False", {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}),
        ("MemoryPressure", "True", {("node.kubernetes.io/memory-pressure", "NoSchedule")}),
        ("DiskPressure", "True", {("node.kubernetes.io/disk-pressure", "NoSchedule")}),
        ("PIDPressure", "True", {("node.kubernetes.io/pid-pressure", "NoSchedule")}),
        ("NetworkUnavailable", "True", {("node.kubernetes.io/network-unavailable", "NoSchedule")}),
        ("NetworkUnavailable", "False", set()),
        ("example.com/Odd", "True", set()),
    ],
)
def test_taints_follow_conditions(cluster, type_, status, expected):
    cluster.create(node(taints=[{"key": "example.com/mine", "effect": "NoExecute"}]))
    cluster.settle()
    mine = {("example.com/mine", "NoExecute")}
    cluster.change("Node", "node-1", set_condition(type_, status), subresource="status")
    cluster.settle()
    found = cluster.get("Node", "node-1")
    assert taints(found) == mine | expected
    assert all("timeAdded" in taint for taint in found["spec"]["taints"] if taint["key"] != "example.com/mine")
    well = "True" if type_ == "Ready" else "False"
    cluster.change("Node", "node-1", set_condition(type_, well), subresource="status")
    cluster.settle()
    assert taints(cluster.get("Node", "node-1")) == mine


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(cluster):
    cluster.create(node())
    cluster.change("Node", "node-1", lambda obj: obj["spec"].update(unschedulable=True))
    cluster.settle()
    assert taints(cluster.get("Node", "node-1")) == {("node.kubernetes.io/unschedulable", "NoSchedule")}
    cluster.change("Node", "node-1", lambda obj: obj["spec"].pop("unschedulable"))
    cluster.settle()
    assert taints(cluster.get("Node", "node-1")) == set()


def test_a_node_without_heartbeat_is_unknown_after_fifty_seconds_and_recovers(cluster):
    cluster.create(node())
    cluster.run()
    cluster.advance(10)
    stop(cluster)
    # The last renewal may be ten seconds old.
    cluster.advance(39)
    assert condition(cluster.get("Node", "node-1"), "Ready")[0] == "True"
    cluster.advance(11)
    found = cluster.get("Node", "node-1")
    for type_ in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        assert condition(found, type_) == ("Unknown", "NodeStatusUnknown")
    assert taints(found) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert condition(cluster.pod("web"), "Ready")[0] == "False"
    assert ("Normal", "NodeNotReady", "Node node-1 status is now: NodeNotReady") in cluster.events("node-1")
    assert ("Warning", "NodeNotReady", "Node is not ready") in cluster.events("web")
    resume(cluster)
    found = cluster.get("Node", "node-1")
    assert condition(found, "Ready") == ("True", "KubeletReady")
    assert taints(found) == set()
    assert condition(cluster.pod("web"), "Ready")[0] == "True"


def test_a_node_is_unknown_exactly_fifty_seconds_after_its_last_heartbeat():
    cluster = Living(NodeLifecycleController)
    cluster.create(node(ready="True"))
    cluster.advance(49)
    assert condition(cluster.get("Node", "node-1"), "Ready")[0] == "True"

    def beat(obj):
        obj["status"]["conditions"][0]["lastHeartbeatTime"] = "2023-11-14T22:14:09Z"

    cluster.change("Node", "node-1", beat, subresource="status")
    cluster.advance(49)
    assert condition(cluster.get("Node", "node-1"), "Ready")[0] == "True"
    cluster.advance(1)
    assert condition(cluster.get("Node", "node-1"), "Ready")[0] == "Unknown"


def test_a_new_node_without_heartbeat_is_unknown_after_a_minute(cluster):
    cluster.create(node(annotations=STOPPED))
    cluster.advance(59)
    assert condition(cluster.get("Node", "node-1"), "Ready") is None
    cluster.advance(1)
    assert condition(cluster.get("Node", "node-1"), "Ready") == ("Unknown", "NodeStatusNeverUpdated")


def test_a_heartbeat_is_only_a_lease_renewal(cluster):
    for number in range(10):
        cluster.create(node(f"node-{number}"))
    cluster.advance(60)
    before = cluster.store.version
    cluster.advance(200)
    assert cluster.store.version == before + 10 * 20
    assert all(condition(one, "Ready")[0] == "True" for one in cluster.all("Node"))


def test_pods_of_an_unready_node_are_unready(cluster):
    cluster.create(node())
    cluster.run()
    cluster.change("Node", "node-1", set_condition("Ready", "False"), subresource="status")
    cluster.settle()
    assert condition(cluster.pod("web"), "Ready")[0] == "False"
    cluster.change("Node", "node-1", set_condition("Ready", "True"), subresource="status")
    cluster.settle()
    assert condition(cluster.pod("web"), "Ready")[0] == "True"


def test_a_recreated_node_starts_from_scratch():
    cluster = Living(NodeLifecycleController)
    cluster.create(node(ready="True"))
    cluster.advance(40)
    cluster.delete("Node", "node-1")
    cluster.create(node(ready="True"))
    cluster.advance(40)
    assert condition(cluster.get("Node", "node-1"), "Ready")[0] == "True"
