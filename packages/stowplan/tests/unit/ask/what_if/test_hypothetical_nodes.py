"""Pods of DaemonSets come and go with the nodes of a question."""

from stowplan import Cluster
from stowplan.ask.what_if import AddNodes, Label, NodeKind, Remove, Taint, fit, what_if
from stowplan.kube.api.daemon_pods import tied_to
from stowplan.kube.api.decode import decode_object, to_dict
from support.what_if.objects import node, owned, pod


def daemon(name, on, cpu="1", *, running=True, **spec):
    """A pod of DaemonSet d, tied to its node."""
    made = to_dict(tied_to(decode_object(owned(pod(name, cpu, **spec), "DaemonSet", "d")), on))
    if running:
        made["spec"]["nodeName"] = on
    return made


def test_one_that_its_node_has_no_room_for_is_on_a_new_node():
    waiting = daemon("d-1", "a", "3", running=False)
    cluster = Cluster([node("a"), pod("web-0", "2", nodeName="a"), pod("web-1", "3", nodeName="a"), waiting])
    found = fit(cluster, "default/web-0", replicas=1, kinds=[NodeKind("a")])
    assert found.nodes_to_add == ()
    assert found.notes == ("nodes like a would not help",)
    assert what_if(cluster, AddNodes(1, "a")).after.pending == ("default/d-1",)


def test_one_for_another_scheduler_waits_on_a_new_node():
    waiting = daemon("d-1", "a", running=False, schedulerName="other")
    cluster = Cluster([node("a"), pod("web", "3", nodeName="a"), waiting])
    assert fit(cluster, "default/web", replicas=1).nodes_to_add[0].count == 1
    assert what_if(cluster, AddNodes(1, "a")).after.pending == ("default/d-1", "default/d-1-on-a-like-1")


def test_one_that_waits_goes_with_its_node():
    waiting = daemon("d-1", "a", "9", running=False)
    cluster = Cluster([node("a"), node("b"), waiting])
    assert what_if(cluster, Remove("a")).after.pending == ()
    assert what_if(cluster, Taint("a", "k", effect="NoExecute")).after.pending == ()
    assert what_if(cluster, Taint("a", "k")).after.pending == ("default/d-1",)


def test_a_node_that_is_wanted_then_gets_one():
    tainted = node("b", taints=[{"key": "k", "effect": "NoSchedule"}])
    cluster = Cluster([node("a"), tainted, daemon("d-1", "a", "3"), pod("web", "2")])
    found = what_if(cluster, Remove("a"), Taint("b", "k", effect=""))
    assert found.after.pending == ()
    cluster.remove(pod("web", "2"))
    counted = what_if(cluster, Taint("b", "k", effect=""))
    assert (counted.before.pods, counted.after.pods) == (1, 2)
    crowded = Cluster([node("a"), tainted, daemon("d-1", "a", "3"), pod("web", "2", nodeName="b")])
    assert what_if(crowded, Taint("b", "k", effect="")).after.pending == ("default/d-1-on-b",)


def test_a_label_that_a_node_loses():
    labelled = node("a")
    labelled["metadata"]["labels"]["disk"] = "ssd"
    here = daemon("d-1", "a", "3", nodeSelector={"disk": "ssd"})
    cluster = Cluster([labelled, here, pod("web", "2")])
    assert what_if(cluster, Label("a", "disk", None)).placed == {"default/web": "a"}


def test_a_node_that_has_none_for_another_reason_gets_none():
    """Its template's own node affinity cannot be seen."""
    full = [pod(f"web-{name}", "4", nodeName=name) for name in "bc"]
    tainted = node("c", taints=[{"key": "k", "effect": "NoSchedule"}])
    cluster = Cluster([node("a"), node("b"), tainted, daemon("d-1", "a"), *full])
    assert what_if(cluster, Taint("c", "k", effect="")).after.pending == ()
