"""`stowplan.Cluster`, the public Python API: what it takes in, what it answers, what it changes."""

import random

import pytest

import stowplan
from stowplan.testing import a_node, a_pod

CPU_4 = {"cpu": "4"}


@pytest.fixture
def cluster():
    return stowplan.Cluster([a_node("a").allocatable(**CPU_4).obj(), a_node("b").allocatable(cpu="2").obj()])


def nodes_of(decisions):
    return [decision.node_name for decision in decisions]


def test_explain_changes_nothing(cluster):
    pod = a_pod("big").requests(cpu="3").obj()
    first = cluster.explain(pod).to_dict()
    assert first["feasible"] == ["a"]
    assert cluster.explain(pod).to_dict() == first
    assert cluster.pending() == []


def test_schedule_places_in_order_and_applies_each_placement(cluster):
    decisions = cluster.schedule([a_pod(name).requests(cpu="2").obj() for name in ("p", "q", "r", "s")])
    assert sorted(nodes_of(decisions)[:3]) == ["a", "a", "b"]
    assert nodes_of(decisions)[3] == ""
    assert decisions[3].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_all_pending_pods_go_by_priority_then_by_name(cluster):
    for name, priority in (("z", 5), ("b", 1), ("a", 1)):
        cluster.add(a_pod(name).requests(cpu="1").priority(priority).obj())
    assert [decision.pod.key for decision in cluster.schedule()] == ["default/z", "default/b", "default/a"]
    assert cluster.pending() == []
    again = stowplan.Cluster([a_pod(name).obj() for name in ("b", "c", "a")])
    assert again.pending() == ["default/a", "default/b", "default/c"], (
        "an initial list is in the order of an API server"
    )


def test_a_placed_pod_is_judged_as_if_it_were_not(cluster):
    cluster.add(a_pod("big").requests(cpu="3").on("a").obj())
    verdict = cluster.explain("default/big")
    assert (verdict.current_node, verdict.node_name) == ("a", "a")
    assert cluster.explain(a_pod("other").requests(cpu="3").obj()).node_name == ""


def test_pods_without_a_namespace_are_in_default(cluster):
    cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": {"containers": []}})
    assert cluster.explain("bare").key == cluster.explain("default/bare").key == "default/bare"


def test_a_finished_pod_holds_nothing(cluster):
    cluster.add(a_pod("job").requests(cpu="4").on("a").obj())
    cluster.add(a_pod("job").requests(cpu="4").on("a").phase("Succeeded").obj())
    assert cluster.explain(a_pod("next").requests(cpu="4").obj()).node_name == "a"
    with pytest.raises(stowplan.ClusterError, match='pod "default/job" not found'):
        cluster.explain("job")


def test_a_pod_of_the_same_name_replaces_the_old_one(cluster):
    cluster.add(a_pod("web").uid("1").requests(cpu="4").on("a").obj())
    cluster.add(a_pod("web").uid("2").requests(cpu="1").obj())
    assert cluster.pending() == ["default/web"]
    assert cluster.explain(a_pod("next").requests(cpu="4").obj()).node_name == "a"


def test_removed_objects_are_gone(cluster):
    cluster.remove(a_node("a").obj())
    cluster.remove(a_node("never there").obj())
    assert cluster.explain(a_pod().requests(cpu="3").obj()).message == "0/1 nodes are available: 1 Insufficient cpu."


def test_what_is_not_read_is_ignored(cluster):
    cluster.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})
    assert cluster.explain(a_pod().obj()).feasible.sum() == 2


def test_a_wrong_object_names_itself_and_its_field_and_changes_nothing(cluster):
    with pytest.raises(stowplan.ClusterError, match=r'Pod "shop/web": spec.containers\[0\].resources.requests\[cpu\]'):
        cluster.add(a_pod("web", "shop").requests(cpu="1x").obj())
    assert cluster.pending() == []


def test_a_pod_of_another_scheduler_is_refused_by_name(cluster):
    with pytest.raises(stowplan.ClusterError, match='no profile for scheduler name "other"'):
        cluster.explain(a_pod().scheduler("other").obj())


def test_a_bad_configuration_reads_as_the_reference_does():
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": -1}
    with pytest.raises(
        stowplan.ConfigError, match="parallelism: Invalid value: -1: should be an integer value greater"
    ):
        stowplan.Cluster([], config=config)


def test_preemption_is_decided_and_keeps_the_room():
    cluster = stowplan.Cluster(
        [a_node("n").allocatable(cpu="1").obj(), a_pod("low").requests(cpu="1").priority(1).on("n").obj()]
    )
    (decision,) = cluster.schedule([a_pod("high").requests(cpu="1").priority(9).obj()])
    assert (decision.node_name, decision.nominated_node_name) == ("", "n")
    cluster.remove(a_pod("low").obj())
    middle = cluster.explain(a_pod("middle").requests(cpu="1").priority(5).obj())
    assert middle.node_name == "", "the room is promised to a more important pod"
    assert nodes_of(cluster.schedule([a_pod("high").requests(cpu="1").priority(9).obj()])) == ["n"]


def test_a_transaction_restores_everything(cluster):
    cluster.add(a_pod("big").requests(cpu="3").on("a").obj())
    asked = a_pod("other").requests(cpu="4").obj()
    before = cluster.explain(asked).to_dict()
    with cluster.transaction():
        cluster.state.remove_pod(cluster.pod("big").uid)
        assert cluster.explain(asked).node_name == "a"
    assert cluster.explain(asked).to_dict() == before
    assert cluster.pod("big").node_name == "a"


def test_chance_decides_between_equals_when_it_is_given():
    def chosen(seed):
        nodes = [a_node(f"n{i}").obj() for i in range(20)]
        return nodes_of(stowplan.Cluster(nodes, random=random.Random(seed)).schedule([a_pod().obj()]))

    assert chosen(1) == chosen(1)
    assert len({chosen(seed)[0] for seed in range(10)}) > 1
    assert nodes_of(stowplan.Cluster([a_node(f"n{i}").obj() for i in range(20)]).schedule([a_pod().obj()])) == ["n0"]
