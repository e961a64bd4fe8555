"""Pods of groups are scheduled together: a gang completely or not at all, on one state of the cluster."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.config.features import with_chosen
from stowplan.kube.klog.logger import configure
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.framework.interface import PermitPlugin, ReservePlugin
from stowplan.scheduler.framework.requests import Patch
from stowplan.scheduler.framework.status import error, unschedulable
from stowplan.testing import a_pod
from stowplan.testing.live import live_cluster
from support.examples import times
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.engines import DrivenEngine
from support.scheduling.groups import a_group, check_exact_undo, condition, member, node, nodes_of
from support.scheduling.worlds import struct

GATES = {"GenericWorkload": True, "GangScheduling": True}
PLACED = {**GATES, "TopologyAwareWorkloadScheduling": True}

HELD_BACK = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def gang_of(count, **options):
    return live_cluster(
        node("n1"), node("n2"), a_group(gang=count), feature_gates=GATES, emulated_version="1.36", **options
    )


class TestGangs:
    def test_no_pod_is_tried_before_the_gang_is_complete(self):
        with gang_of(3) as cluster:
            cluster.create(member("a"), member("b"))
            assert nodes_of(cluster, "a", "b") == ["", ""]
            assert cluster.engine.queue.get("default/a").gating_plugin == "GangScheduling"
            cluster.create(member("c"))
            assert all(nodes_of(cluster, "a", "b", "c"))
            assert condition(cluster) == [("True", "Scheduled", "")]
            cluster.engine.validate()

    def test_the_group_may_come_last(self):
        with live_cluster(node("n1"), feature_gates=GATES, emulated_version="1.36") as cluster:
            cluster.create(member("a"), member("b"))
            assert nodes_of(cluster, "a", "b") == ["", ""]
            cluster.create(a_group(gang=2))
            assert nodes_of(cluster, "a", "b") == ["n1", "n1"]

    def test_all_or_nothing(self):
        with gang_of(3) as cluster:
            cluster.create(a_pod("x").requests(cpu="2").obj())
            cluster.create(member("a"), member("b"), member("c"))
            assert nodes_of(cluster, "a", "b", "c") == ["", "", ""]
            words = sorted(cluster.why_pending(name) for name in "abc")
            assert words[0].startswith("0/2 nodes are available: 2 Insufficient cpu.")
            assert words[1:] == [HELD_BACK] * 2
            assert condition(cluster) == [("False", "Unschedulable", "pod group is unschedulable")]
            cluster.engine.validate()
            cluster.delete("pods", "x")
            cluster.advance(30)
            assert all(nodes_of(cluster, "a", "b", "c"))
            assert condition(cluster) == [("True", "Scheduled", "")]

    def test_the_log_of_one_that_does_not_fit(self):
        lines = []
        configure(sink=SimpleNamespace(write=lines.append), verbosity=2)
        try:
            with gang_of(3) as cluster:
                cluster.create(member("a"), member("b"), member("c", cpu="3"))
        finally:
            configure()
        told = {line.message: line for line in lines if "Unable" in line.message}
        assert {message: list(line.keys) for message, line in told.items()} == {
            "Unable to schedule pod belonging to a pod group; waiting": ["podGroup", "pod", "err"],
            "Unable to schedule pod; no fit; waiting": ["podGroup", "pod", "err"],
            "Unable to schedule a pod group": ["podGroup", "unschedulablePods"],
        }
        assert {(line.severity, line.level) for line in told.values()} == {("I", 2)}

    def test_later_members_need_no_quorum(self):
        with gang_of(2) as cluster:
            cluster.create(member("a"), member("b"))
            cluster.create(member("c"))
            assert cluster.node_of("c")
            cluster.create(member("d", cpu="2"))
            assert cluster.node_of("d") == ""
            # The group was scheduled, and stays scheduled.
            assert condition(cluster) == [("True", "Scheduled", "")]

    def test_members_are_tried_by_priority(self):
        with gang_of(2) as cluster:
            cluster.create(member("low"), member("high", cpu="2", priority=10))
            assert set(nodes_of(cluster, "low", "high")) == {"n1", "n2"}

    def test_a_pod_that_is_not_tried_with_the_others(self):
        """Another member is terminating, or has a scheduling gate."""
        with gang_of(2) as cluster:
            cluster.create(member("a"), member("b", schedulingGates=[{"name": "x"}]))
            assert cluster.node_of("a") == ""
            assert cluster.why_pending("a") == HELD_BACK


class TestBasicGroups:
    def test_members_are_placed_independently(self):
        with live_cluster(node("n1"), node("n2"), a_group(), feature_gates=GATES, emulated_version="1.36") as cluster:
            cluster.create(*(member(f"p{i}") for i in range(5)))
            assert sum(bool(cluster.node_of(f"p{i}")) for i in range(5)) == 4
            assert condition(cluster) == [("True", "Scheduled", "")]


def test_a_gang_waits_until_its_victims_are_gone():
    with gang_of(2) as cluster:
        cluster.create(*(a_pod(f"low{i}").requests(cpu="1").spec(priority=1).obj() for i in range(4)))
        cluster.create(member("a", priority=10), member("b", priority=10))
        waiting = "pod group is unschedulable, pod group is waiting for preemption to complete"
        assert condition(cluster) == [("False", "Unschedulable", waiting)]
        cluster.advance(30)
        assert all(nodes_of(cluster, "a", "b"))
        assert condition(cluster) == [("True", "Scheduled", "")]
        assert len(cluster.events(reason="Preempted")) == 2
        cluster.engine.validate()


class TestFailures:
    def with_plugin(self, plugin, *objects, gates=GATES):
        config = configuration({"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}})
        return live_cluster(*objects, config=config, plugins=[plugin], feature_gates=gates, emulated_version="1.36")

    def test_an_error_of_one_member_is_reported_for_all(self):
        class Breaks(ReservePlugin):
            name = "Breaks"

            def reserve(self, state, pod, node_name):
                return error("no more") if pod.pod.metadata.name == "b" else None

            def unreserve(self, state, pod, node_name):
                given_back.append(pod.pod.metadata.name)

        given_back = []
        with self.with_plugin(Breaks, node("n1", 8), a_group(gang=3)) as cluster:
            cluster.create(member("a"), member("b"), member("c"))
            own = cluster.why_pending("b")
            assert own.endswith("no more")
            told = f"failed to schedule other pod from a pod group: {own}"
            assert [cluster.why_pending("a"), cluster.why_pending("c")] == [told, told]
            assert condition(cluster) == [("False", "SchedulerError", told)]
            # Every reservation of the trial was undone.
            assert sorted(set(given_back)) == ["a", "b", "c"]
            assert cluster.engine.state.sizes()["assumed_pods"] == 0

    def test_several_schedulers(self):
        config = configuration({"schedulerName": "default-scheduler"}, {"schedulerName": "other"})
        with live_cluster(
            node("n1"), a_group(gang=2), config=config, feature_gates=GATES, emulated_version="1.36"
        ) as cluster:
            cluster.create(member("a"), member("b", schedulerName="other"))
            text = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
            assert cluster.why_pending("a").startswith(text)
            assert cluster.why_pending("b").startswith(text)
            assert condition(cluster) == []

    def test_a_permit_plugin_that_refuses_one(self):
        class Picky(PermitPlugin):
            name = "Picky"

            def permit(self, state, pod, node_name):
                return (unschedulable("not you") if pod.pod.metadata.name == "b" else None), 0.0

        with self.with_plugin(Picky, node("n1", 8), a_group(gang=2)) as cluster:
            cluster.create(member("a"), member("b"))
            assert cluster.why_pending("b") == "0/1 nodes are available: 1 not you."
            assert cluster.why_pending("a") == HELD_BACK

    def test_a_group_that_backs_off_is_activated_as_a_whole(self):
        """No event, timeout or idle flush wakes it here."""

        class RefusesOnce(PermitPlugin):
            name = "RefusesOnce"

            def permit(self, state, pod, node_name):
                asked.append(pod.pod.metadata.name)
                return (unschedulable("not yet") if len(asked) == 1 else None), 0.0

        asked = []
        gates = {**GATES, "SchedulerPopFromBackoffQ": False}
        with self.with_plugin(RefusesOnce, node("n1", 8), a_group(gang=2), gates=gates) as cluster:
            cluster.create(member("a"), member("b"))
            assert nodes_of(cluster, "a", "b") == ["", ""]
            cluster.engine.plugins.activate_group("default/other")
            cluster.advance(0)
            assert nodes_of(cluster, "a", "b") == ["", ""]
            cluster.engine.plugins.activate_group("default/g")
            cluster.advance(0)
            assert nodes_of(cluster, "a", "b") == ["n1", "n1"]
            cluster.engine.validate()


class TestPlacements:
    def rack(self, *sizes, gates=PLACED):
        nodes = [node(f"n{i}", cpu, rack=rack) for i, (rack, cpu) in enumerate(sizes)]
        return live_cluster(*nodes, a_group(gang=2, topology="rack"), feature_gates=gates, emulated_version="1.36")

    def test_a_gang_stays_in_one_domain(self):
        with self.rack(("r1", 1), ("r2", 1), ("r2", 1)) as cluster:
            cluster.create(member("a"), member("b"))
            assert sorted(nodes_of(cluster, "a", "b")) == ["n1", "n2"]

    def test_no_domain_is_large_enough(self):
        with self.rack(("r1", 1), ("r2", 1)) as cluster:
            cluster.create(member("a"), member("b"))
            assert nodes_of(cluster, "a", "b") == ["", ""]
            text = "0/2 placements are available, first placement status: pod group is unschedulable"
            assert condition(cluster) == [("False", "Unschedulable", text)]
            words = sorted(cluster.why_pending(name) for name in "ab")
            assert words[0].startswith("0/1 nodes are available: 1 Insufficient cpu.")
            assert words[1] == HELD_BACK

    def test_the_domain_that_takes_more_pods(self):
        with self.rack(("r1", 2), ("r2", 2), ("r2", 2)) as cluster:
            cluster.create(a_pod("filler").requests(cpu="1").spec(nodeName="n0").obj())
            cluster.delete("pods", "filler")
            cluster.create(*(member(name, schedulingGates=[{"name": "x"}]) for name in "abcd"))
            for name in "abcd":
                cluster.patch("pods", name, {"spec": {"schedulingGates": None}})
            placed = {node for node in nodes_of(cluster, *"abcd") if node}
            assert placed
            assert placed <= {"n1", "n2"} or placed <= {"n0"}

    def test_later_members_go_to_the_domain_of_the_others(self):
        with self.rack(("r1", 2), ("r2", 9)) as cluster:
            cluster.create(member("a", nodeSelector={"rack": "r1"}), member("b", nodeSelector={"rack": "r1"}))
            assert nodes_of(cluster, "a", "b") == ["n0", "n0"]
            cluster.create(member("c"))
            assert cluster.node_of("c") == ""
            assert "0/1 nodes are available" in cluster.why_pending("c")

    def test_pods_of_bound_groups_do_not_preempt(self):
        with self.rack(("r1", 1), ("r2", 1)) as cluster:
            cluster.create(*(a_pod(f"low{i}").requests(cpu="1").obj() for i in range(2)))
            cluster.create(member("a", priority=9), member("b", priority=9))
            text = "preemption: not eligible due to placement-based pod group scheduling limitation"
            assert cluster.why_pending("a").endswith(text)


class Refuses(ReservePlugin):
    """Refuses one pod, but not in the group's trial."""

    name = "Refuses"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.calls = 0

    def reserve(self, state, pod, node_name):
        if pod.name != "c":
            return None
        self.calls += 1
        return unschedulable("no") if self.calls == 2 else None

    def unreserve(self, state, pod, node_name):
        pass


