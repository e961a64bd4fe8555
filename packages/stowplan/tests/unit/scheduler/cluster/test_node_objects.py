"""Which rows an object named after a node, or the node itself, changed."""

from stowplan.kube.api.types import CSINode
from stowplan.scheduler.cluster.node_objects import NodeObjects
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node
from support.scheduling.worlds import struct


def a_cluster():
    state = ClusterState()
    for name in ("n0", "n1", "n2"):
        state.add_node(struct(a_node(name)))
    return state, NodeObjects(state, CSINode)


def csi_node(name, **labels):
    return struct(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name, "labels": labels},
            "spec": {"drivers": []},
        }
    )


def test_at_first_all_rows_with_a_node():
    _, objects = a_cluster()
    assert objects.changed_rows() == [0, 1, 2]
    assert objects.changed_rows() == []


def test_rows_of_changed_objects():
    state, objects = a_cluster()
    objects.changed_rows()
    state.put_object(csi_node("n1"))
    state.put_object(csi_node("stranger"))
    assert objects.changed_rows() == [1]
    state.remove_object(csi_node("n1"))
    assert objects.changed_rows() == [1]


def test_rows_of_changed_nodes():
    state, objects = a_cluster()
    objects.changed_rows()
    state.add_node(struct(a_node("n2").labels(a="b")))
    state.remove_node("n0")
    assert objects.changed_rows() == [0, 2]
    state.add_node(struct(a_node("n3")))
    assert objects.changed_rows() == [0]


def test_what_a_transaction_undid_has_changed_again():
    state, objects = a_cluster()
    state.put_object(csi_node("n1"))
    objects.changed_rows()
    with state.transaction():
        state.put_object(csi_node("n1", a="b"))
        assert objects.changed_rows() == [1]
    assert objects.changed_rows() == [1]
    assert objects.changed_rows() == []
