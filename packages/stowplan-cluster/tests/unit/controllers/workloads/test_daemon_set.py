from support.live.controller_cluster import set_image, target_of, workload


def add_nodes(cluster, *names, **options):
    for name in names:
        cluster.add_node(name, **options)


def nodes_of(cluster):
    return sorted(pod["spec"].get("nodeName") or target_of(pod) for pod in cluster.pods())


def test_the_pods_required_affinity_is_evaluated_before_it_is_replaced(cluster):
    add_nodes(cluster, "node-1", labels={"zone": "a"})
    add_nodes(cluster, "node-2", labels={"zone": "b"})
    expression = {"key": "zone", "operator": "In", "values": ["b"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    cluster.create(workload("DaemonSet", pod_spec={"affinity": affinity}))
    cluster.settle()
    assert nodes_of(cluster) == ["node-2"]


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
