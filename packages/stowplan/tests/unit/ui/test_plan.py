"""The plan of a cluster: what the page gets, and what it never gets."""

from stowplan.ask.offline import Cluster
from stowplan.ui.event_stream import Broadcaster
from stowplan.ui.plan import plan_of
from support.page.client import Client
from support.what_if.objects import ZONE, node, owned, pod


def plan(*objects):
    return plan_of(Cluster(objects).state)


def test_a_node():
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    row = plan(node("a", zone="x", taints=[taint], unschedulable=True)).nodes["a"]
    assert dict(row.labels)[ZONE] == "x"
    assert row.taints == (("gpu", "yes", "NoSchedule"),)
    assert row.unschedulable
    assert dict(row.allocatable) == {"cpu": 4000, "memory": 8 << 30, "pods": 10}


def test_a_pod_on_a_node():
    row = plan(node("a"), owned(pod("web-0", nodeName="a", priority=7))).pods["default/web-0"]
    assert (row.node, row.workload, row.priority) == ("a", "ReplicaSet/web-abc", 7)
    assert dict(row.requests) == {"cpu": 1000}


def test_a_pending_pod():
    row = plan(node("a"), pod("waiting")).pods["default/waiting"]
    assert (row.node, row.nominated_node, row.workload) == ("", "", "")


def test_an_assumed_pod_is_on_its_node_although_a_new_version_of_it_is_pending():
    cluster = Cluster([node("a"), pod("web-0")])
    state = cluster.state
    info = state.pending.get("default/web-0")
    state.assume(info, "a")
    state.pending.put(state.pod_info(info.pod))
    assert plan_of(state).pods["default/web-0"].node == "a"


def test_a_pod_on_a_missing_node():
    found = plan(pod("web-0", nodeName="gone"))
    assert (found.nodes, found.pods["default/web-0"].node) == ({}, "gone")


def test_a_removed_node_has_no_row():
    cluster = Cluster([node("a"), node("b")])
    cluster.remove(node("a"))
    assert list(plan_of(cluster.state).nodes) == ["b"]


def test_secrets_are_not_sent():
    """Neither environment, arguments, annotations nor volumes of a pod; nor annotations of a node."""
    bay, secretive = node("a"), pod("web-0", nodeName="a")
    bay["metadata"]["annotations"] = {"note": "hush-1"}
    secretive["metadata"]["annotations"] = {"note": "hush-2"}
    secretive["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": "hush-3"}],
        "args": ["--password=hush-4"],
        "image": "hush-5",
    }
    secretive["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "hush-6"}}]
    sent = Broadcaster(plan(bay, secretive)).snapshot()[0]()
    assert b"web-0" in sent
    assert b"hush" not in sent


def test_hostile_names_are_unchanged_and_break_no_frame():
    """The client displays them as text; in the stream they must not start a line."""
    hostile = "</script><img src=x onerror=alert(1)>\n\ndata: {}\r\n\u2028"
    bay, stowaway = node("a"), owned(pod("web-0", nodeName="a"), name=hostile)
    for one in (bay, stowaway):
        one["metadata"]["labels"] = {"l": hostile}
    bay["spec"]["taints"] = [{"key": "k", "value": hostile, "effect": "NoSchedule"}]
    stowaway["status"] = {"nominatedNodeName": hostile}
    client = Client()
    client.read(Broadcaster(plan(bay, stowaway)).snapshot()[0]())
    assert client.nodes["a"]["labels"] == client.pods["default/web-0"]["labels"] == {"l": hostile}
    assert client.nodes["a"]["taints"] == [["k", hostile, "NoSchedule"]]
    assert client.pods["default/web-0"]["workload"] == f"ReplicaSet/{hostile}"
    assert client.pods["default/web-0"]["nominatedNode"] == hostile
