"""Policies whose evictions are moves of the real scheduler: what is moved, what stays, and what is deleted."""

import msgspec
import pytest

from stowplan import Cluster, ClusterError
from stowplan.ask.rebalance import ByPolicy, read_policy, rebalance
from stowplan.ask.rebalance.policy.pods_in_full import PodsInFull
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.types import Pod
from support.what_if.objects import node, owned, pod

POINTS = {"RemoveDuplicates": "balance", "LowNodeUtilization": "balance", "HighNodeUtilization": "balance"}
TAINTED = {"taints": [{"key": "k", "effect": "NoSchedule"}]}


def a_policy(name, args=None, evictor=None, **more):
    config = [{"name": name, "args": args}, {"name": "DefaultEvictor", "args": evictor}]
    plugins = {POINTS.get(name, "deschedule"): {"enabled": [name]}}
    profile = {"name": "p", "pluginConfig": config, "plugins": plugins}
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return read_policy({**head, "profiles": [profile], **more})


def planned(objects, policy, **goal):
    return rebalance(Cluster(objects, now=1_767_225_600.0), ByPolicy(policy, **goal))


def moves(found):
    return {move.pod.partition("/")[2]: (move.from_, move.to) for move in found.moves}


def kept(found):
    return {record.pod.partition("/")[2]: record.kept for record in found.kept}


def webs(count, on, **spec):
    return [owned(pod(f"web-{i}-{on}", nodeName=on, **spec)) for i in range(count)]


def in_full(*raws):
    cluster = Cluster(())
    cluster.documents.keep_also((Pod,))
    pods = [decode_object(raw) for raw in raws]
    for found, raw in zip(pods, raws, strict=True):
        cluster.documents.keep(found, msgspec.json.encode(raw))
    finished = tuple(one for one in pods if one.status.phase == "Failed")
    return PodsInFull(cluster.documents, finished)


def what_is_not_recorded(policy):
    with pytest.raises(LoadError) as error:
        policy.check_recorded()
    head = "policy: profile p: "
    assert all(line.startswith(head) for line in error.value.errors)
    return [line.removeprefix(head).partition(" reads")[0] + line.rpartition(":")[2] for line in error.value.errors]


FINISHED = "pods that have finished"
CONTAINERS = "status.containerStatuses of pods"
USE = {"thresholds": {"cpu": 1}, "targetThresholds": {"cpu": 1}}
MEASURED = {**USE, "metricsUtilization": {"source": "KubernetesMetrics"}}


@pytest.mark.parametrize(
    ("plugin", "args", "missing"),
    [
        ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 1}, [CONTAINERS]),
        ("RemoveFailedPods", {}, [FINISHED]),
        (
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": 1},
            [f"{FINISHED}, unless states has Running, Pending, Unknown alone"],
        ),
        ("PodLifeTime", {"states": ["Running"], "exitCodes": [1]}, [CONTAINERS]),
        ("LowNodeUtilization", MEASURED, ["measured use, for metricsUtilization"]),
    ],
)
def test_what_a_recording_does_not_contain(plugin, args, missing):
    assert what_is_not_recorded(a_policy(plugin, args)) == [f"{plugin} {one}" for one in missing]


@pytest.mark.parametrize(
    ("evictor", "missing"),
    [
        ({"minReplicas": 2}, f"{FINISHED}, which minReplicas counts"),
        ({"priorityThreshold": {"name": "gold"}}, "PriorityClasses, for priorityThreshold.name"),
    ],
)
def test_what_the_evictor_reads_and_a_recording_does_not_contain(evictor, missing):
    policy = a_policy("RemovePodsViolatingNodeTaints", evictor=evictor)
    assert what_is_not_recorded(policy) == [f"DefaultEvictor {missing}"]


def test_pods_leave_tainted_nodes():
    found = planned([node("a", **TAINTED), node("b"), *webs(2, "a")], a_policy("RemovePodsViolatingNodeTaints"))
    assert moves(found) == {"web-0-a": ("a", "b"), "web-1-a": ("a", "b")}
    assert found.moves[0].reason == "RemovePodsViolatingNodeTaints: k"


def test_what_the_scheduler_places_nowhere_stays():
    objects = [node("a", **TAINTED), node("b", "1"), *webs(1, "a"), *webs(1, "b")]
    found = planned(objects, a_policy("RemovePodsViolatingNodeTaints"))
    assert not found.moves
    assert kept(found)["web-0-a"].startswith("no other node takes it: 0/2 nodes are available: ")