class Writing(DrivenEngine):
    def __init__(self, *objects, **options):
        self.nominations = []
        super().__init__(*objects, **options)

    def _carry_out(self, number, action):
        if isinstance(action, Patch) and "nominatedNodeName" in action.body.get("status", {}):
            self.nominations.append(action.name)
        super()._carry_out(number, action)


@pytest.mark.parametrize(("plugins", "waits"), [((), []), ((Refuses,), ["a", "b"])])
def test_only_members_that_wait_beyond_the_cycle_are_nominated(plugins, waits):
    config = configuration(profile(reserve=plugins)) if plugins else None
    features = with_chosen(GATES, V1_36)
    engine = Writing(node("n1"), node("n2"), struct(a_group(gang=3)), config=config, plugins=plugins, features=features)
    engine.create(*(member(name) for name in "abc"))
    assert engine.nominations == waits
    assert sorted(engine.bound) == ["a", "b", "c"]


def test_without_the_gates_groups_are_ignored():
    with live_cluster(node("n1")) as cluster:
        cluster.create(member("a"))
        assert cluster.node_of("a") == "n1"


@settings(max_examples=times(25), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    gangs=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 2)), min_size=1, max_size=3),
    order=st.randoms(use_true_random=False),
    bound_to_rack=st.booleans(),
)
def test_a_gang_is_never_placed_in_part(sizes, gangs, order, bound_to_rack):
    """(minCount, pods, cpu of each): at every rest a gang has either no node or enough of them; no node is
    overcommitted."""
    nodes = [node(f"n{i}", cpu, rack=f"r{i % 2}") for i, cpu in enumerate(sizes)]
    groups = [
        a_group(f"g{g}", gang=least, topology="rack" if bound_to_rack else None)
        for g, (least, _, _) in enumerate(gangs)
    ]
    pods = [
        (g, member(f"g{g}-{i}", f"g{g}", str(cpu))) for g, (_, count, cpu) in enumerate(gangs) for i in range(count)
    ]
    order.shuffle(pods)
    with check_exact_undo(), live_cluster(*nodes, *groups, feature_gates=PLACED, emulated_version="1.36") as cluster:
        for _, pod in pods:
            cluster.create(pod)
            cluster.engine.validate()
            places = {p["metadata"]["name"]: "" for _, p in pods}
            for g, (least, count, _) in enumerate(gangs):
                names = [f"g{g}-{i}" for i in range(count)]
                there = [name for name in names if ("default", name) in known(cluster)]
                hosts = [host for name in there if (host := cluster.node_of(name))]
                places.update(dict(zip(there, (cluster.node_of(name) for name in there), strict=True)))
                assert not hosts or len(hosts) >= least
                if bound_to_rack:
                    assert len({int(host[1:]) % 2 for host in hosts}) <= 1
            for i, cpu in enumerate(sizes):
                used = sum(gangs[int(name[1 : name.index("-")])][2] for name, at in places.items() if at == f"n{i}")
                assert used <= cpu


def known(cluster):
    state = cluster.engine.state
    every = [*state.pending.values(), *state.placed_pods()]
    return {(info.namespace, info.pod.metadata.name) for info in every}
