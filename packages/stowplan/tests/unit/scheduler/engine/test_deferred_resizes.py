"""Pods whose resize is deferred: they evict others from their node, and their kubelet resizes them."""

from functools import partial
from random import Random

import pytest

from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster
from support.scheduling.engine_by_hand import Meter

GATE = "InPlacePodVerticalScalingSchedulerPreemption"
FITS = "DeferredPodScheduling"
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}

cluster_of = partial(live_cluster, emulated_version="1.37", feature_gates={GATE: True})


def node(name="n1", cpu="4", **spec):
    return a_node(name).allocatable(cpu=cpu, memory="8Gi", pods="110").spec(**spec).obj()


def pod(name, cpu="1", priority=0, on="n1", **spec):
    return a_pod(name).requests(cpu=cpu).on(on).spec(priority=priority, **spec).obj()


def grow(cluster, cpu, name="p", reason="Deferred"):
    """The pod is to have so many CPUs, and its kubelet says so."""
    container = cluster.get("pods", name)["spec"]["containers"][0]
    cluster.patch("pods", name, {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": cpu}}}]}})
    conditions = [DEFERRED | {"reason": reason}] if reason else []
    cluster.patch("pods", name, {"status": {"conditions": conditions}}, subresource="status")


def waits(cluster, name="p"):
    queued = cluster.engine.queue.get(f"default/{name}")
    return None if queued is None else (queued.place, queued.unschedulable_plugins)


def evicted(cluster):
    cluster.engine.validate()
    return [event["regarding"]["name"] for event in cluster.events(reason="Preempted")]


def test_less_important_pods_leave_its_node_until_it_fits():
    others = [pod("low", priority=1), pod("mid", priority=5), pod("high", priority=20), pod("elsewhere", on="n2")]
    with cluster_of(node(), node("n2"), *others, pod("p", priority=9)) as cluster:
        grow(cluster, "2")
        assert evicted(cluster) == ["low"]
        cluster.advance(30)
        assert waits(cluster) == (Place.UNSCHEDULABLE, {FITS})
        assert cluster.node_of("p") == "n1"
        assert not cluster.events(reason="FailedScheduling")
        assert [c["type"] for c in cluster.get("pods", "p")["status"]["conditions"]] == ["PodResizePending"]
        grow(cluster, "2", reason="")
        assert waits(cluster) is None
        cluster.engine.validate()


def test_what_may_not_or_cannot_help():
    disabled = {"podPreemptionPolicy": {"disableResizePreemption": ["me"]}}
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    low = [pod(f"low{i}", "3", on=f"n{i}") for i in (1, 2, 3)]
    with cluster_of(*nodes, node("n4", **disabled), *low, pod("low4", "3", on="n4")) as cluster:
        cluster.create(pod("equal"), pod("never", priority=9, on="n2", preemptionPolicy="Never"))
        cluster.create(pod("huge", priority=9, on="n3"), pod("forbidden", priority=9, on="n4"))
        for name, cpu in (("equal", "2"), ("never", "2"), ("huge", "5"), ("forbidden", "2")):
            grow(cluster, cpu, name)
        cluster.advance(60)
        assert not evicted(cluster)
        assert waits(cluster, "forbidden")[1] == {FITS}
        assert {next(iter(waits(cluster, name)[1])) for name in ("equal", "never", "huge")} == {"NodeResourcesFit"}
        cluster.patch("nodes", "n4", {"spec": {"podPreemptionPolicy": None}})
        cluster.advance(30)
        assert evicted(cluster) == ["low4"]


def test_room_that_others_leave_is_noticed():
    with cluster_of(node(), pod("same", "3", priority=9), pod("p", priority=9)) as cluster:
        grow(cluster, "2")
        assert waits(cluster)[1] == {"NodeResourcesFit"}
        cluster.delete("pods", "same")
        cluster.advance(30)
        assert waits(cluster)[1] == {FITS}
        cluster.delete("pods", "p")
        assert waits(cluster) is None
        cluster.engine.validate()


def test_a_budget_and_less_important_victims():
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    kept = a_pod("kept").labels(app="kept").requests(cpu="1").on("n1").spec(priority=1).obj()
    with cluster_of(node(cpu="3"), budget, kept, pod("free", priority=2), pod("p", priority=9)) as cluster:
        grow(cluster, "2")
        assert evicted(cluster) == ["free"]


def test_a_pod_waits_for_its_victims_and_evicts_no_others():
    slow = Latency(deletions=lambda pod: 30.0)
    with cluster_of(node(cpu="3"), pod("l1"), pod("l2"), pod("p", priority=9), latency=slow) as cluster:
        grow(cluster, "2")
        assert len(evicted(cluster)) == 1
        cluster.advance(20)
        assert len(evicted(cluster)) == 1
        cluster.advance(60)
        assert len(evicted(cluster)) == 1
        assert waits(cluster)[1] == {FITS}


@pytest.mark.parametrize("mode", ["single", "all"])
def test_pods_of_groups(mode):
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {mode: {}}, "priority": 0},
    }
    member = {"schedulingGroup": {"podGroupName": "g"}}
    gates = {GATE: True, "GenericWorkload": True}
    with cluster_of(node(cpu="3"), node("n2"), group, feature_gates=gates) as cluster:
        cluster.create(pod("m1", **member), pod("m2", on="n2", **member), pod("m3", priority=9, **member))
        cluster.create(pod("p", priority=9))
        grow(cluster, "2")
        assert sorted(evicted(cluster)) in ([["m1"], ["m3"]] if mode == "single" else [["m1", "m2", "m3"]])


def test_a_member_of_a_group_evicts_by_itself():
    member = {"schedulingGroup": {"podGroupName": "absent"}}
    gates = {GATE: True, "GenericWorkload": True}
    with cluster_of(node(cpu="2"), pod("low"), feature_gates=gates) as cluster:
        cluster.create(pod("p", priority=9, **member))
        grow(cluster, "2")
        assert evicted(cluster) == ["low"]


def test_the_queue_of_such_pods_is_restored():
    with cluster_of(node(), pod("same", "3", priority=9), pod("p", priority=9)) as cluster:
        grow(cluster, "2")
        live = cluster.engine
        config, registry = live.profiles.configuration, in_tree_registry()
        fresh = {"meter": Meter(), "random": Random(1), "features": live.features}
        other = Engine(config, registry=registry, now=live.context.outbox.now, **fresh)
        other.load(live.dump())
        other.validate()
        assert other.queue.get("default/p").unschedulable_plugins == {"NodeResourcesFit"}


def test_without_the_gate_nothing_happens():
    with live_cluster(node(), pod("low", "3"), pod("p", priority=9), emulated_version="1.37") as cluster:
        grow(cluster, "2")
        assert not evicted(cluster)
        assert waits(cluster) is None
