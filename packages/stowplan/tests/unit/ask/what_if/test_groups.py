"""What-if questions about pod groups: how many more fit completely, drains and changes with gangs."""

import pytest

import stowplan
from stowplan.ask.what_if import AddNodes, NodeKind, drain, fit, fit_group, what_if
from stowplan.testing import a_node, a_pod
from support.scheduling.groups import a_group

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
RACK = "example.com/rack"


def node(name, rack="a", cpu="4"):
    return a_node(name).allocatable(cpu=cpu, memory="8Gi", pods="110").labels(**{RACK: rack}).obj()


def members(count, cpu="2", **spec):
    made = [
        a_pod(f"t{i}").requests(cpu=cpu).spec(schedulingGroup={"podGroupName": "train"}, **spec) for i in range(count)
    ]
    return [pod.obj() for pod in made]


def cluster_of(*objects):
    return stowplan.Cluster([*objects], feature_gates=GATES, emulated_version="1.36")


def by_jobs(pods):
    """Pods of a controller."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [owner]
    return pods


class TestFit:
    def test_only_complete_groups_count(self):
        """Seven slots fit two gangs of three."""
        found = fit_group(
            cluster_of(*(node(f"n{i}") for i in range(3)), node("x", cpu="2"), *members(3), a_group("train", gang=3)),
            "train",
        )
        assert (found.fits, found.pods_each) == (2, 3)
        assert sum(found.per_node.values()) == 6
        assert "1 of 3 pods fit together, 2 more pods are needed" in found.limited_by

    def test_within_domains(self):
        """Three slots in each rack fit one gang of two each, though six slots are three gangs."""
        racks = [node(f"{rack}{i}", rack, cpu="2") for rack in "ab" for i in range(3)]
        found = fit_group(cluster_of(*racks, *members(2), a_group("train", gang=2, topology=RACK)), "default/train")
        assert found.fits == 2
        assert found.per_domain == {"a": 2, "b": 2}

    def test_nodes_to_add(self):
        cluster = cluster_of(node("n1"), *members(2), a_group("train", gang=2))
        found = fit_group(cluster, "train", replicas=4, kinds=[NodeKind("n1", price=2.0)])
        assert found.fits == 1
        (add,) = found.nodes_to_add
        assert (add.count, add.price) == (3, 6.0)
        assert cluster.pending() == ["default/t0", "default/t1"]

    def test_an_incomplete_gang(self):
        assert fit_group(cluster_of(node("n1"), *members(1), a_group("train", gang=2)), "train").pods_each == 2

    @pytest.mark.parametrize(
        ("objects", "gates", "message"),
        [
            pytest.param([], GATES, 'pod group "default/train" not found', id="no group"),
            pytest.param([a_group("train", gang=2)], GATES, "has no pods", id="no pods"),
            pytest.param([a_group("train", gang=2), *members(2)], None, "GenericWorkload is off", id="gates"),
        ],
    )
    def test_invalid_questions(self, objects, gates, message):
        with pytest.raises(stowplan.ClusterError, match=message):
            fit_group(stowplan.Cluster([node("n1"), *objects], feature_gates=gates, emulated_version="1.36"), "train")


def test_a_change_after_which_a_gang_fits():
    found = what_if(cluster_of(node("n1"), *members(3), a_group("train", gang=3)), AddNodes(1, "n1"))
    assert found.before.pending == ("default/t0", "default/t1", "default/t2")
    assert found.placed.keys() == {"default/t0", "default/t1", "default/t2"}


def test_a_drained_gang_moves_completely_or_not_at_all():
    pods = by_jobs(members(2, nodeName="n1"))
    room = drain(cluster_of(node("n1"), node("n2"), *pods, a_group("train", gang=2)), ["n1"])
    assert sorted(move.to for move in room.moves) == ["n2", "n2"]


def test_pods_of_a_gang_are_placed_together():
    cluster = cluster_of(node("n1"), *members(2), a_group("train", gang=2))
    assert [decision.node_name for decision in cluster.schedule(["t0"])] == [""]
    assert [decision.node_name for decision in cluster.schedule(["t1", "t0"])] == ["n1", "n1"]


def test_pods_after_which_a_gang_cannot_be_complete_have_its_reason():
    objects = [node("n1"), *members(6), a_group("train", gang=4)]
    decisions = stowplan.Cluster(objects, feature_gates={"GenericWorkload": True}, emulated_version="1.37").schedule()
    assert decisions[-1].message == "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining"


def test_copies_of_a_pod_of_a_gang_join_it_one_by_one():
    found = fit(cluster_of(node("n1"), *members(2), a_group("train", gang=2)), "t0")
    assert found.fits == 0
    assert found.notes == ("copies join pod group train one by one; podgroup/train counts whole groups",)
    placed = members(2)
    for pod in placed:
        pod["spec"]["nodeName"] = "n1"
    assert fit(cluster_of(node("n1"), node("n2"), *placed, a_group("train", gang=2)), "t0").per_node == {"n2": 2}
