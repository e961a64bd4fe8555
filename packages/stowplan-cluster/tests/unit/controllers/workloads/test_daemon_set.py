import pytest

from support.live.controller_cluster import set_image, target_of, workload

NO_SCHEDULE = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "gpu", "value": "yes", "effect": "NoExecute"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def add_nodes(cluster, *names, **options):
    for name in names:
        cluster.add_node(name, **options)


def nodes_of(cluster):
    return sorted(pod["spec"].get("nodeName") or target_of(pod) for pod in cluster.pods())


def images(cluster):
    return sorted(pod["spec"]["containers"][0]["image"] for pod in cluster.pods())


def taint(*taints):
    return lambda node: node["spec"].update(taints=list(taints))


def rolling(**options):
    return {"type": "RollingUpdate", "rollingUpdate": options}


def test_one_pod_per_node_with_node_affinity(cluster):
    add_nodes(cluster, "node-1", "node-2")
    cluster.create(workload("DaemonSet"))
    cluster.settle()
    assert nodes_of(cluster) == ["node-1", "node-2"]
    assert not any(pod["spec"].get("nodeName") for pod in cluster.pods())
    tolerated = {one["key"] for one in cluster.pods()[0]["spec"]["tolerations"]}
    assert "node.kubernetes.io/unschedulable" in tolerated
    assert "node.kubernetes.io/network-unavailable" not in tolerated
    add_nodes(cluster, "node-3")
    cluster.live()
    assert nodes_of(cluster) == ["node-1", "node-2", "node-3"]
    cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
    cluster.live()
    assert nodes_of(cluster) == ["node-1", "node-2", "node-3"]


def test_the_status_counts_nodes(cluster):
    add_nodes(cluster, "node-1", "node-2")
    cluster.create(workload("DaemonSet"))
    cluster.live()
    assert cluster.get("DaemonSet", "web")["status"] == {
        "observedGeneration": 1,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }


@pytest.mark.parametrize(
    ("pod_spec", "labels", "taints", "wanted"),
    [
        pytest.param({}, {}, [], True, id="nothing asked"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {}, [], False, id="label missing"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}, [], True, id="label present"),
        pytest.param({}, {}, [NO_SCHEDULE], False, id="untolerated NoSchedule"),
        pytest.param({}, {}, [NO_EXECUTE], False, id="untolerated NoExecute"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {}, [NO_SCHEDULE], True, id="tolerated"),
        pytest.param({}, {}, [CORDONED], True, id="cordoned nodes count"),
        pytest.param({"nodeName": "node-2"}, {}, [], False, id="for another node by name"),
    ],
)
def test_which_nodes_want_a_pod(cluster, pod_spec, labels, taints, wanted):
    add_nodes(cluster, "node-1", labels=labels, taints=taints)
    cluster.create(workload("DaemonSet", pod_spec=pod_spec))
    cluster.settle()
    assert len(cluster.pods()) == wanted


