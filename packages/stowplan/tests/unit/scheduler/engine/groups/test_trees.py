"""Trees of groups (CompositePodGroup): the queue, trials, placements, preemption, conditions."""

from functools import partial

import pytest

from stowplan.plugins import ReservePlugin
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_pod
from stowplan.testing.live import live_cluster
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_composite, a_group, check_exact_undo, member, node, nodes_of
from support.scheduling.groups import condition as condition_of

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
ALL = {"all": {}}
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"

cluster_of = partial(live_cluster, feature_gates=GATES, emulated_version="1.37")


def waits(cluster, name):
    return cluster.engine.queue.get(f"default/{name}").place


def pods(group, count, **options):
    return [member(f"{group}{i}", group, **options) for i in range(count)]


def low(name, cpu="1", priority=1):
    return a_pod(name).requests(cpu=cpu).spec(priority=priority).obj()


class TestQueue:
    def test_a_pod_waits_for_all_above_it(self):
        with cluster_of(node("n1", 9)) as cluster:
            cluster.create(member("a", "leaf"))
            assert waits(cluster, "a") is Place.INCOMPLETE
            cluster.create(a_group("leaf", gang=1, parent="mid"))
            assert waits(cluster, "a") is Place.INCOMPLETE
            cluster.create(a_composite("root"), a_composite("mid", parent="root"))
            assert cluster.node_of("a") == "n1"
            cluster.engine.validate()

    def test_a_cycle_of_groups_has_no_root(self):
        with cluster_of(node("n1", 9)) as cluster:
            cluster.create(a_composite("x", parent="y"), a_composite("y", parent="x"), a_group("leaf", parent="x"))
            cluster.create(member("a", "leaf"))
            assert waits(cluster, "a") is Place.INCOMPLETE

    def test_one_entry_for_a_tree_that_is_kept_out_until_enough_children_are_ready(self):
        with cluster_of(node("n1", 9)) as cluster:
            cluster.create(a_composite("root", gang=2), a_group("x", gang=2, parent="root"))
            cluster.create(a_group("y", gang=1, parent="root"), *pods("x", 1), *pods("y", 1))
            (entry,) = cluster.engine.queue._groups.entries()
            assert (entry.name, sorted(entry.members)) == (
                "compositepodgroup/default/root",
                ["default/x0", "default/y0"],
            )
            assert entry.gating_plugin == "GangScheduling"
            told = 'waiting for composite pod group "root" tree to meet quorum'
            assert cluster.engine.frameworks["default-scheduler"].run_pre_enqueue(entry.pod).message == told
            cluster.create(member("x1", "x"))
            assert nodes_of(cluster, "x0", "x1", "y0") == ["n1"] * 3
            cluster.engine.validate()

    def test_without_one_above_the_pods_wait_again(self):
        with cluster_of() as cluster:
            cluster.create(a_composite("root"), a_composite("mid", parent="root"), a_group("x", parent="mid"))
            cluster.create(a_group("y", parent="root"), member("a", "x"), member("b", "y"))
            cluster.delete("compositepodgroups.scheduling.k8s.io", "mid")
            assert waits(cluster, "a") is Place.INCOMPLETE
            assert waits(cluster, "b") is not Place.INCOMPLETE
            cluster.engine.validate()
            cluster.delete("compositepodgroups.scheduling.k8s.io", "root")
            assert waits(cluster, "b") is Place.INCOMPLETE
            cluster.engine.validate()

    def test_without_the_gate_parents_do_not_matter(self):
        gates = GATES | {"CompositePodGroup": False}
        with cluster_of(node("n1", 9), feature_gates=gates) as cluster:
            cluster.create(a_group("leaf", gang=1, parent="none"), member("a", "leaf"))
            assert cluster.node_of("a") == "n1"


