"""Pods that would not return after the loss of nodes or zones."""

import pytest

from stowplan import Cluster, ClusterError
from stowplan.ask.what_if import survive
from support.what_if.objects import ZONE, node, owned, pod


def test_zones_if_there_are_several():
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", "2", zone="y")]
    pods = [owned(pod(f"web-{i}", nodeName=name)) for i, name in enumerate("aabc")]
    cluster = Cluster([*nodes, *pods])
    before = cluster.state.version
    found = survive(cluster)
    assert cluster.state.version == before
    assert found.by == ZONE
    worst, other = found.losses
    # One of three fits beside the existing one.
    assert (worst.lost, worst.nodes, worst.pods, worst.moved, len(worst.stranded)) == ("x", 2, 3, 1, 2)
    assert (other.lost, other.moved, other.stranded) == ("y", 1, ())


def test_nodes_if_there_is_one_zone():
    cluster = Cluster([node("a"), node("b"), pod("bare", nodeName="b"), owned(pod("web-0", nodeName="a"))])
    found = survive(cluster)
    assert found.by == "node"
    assert [(loss.lost, loss.moved, loss.gone) for loss in found.losses] == [
        ("b", 0, ("default/bare",)),
        ("a", 1, ()),
    ]


def test_pods_of_daemon_sets_are_lost_with_their_node():
    (loss,) = survive(Cluster([node("a"), owned(pod("d", nodeName="a"), "DaemonSet", "d")])).losses
    assert (loss.pods, loss.stranded, loss.gone) == (0, (), ())


def test_one_loss_only():
    cluster = Cluster([node("a"), node("b")])
    assert [loss.lost for loss in survive(cluster, "node", only="b").losses] == ["b"]


def test_nodes_without_the_label_are_reported():
    cluster = Cluster([node("a", zone="x"), node("b")])
    assert survive(cluster, ZONE).notes == (f"not tried: the loss of 1 node without the label {ZONE}",)


def test_invalid_arguments():
    with pytest.raises(ClusterError, match='no node has the label "rack"'):
        survive(Cluster([node("a")]), "rack")
    with pytest.raises(ClusterError, match='node "x" not found'):
        survive(Cluster([node("a")]), only="x")


def test_progress():
    told = []
    survive(Cluster([node("a"), node("b")]), progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