def test_the_pods_required_affinity_is_evaluated_before_it_is_replaced(cluster):
    add_nodes(cluster, "node-1", labels={"zone": "a"})
    add_nodes(cluster, "node-2", labels={"zone": "b"})
    expression = {"key": "zone", "operator": "In", "values": ["b"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    cluster.create(workload("DaemonSet", pod_spec={"affinity": affinity}))
    cluster.settle()
    assert nodes_of(cluster) == ["node-2"]


@pytest.mark.parametrize(
    ("taints", "left", "misscheduled"),
    [
        pytest.param([NO_SCHEDULE], 1, 1, id="may stay"),
        pytest.param([NO_EXECUTE], 0, 0, id="has to be evicted"),
    ],
)
def test_a_taint_added_later(cluster, taints, left, misscheduled):
    add_nodes(cluster, "node-1")
    cluster.create(workload("DaemonSet"))
    cluster.live()
    cluster.change("Node", "node-1", taint(*taints))
    cluster.live()
    assert len(cluster.pods()) == left
    assert cluster.get("DaemonSet", "web")["status"]["numberMisscheduled"] == misscheduled


def test_a_heartbeat_causes_no_reconcile(cluster):
    add_nodes(cluster, "node-1")
    cluster.create(workload("DaemonSet"))
    cluster.live()
    cluster.change("Node", "node-1", lambda node: node["metadata"].update(annotations={"seen": "now"}))
    assert cluster.loop.next_due() is None


def test_unbound_pods_for_a_deleted_node_are_deleted(cluster):
    add_nodes(cluster, "node-1")
    cluster.create(workload("DaemonSet"))
    cluster.settle()
    cluster.delete("Node", "node-1")
    cluster.live()
    assert cluster.pods() == []


@pytest.mark.parametrize(
    ("max_unavailable", "gone"),
    [pytest.param(1, 1, id="one"), pytest.param("50%", 2, id="half"), pytest.param("30%", 2, id="rounded up")],
)
def test_a_rolling_update_keeps_within_max_unavailable(cluster, max_unavailable, gone):
    add_nodes(cluster, "node-1", "node-2", "node-3", "node-4")
    cluster.create(workload("DaemonSet", updateStrategy=rolling(maxUnavailable=max_unavailable)))
    cluster.live()
    cluster.change("DaemonSet", "web", set_image("app:2"))
    cluster.settle()
    assert len(cluster.pods()) == 4 - gone
    cluster.live()
    assert images(cluster) == ["app:2"] * 4
    assert cluster.get("DaemonSet", "web")["status"]["updatedNumberScheduled"] == 4


def test_a_surge_starts_the_new_pod_first(cluster):
    add_nodes(cluster, "node-1", "node-2")
    cluster.create(workload("DaemonSet", updateStrategy=rolling(maxSurge=1, maxUnavailable=0)))
    cluster.live()
    cluster.change("DaemonSet", "web", set_image("app:2"))
    cluster.settle()
    assert images(cluster) == ["app:1", "app:1", "app:2"]
    cluster.run_pods()
    cluster.settle()
    assert images(cluster).count("app:1") == 1
    cluster.live()
    assert images(cluster) == ["app:2"] * 2
    assert nodes_of(cluster) == ["node-1", "node-2"]


def test_on_delete_keeps_old_pods(cluster):
    add_nodes(cluster, "node-1", "node-2")
    cluster.create(workload("DaemonSet", updateStrategy={"type": "OnDelete"}))
    cluster.live()
    cluster.change("DaemonSet", "web", set_image("app:2"))
    cluster.live()
    assert images(cluster) == ["app:1"] * 2
    cluster.delete("Pod", cluster.pods()[0]["metadata"]["name"])
    cluster.live()
    assert images(cluster) == ["app:1", "app:2"]


def test_failed_pods_are_replaced_after_growing_delays(cluster):
    add_nodes(cluster, "node-1")
    cluster.create(workload("DaemonSet"))
    cluster.live()

    def fail():
        (pod,) = cluster.pods()
        cluster.set_pod(pod["metadata"]["name"], phase="Failed", ready=False)
        cluster.live()
        return cluster.get("Pod", pod["metadata"]["name"]) is not None

    assert not fail()
    assert fail()
    cluster.advance(1)
    cluster.live()
    assert [pod["status"]["phase"] for pod in cluster.pods()] == ["Running"]
    assert fail()
    cluster.advance(1)
    assert [pod["status"]["phase"] for pod in cluster.pods()] == ["Failed"]
    cluster.advance(1)
    cluster.live()
    assert [pod["status"]["phase"] for pod in cluster.pods()] == ["Running"]
    assert "FailedDaemonPod" in {reason for _, reason, _ in cluster.events("web")}


def test_a_finished_pod_with_a_finalizer_is_not_waited_for(cluster):
    cluster.add_node("node-1")
    cluster.create(workload("DaemonSet"))
    cluster.live()
    (name,) = (pod["metadata"]["name"] for pod in cluster.pods())
    cluster.change("Pod", name, lambda pod: pod["metadata"].update(finalizers=["example.com/audit"]))
    cluster.set_pod(name, phase="Failed", ready=False)
    cluster.live()
    assert "deletionTimestamp" in cluster.get("Pod", name)["metadata"]
    assert [pod["status"]["phase"] for pod in cluster.pods()] == ["Running"]


def test_revisions_carry_the_hash_of_the_pods(cluster):
    add_nodes(cluster, "node-1")
    cluster.create(workload("DaemonSet", revisionHistoryLimit=1))
    cluster.live()
    for image in ("app:2", "app:3"):
        cluster.change("DaemonSet", "web", set_image(image))
        cluster.live()
    revisions = {one["revision"]: one["metadata"] for one in cluster.all("ControllerRevision")}
    assert sorted(revisions) == [2, 3]
    hashed = cluster.pods()[0]["metadata"]["labels"]["controller-revision-hash"]
    assert revisions[3]["labels"]["controller-revision-hash"] == hashed
    assert revisions[3]["name"] == f"web-{hashed}"


def test_a_settled_set_writes_nothing(cluster):
    add_nodes(cluster, "node-1", "node-2")
    cluster.create(workload("DaemonSet"))
    cluster.live()
    version = cluster.store.version
    cluster.advance(3600)
    assert cluster.store.version == version