class TestTrials:
    def test_all_children_or_none(self):
        with cluster_of(node("n1", 3)) as cluster:
            cluster.create(a_composite("root", gang=2), a_group("x", gang=2, parent="root"))
            cluster.create(a_group("y", gang=2, parent="root"), *pods("x", 2), *pods("y", 2))
            assert nodes_of(cluster, "x0", "x1", "y0", "y1") == [""] * 4
            why = "placement status: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
            for group, which in (("x", "first"), ("y", "reported")):
                # What would have succeeded has the status of the root.
                told = f"pod group is unschedulable, 0/1 placements are available, {which} {why}, {NO_VICTIMS}"
                assert condition_of(cluster, group) == [("False", "Unschedulable", told)]
            assert "Insufficient cpu" in cluster.why_pending("y1")
            cluster.engine.validate()
            cluster.create(node("n2", 1))
            cluster.advance(30)
            assert all(nodes_of(cluster, "x0", "x1", "y0", "y1"))
            assert {condition_of(cluster, group)[0][:2] for group in "xy"} == {("True", "Scheduled")}

    def test_enough_children(self):
        """The one in the middle does not fit; the others suffice."""
        with cluster_of(node("n1", 2)) as cluster:
            cluster.create(a_composite("root", gang=2))
            cluster.create(*(a_group(name, gang=1, parent="root") for name in "xyz"))
            cluster.create(*pods("x", 1), *pods("y", 1, cpu="5"), *pods("z", 1))
            cluster.advance(30)
            assert nodes_of(cluster, "x0", "y0", "z0") == ["n1", "", "n1"]
            assert [condition_of(cluster, group)[0][0] for group in "xyz"] == ["True", "False", "True"]
            cluster.engine.validate()

    def test_children_see_those_before_them(self):
        with check_exact_undo(), cluster_of(node("n1", 1), node("n2", 1)) as cluster:
            cluster.create(a_composite("root", gang=2), *(a_group(name, gang=1, parent="root") for name in "xy"))
            cluster.create(*pods("x", 1), *pods("y", 1))
            assert sorted(nodes_of(cluster, "x0", "y0")) == ["n1", "n2"]

    def test_new_pods_of_a_scheduled_tree(self):
        with cluster_of(node("n1", 3)) as cluster:
            cluster.create(a_composite("root", gang=1), a_group("x", gang=1, parent="root"), *pods("x", 1))
            cluster.create(a_group("y", gang=1, parent="root"), *pods("y", 1))
            assert nodes_of(cluster, "x0", "y0") == ["n1", "n1"]

    def test_priorities_must_be_the_roots(self):
        with cluster_of(node("n1", 3)) as cluster:
            cluster.create(a_composite("root", priority=5), a_group("x", gang=1, parent="root"), *pods("x", 1))
            told = (
                "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 5"
            )
            assert condition_of(cluster, "x") == [("False", "SchedulerError", told)]


class TestPlacements:
    @pytest.fixture
    def racks(self):
        return [
            node(f"{rack}{zone}{i}", 1, rack=f"{rack}{zone}", zone=zone) for zone in "ab" for rack in "rs" for i in "12"
        ]

    def test_a_zone_for_the_tree_and_racks_for_its_groups(self, racks):
        with cluster_of(*racks) as cluster:
            cluster.create(a_composite("root", gang=2, topology="zone"))
            cluster.create(*(a_group(name, gang=2, topology="rack", parent="root") for name in "xy"))
            cluster.create(*pods("x", 2), *pods("y", 2))
            found = nodes_of(cluster, "x0", "x1", "y0", "y1")
            assert all(found)
            assert len({name[1] for name in found}) == 1
            assert len({name[:2] for name in found[:2]}) == len({name[:2] for name in found[2:]}) == 1

    def test_no_zone_is_large_enough(self, racks):
        with cluster_of(*racks) as cluster:
            cluster.create(a_composite("root", gang=3, topology="zone"))
            cluster.create(*(a_group(name, gang=2, topology="rack", parent="root") for name in "xyz"))
            cluster.create(*(pod for name in "xyz" for pod in pods(name, 2)))
            assert not any(cluster.node_of(f"{name}0") for name in "xyz")
            assert "0/2 placements are available, first placement status: " in condition_of(cluster, "x")[0][2]
            cluster.engine.validate()