def test_later_moves_see_earlier_ones():
    objects = [node("a", **TAINTED), node("b", "1"), *webs(2, "a")]
    assert len(planned(objects, a_policy("RemovePodsViolatingNodeTaints")).moves) == 1


def test_pods_without_a_controller_stay():
    bare = pod("bare", nodeName="a")
    bare["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/evict": "true"}
    found = planned([node("a", **TAINTED), node("b"), bare], a_policy("RemovePodsViolatingNodeTaints"))
    assert kept(found) == {"bare": "no controller would recreate it"}


@pytest.mark.parametrize(
    ("limits", "count"),
    [({"maxNoOfPodsToEvictPerNode": 1}, 1), ({"maxNoOfPodsToEvictTotal": 2}, 2), ({"nodeSelector": "x=y"}, 0)],
)
def test_limits(limits, count):
    objects = [node("a", **TAINTED), node("b"), *webs(3, "a")]
    assert len(planned(objects, a_policy("RemovePodsViolatingNodeTaints", **limits)).moves) == count


def test_one_node_is_left_alone():
    assert not planned([node("a", **TAINTED), *webs(1, "a")], a_policy("RemovePodsViolatingNodeTaints")).kept


def test_a_priority_class_that_is_not_there():
    policy = a_policy("RemovePodsViolatingNodeTaints", evictor={"priorityThreshold": {"name": "gold"}})
    with pytest.raises(ClusterError, match='there is no PriorityClass "gold"'):
        planned([node("a"), node("b")], policy)


def test_restarts_are_read_from_the_pods_in_full():
    (one,) = webs(1, "a")
    one["status"] = {"containerStatuses": [{"name": "c", "restartCount": 7, "state": {}}]}
    objects, policy = (
        [node("a"), node("b", "8"), one],
        a_policy("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}),
    )
    assert not planned(objects, policy).moves
    found = planned(objects, policy, pods=in_full(one))
    assert [move.reason for move in found.moves] == ["RemovePodsHavingTooManyRestarts: 7 restarts"]


def test_host_paths_are_local_storage():
    (one,) = webs(1, "a")
    one["spec"]["volumes"] = [{"name": "logs", "hostPath": {"path": "/var/log"}}]
    objects = [node("a", **TAINTED), node("b"), one]
    policy = a_policy("RemovePodsViolatingNodeTaints")
    assert not planned(objects, policy, pods=in_full(one)).moves
    allowed = a_policy("RemovePodsViolatingNodeTaints", evictor={"evictLocalStoragePods": True})
    assert planned(objects, allowed, pods=in_full(one)).moves


def test_failed_pods_are_deleted():
    (one,) = webs(1, "a")
    one["status"] = {"phase": "Failed", "reason": "Evicted"}
    one["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
    found = planned([node("a"), node("b")], a_policy("RemoveFailedPods", {}), pods=in_full(one))
    assert [(gone.pod, gone.node, gone.reason) for gone in found.removals] == [
        ("default/web-0-a", "a", "RemoveFailedPods: Evicted")
    ]
    assert not found.moves


def test_full_nodes_are_relieved_onto_nodes_that_are_not():
    objects = [node("a"), node("b"), node("c", "16"), *webs(4, "a"), *webs(4, "b")]
    args = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 80}}
    found = planned(objects, a_policy("LowNodeUtilization", args))
    assert {move.to for move in found.moves} == {"c"}
    assert {move.from_ for move in found.moves} == {"a", "b"}


def test_measured_use_instead_of_requests():
    objects = [node("a"), node("b", "8"), *webs(1, "a")]
    args = {
        "thresholds": {"MetricResource": 30},
        "targetThresholds": {"MetricResource": 60},
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "use"}},
    }
    policy = a_policy("LowNodeUtilization", args)
    with pytest.raises(ClusterError, match="needs measured use"):
        planned(objects, policy)
    found = planned(objects, policy, node_use={"a": {"MetricResource": 90}, "b": {"MetricResource": 10}})
    assert moves(found) == {"web-0-a": ("a", "b")}
    assert not planned(objects, policy, node_use={"a": {"MetricResource": 50}, "b": {"MetricResource": 10}}).moves
