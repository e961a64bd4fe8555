"""The embedded cluster with controllers: pods start where they are bound, workloads roll out, drains respect budgets.

There is no scheduler here: pods name their node, or the test binds them.
"""

import json

import pytest

from support.api import manifests

NODE, OTHER = "node-0000", "node-0001"


@pytest.fixture
def namespace(cluster, request):
    return cluster.new_namespace(request.node.name)


def on_node(kind, name="web", *, node=NODE, **spec):
    obj = manifests.workload(kind, name, **spec)
    obj["spec"]["template"]["spec"]["nodeName"] = node
    return obj


def names(cluster, namespace, what="pods"):
    return cluster.kubectl("get", what, "-n", namespace, "-o", "name").stdout.split()


def rolled_out(cluster, namespace, what):
    return cluster.kubectl("rollout", "status", what, "-n", namespace, "--timeout=30s").stdout


def test_nodes_are_ready(cluster):
    cluster.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=20s")
    rows = cluster.kubectl("get", "nodes").stdout.splitlines()[1:]
    assert len(rows) == 6
    assert all(row.split()[1] == "Ready" for row in rows)
    assert "Taints:             <none>" in cluster.kubectl("describe", "node", NODE).stdout


def test_a_bound_pod_runs_and_is_deleted(cluster, namespace):
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=[manifests.pod()])
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": NODE}}
    path = f"/api/v1/namespaces/{namespace}/pods/web/binding"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
    cluster.kubectl("wait", "-n", namespace, "pod/web", "--for=condition=Ready", "--timeout=20s")
    row = cluster.kubectl("get", "pod", "web", "-n", namespace, "-o", "wide").stdout.splitlines()[1].split()
    assert (row[1], row[2], row[6]) == ("1/1", "Running", NODE)
    assert row[5].count(".") == 3
    cluster.kubectl("delete", "pod", "web", "-n", namespace, "--timeout=20s")
    assert names(cluster, namespace) == []


def test_deployments_roll_out(cluster, namespace):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=[on_node("Deployment", replicas=3)])
    assert "successfully rolled out" in rolled_out(cluster, namespace, "deployment/web")
    assert len(names(cluster, namespace)) == 3
    cluster.kubectl("set", "image", "deployment/web", "c=nginx:2", "-n", namespace)
    rolled_out(cluster, namespace, "deployment/web")
    images = cluster.kubectl("get", "pods", "-n", namespace, "-o", "jsonpath={..image}").stdout.split()
    assert set(images) == {"nginx:2"}
    cluster.kubectl("rollout", "undo", "deployment/web", "-n", namespace)
    rolled_out(cluster, namespace, "deployment/web")
    history = cluster.kubectl("rollout", "history", "deployment/web", "-n", namespace).stdout
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]
    cluster.kubectl("rollout", "restart", "deployment/web", "-n", namespace)
    rolled_out(cluster, namespace, "deployment/web")
    cluster.kubectl("scale", "deployment/web", "--replicas=1", "-n", namespace)
    rolled_out(cluster, namespace, "deployment/web")
    cluster.kubectl("wait", "-n", namespace, "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout=20s")
    row = cluster.kubectl("get", "deployment", "web", "-n", namespace).stdout.splitlines()[1].split()
    assert row[:4] == ["web", "1/1", "1", "1"]
    assert "ScalingReplicaSet" in cluster.kubectl("describe", "deployment", "web", "-n", namespace).stdout


def test_deleting_a_deployment_deletes_its_dependents(cluster, namespace):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=[on_node("Deployment")])
    rolled_out(cluster, namespace, "deployment/web")
    cluster.kubectl("delete", "deployment", "web", "-n", namespace, "--cascade=foreground", "--timeout=20s")
    assert names(cluster, namespace, "rs,pods") == []
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=[on_node("Deployment")])
    rolled_out(cluster, namespace, "deployment/web")
    cluster.kubectl("delete", "deployment", "web", "-n", namespace, "--cascade=orphan")
    assert len(names(cluster, namespace, "rs")) == 1


def test_stateful_sets_and_daemon_sets_roll_out(cluster, namespace):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=[on_node("StatefulSet", "db", serviceName="db")])
    rolled_out(cluster, namespace, "statefulset/db")
    assert names(cluster, namespace) == ["pod/db-0", "pod/db-1"]
    cluster.kubectl("delete", "statefulset", "db", "-n", namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=[manifests.workload("DaemonSet", "agent")])
    cluster.kubectl(
        "wait", "-n", namespace, "ds/agent", "--for=jsonpath={.status.desiredNumberScheduled}=6", "--timeout=20s"
    )


def test_jobs_complete(cluster, namespace):
    job = manifests.job(completions=2, parallelism=2)
    job["spec"]["template"]["spec"]["nodeName"] = NODE
    job["spec"]["template"]["metadata"] = {"annotations": {"stowplan.io/run-for": "100ms"}}
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=[job])
    cluster.kubectl("wait", "-n", namespace, "job/work", "--for=condition=Complete", "--timeout=30s")
    assert "2/2" in cluster.kubectl("get", "job", "work", "-n", namespace).stdout


def test_cordon_and_taint(cluster):
    cluster.kubectl("cordon", OTHER)
    try:
        assert "SchedulingDisabled" in cluster.kubectl("get", "node", OTHER).stdout
        path = "--for=jsonpath={.spec.taints[0].key}=node.kubernetes.io/unschedulable"
        cluster.kubectl("wait", f"node/{OTHER}", path, "--timeout=20s")
    finally:
        cluster.kubectl("uncordon", OTHER)
    cluster.kubectl("taint", "node", OTHER, "dedicated=gpu:NoSchedule")
    taints = cluster.kubectl("get", "node", OTHER, "-o", "jsonpath={.spec.taints}").stdout
    assert {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"} in json.loads(taints)
    cluster.kubectl("taint", "node", OTHER, "dedicated-")


def test_a_drain_waits_for_a_budget(cluster, namespace):
    node = "node-0002"
    objects = [on_node("Deployment", node=node), manifests.budget(minAvailable=2)]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=objects)
    rolled_out(cluster, namespace, "deployment/web")
    cluster.kubectl("wait", "-n", namespace, "pdb/web", "--for=jsonpath={.status.currentHealthy}=2", "--timeout=20s")
    drain = ["drain", node, "--ignore-daemonsets", "--force", "--delete-emptydir-data"]
    try:
        held = cluster.kubectl(*drain, "--timeout=2s", check=False)
        assert held.returncode == 1
        assert "Cannot evict pod as it would violate the pod's disruption budget." in held.stderr
        patch = json.dumps({"spec": {"minAvailable": 1}})
        cluster.kubectl("patch", "pdb", "web", "-n", namespace, "--type=merge", "-p", patch)
        done = cluster.kubectl(*drain, "--timeout=60s", timeout=90)
        assert f"node/{node} drained" in done.stdout
    finally:
        cluster.kubectl("uncordon", node)