class TestPreemption:
    def test_a_tree_evicts(self):
        with cluster_of(node("n1", 1), node("n2", 1), low("l1"), low("l2")) as cluster:
            cluster.create(a_composite("root", gang=2, priority=9))
            cluster.create(*(a_group(name, gang=1, parent="root") for name in "xy"))
            cluster.create(*pods("x", 1, priority=9), *pods("y", 1, priority=9))
            assert sorted(event["regarding"]["name"] for event in cluster.events(reason="Preempted")) == ["l1", "l2"]
            cluster.advance(30)
            assert sorted(nodes_of(cluster, "x0", "y0")) == ["n1", "n2"]
            cluster.engine.validate()

    @pytest.mark.parametrize("mode", [ALL, {"single": {}}])
    def test_a_tree_is_evicted_as_a_whole_or_not(self, mode):
        with cluster_of(node("n1", 1), node("n2", 1)) as cluster:
            cluster.create(a_composite("root", gang=2, priority=1, mode=mode))
            cluster.create(*(a_group(name, gang=1, parent="root", mode={"single": {}}) for name in "xy"))
            cluster.create(*pods("x", 1, priority=1), *pods("y", 1, priority=1))
            assert all(nodes_of(cluster, "x0", "y0"))
            cluster.create(low("high", priority=9))
            assert cluster.node_of("high")
            gone = [event["regarding"]["name"] for event in cluster.events(reason="Preempted")]
            assert len(gone) == (2 if mode is ALL else 1)

    def test_victims_hear_of_what_kind_of_group_it_is(self):
        with cluster_of(node("n1", 1), low("l1")) as cluster:
            cluster.create(a_composite("root", priority=9), a_group("x", parent="root"), *pods("x", 1, priority=9))
            (event,) = cluster.events(reason="Preempted")
            assert event["note"] == "Preempted by compositepodgroup composite-root on node cluster"

    def test_a_pod_evicts_a_pod_group_rather_than_a_composite_group(self):
        with cluster_of(node("n1")) as cluster:
            cluster.create(a_composite("root", priority=1, mode=ALL), a_group("x", parent="root"))
            cluster.create(*pods("x", 1, priority=1), a_group("y", priority=1, mode=ALL), *pods("y", 1, priority=1))
            cluster.create(low("high", priority=9))
            (event,) = cluster.events(reason="Preempted")
            assert event["regarding"]["name"] == "y0"

    def test_without_its_root_a_pod_resists_with_the_priority_that_is_left(self):
        with cluster_of(node("n1", 1)) as cluster:
            cluster.create(a_composite("root", priority=5), a_composite("mid", priority=5, parent="root"))
            cluster.create(a_group("x", parent="mid", priority=5), *pods("x", 1, priority=5))
            cluster.delete("compositepodgroups.scheduling.k8s.io", "root")
            trees = cluster.engine.state.group_trees
            assert trees.root("default/x") == ""
            assert trees.priority("default/x") == 5
            cluster.create(low("high", priority=6))
            (event,) = cluster.events(reason="Preempted")
            assert event["regarding"]["name"] == "x0"


def test_what_a_plugin_reserved_for_siblings_is_undone():
    calls = []

    class Books(ReservePlugin):
        name = "Books"

        def reserve(self, state, pod, node_name):
            calls.append(("+", pod.key))

        def unreserve(self, state, pod, node_name):
            calls.append(("-", pod.key))

    config = configuration(
        {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Books"}]}}}
    )
    with check_exact_undo(), cluster_of(node("n1", 1), config=config, plugins=[Books]) as cluster:
        cluster.create(a_composite("root", gang=2), *(a_group(name, gang=1, parent="root") for name in "xy"))
        cluster.create(*pods("x", 1), *pods("y", 1))
        assert calls.count(("+", "default/x0")) == calls.count(("-", "default/x0")) > 0
