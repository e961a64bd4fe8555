"""Before and after changes; adding nodes compared with a cluster that has them."""

import pytest

from stowplan import Cluster, ClusterError
from stowplan.ask.what_if import AddNodes, Label, Put, Reconfigure, Remove, Scale, Taint, what_if
from stowplan.kube.api.decode import decode_object
from support.plugins.answering_plugins import configuration
from support.what_if.objects import node, owned, pod

PACKING = configuration(
    {
        "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
            }
        ],
    }
)


def test_a_removed_node():
    cluster = Cluster([node("a"), node("b", "1"), *(owned(pod(f"web-{i}", nodeName="a")) for i in range(2))])
    found = what_if(cluster, Remove("a"))
    assert sorted(found.displaced.values()) == ["", "b"]
    assert len(found.after.pending) == 1
    assert list(found.after.reasons.values()) == [1]


def test_pods_of_daemon_sets_are_not_listed():
    cluster = Cluster([node("a"), node("b"), owned(pod("d", nodeName="a"), "DaemonSet", "d")])
    assert what_if(cluster, Remove("a"), AddNodes(1, "b")).displaced == {}


def test_of_a_smaller_workload_pods_that_share_a_node_go_first():
    web = [owned(pod(f"web-{i}", nodeName=name)) for i, name in enumerate("baab")]
    waiting = [owned(pod("web-4", "9"))]
    cluster = Cluster([node("a"), node("b"), node("c", "1"), *web, owned(pod("web-5", nodeName="c")), *waiting])
    found = what_if(cluster, Scale("Deployment", "default", "web", 3))
    assert sorted(found.displaced) == ["default/web-2", "default/web-3"]
    assert found.after.pending == ()


def test_of_a_smaller_workload_pods_that_cost_less_go_first():
    cost = {"controller.kubernetes.io/pod-deletion-cost": "5"}
    web = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    for one in web[1:]:
        one["metadata"]["annotations"] = cost
    found = what_if(Cluster([node("a"), *web]), Scale("Deployment", "default", "web", 2))
    assert list(found.displaced) == ["default/web-0"]


def test_labels_and_taints():
    wants_ssd = pod("fast", nodeSelector={"disk": "ssd"})
    cluster = Cluster([node("a"), wants_ssd])
    assert what_if(cluster, Label("a", "disk", "ssd")).placed == {"default/fast": "a"}
    labelled = Cluster([node("a") | {"metadata": {"name": "a", "labels": {"disk": "ssd"}}}, wants_ssd])
    assert what_if(labelled, Label("a", "disk", None)).after.pending == ("default/fast",)
    assert what_if(labelled, Taint("a", "k")).after.pending == ("default/fast",)
    tainted = Cluster([node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), pod()])
    assert what_if(tainted, Taint("a", "k", effect="")).placed == {"default/web": "a"}


def test_a_no_execute_taint_evicts_pods():
    stays = owned(pod("stays", nodeName="a", tolerations=[{"key": "k", "operator": "Exists"}]))
    cluster = Cluster([node("a"), node("b"), stays, owned(pod("web-0", nodeName="a"))])
    assert what_if(cluster, Taint("a", "k", effect="NoExecute")).displaced == {"default/web-0": "b"}


def test_a_controller_is_scaled():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(2)]
    cluster = Cluster([node("a", "3"), *pods])
    more = what_if(cluster, Scale("Deployment", "default", "web", 5))
    assert (len(more.placed), len(more.after.pending)) == (1, 2)
    fewer = what_if(cluster, Scale("Deployment", "default", "web", 1))
    assert fewer.displaced == {"default/web-1": ""}
    with pytest.raises(ClusterError, match="it has no pod in this cluster"):
        what_if(cluster, Scale("StatefulSet", "default", "web", 1))


def test_displaced_pods_count_for_scaling():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(2)]
    cluster = Cluster([node("a"), node("b"), *pods])
    found = what_if(cluster, Remove("a"), Scale("Deployment", "default", "web", 3))
    assert (found.displaced, found.placed) == (
        {"default/web-0": "b", "default/web-1": "b"},
        {"default/web-added-2": "b"},
    )


def test_another_configuration():
    pods = [pod("web-0", nodeName="a"), pod("web-1")]
    found = what_if(Cluster([node("a"), node("b"), *pods]), Reconfigure(PACKING))
    assert found.elsewhere == {"default/web-1": ("b", "a")}
    assert (found.placed, found.displaced) == ({}, {})


def test_pods_of_other_schedulers_stay_pending():
    found = what_if(Cluster([node("a"), pod("theirs", schedulerName="other")]), AddNodes(1, "a"))
    assert found.before.reasons == {'no profile schedules for "other"': 1}


def test_preemptors_and_victims():
    lesser = owned(pod("lesser", "4", nodeName="a", priority=0), name="lesser-abc")
    found = what_if(Cluster([node("a"), node("b", "5"), lesser]), Put((pod("big", "4", priority=5),)), Remove("b"))
    assert (found.placed, found.displaced) == ({"default/big": "a"}, {"default/lesser": ""})


def test_adding_nodes_twice():
    found = what_if(Cluster([node("a"), node("a-like-1")]), AddNodes(1, "a"), AddNodes(2, "a"))
    assert (found.before.nodes, found.after.nodes) == (2, 5)


def test_a_controller_without_pods_is_scaled_by_its_template():
    template = decode_object(owned(pod("web")))
    found = what_if(Cluster([node("a")]), Scale("Deployment", "default", "web", 2, template))
    assert found.placed == {"default/web-added-0": "a", "default/web-added-1": "a"}


def rollout(*pods):
    return Put(tuple(map(decode_object, pods)), workloads=(("Deployment", "default", "web"),))


def test_a_rollout_replaces_different_pods():
    there = [owned(pod(f"web-{name}", "3", nodeName=name)) for name in "ab"]
    found = what_if(Cluster([node("a"), node("b", "5"), *there]), rollout(owned(pod("web-new", "5"))))
    assert found.displaced == {"default/web-a": "", "default/web-b": ""}
    assert found.placed == {"default/web-new": "b"}


@pytest.mark.parametrize(("wanted", "placed", "deleted"), [(1, 0, 1), (2, 0, 0), (3, 1, 0), (0, 0, 2)])
def test_identical_pods_are_not_replaced(wanted, placed, deleted):
    there = [owned(pod(f"web-{name}", nodeName=name)) for name in "ab"]
    change = rollout(*(owned(pod(f"web-{i}")) for i in range(wanted)))
    found = what_if(Cluster([node("a"), node("b"), *there]), change)
    assert (len(found.placed), len(found.displaced), found.after.pods) == (placed, deleted, wanted)


def test_another_configuration_has_the_same_feature_gates():
    gates = {"GenericWorkload": True, "GangScheduling": True}
    gang = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    members = [pod(f"web-{i}", "3", schedulingGroup={"podGroupName": "g"}) for i in range(2)]
    found = what_if(
        Cluster([node("a"), gang, *members], feature_gates=gates, emulated_version="1.36"), Reconfigure(PACKING)
    )
    assert len(found.before.pending) == len(found.after.pending) == 2
