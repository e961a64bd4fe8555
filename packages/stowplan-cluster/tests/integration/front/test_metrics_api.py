"""metrics.k8s.io: the usage of pods and nodes, as `kubectl top` reads it."""

from __future__ import annotations

import pytest

from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.users import UserInfo

NOW = 1_800_000_000.0
API = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{API}/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
VIEWER = "the-viewers-token"


async def running(client, name, *, since=60.0, node="node-1", annotations=None, **metadata):
    """A pod that has been running for so many seconds."""
    resources = {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    made = await client.create("/api/v1/namespaces/default/pods", pod)
    started = timestamp(NOW - since)
    made["status"] = {
        "phase": "Running",
        "startTime": started,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started}],
        "containerStatuses": [
            {
                "name": "c",
                "image": "i",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": started}},
            }
        ],
    }
    reply = await client.request("PUT", f"/api/v1/namespaces/default/pods/{name}/status", made)
    assert reply.status == 200, reply.text


@pytest.fixture
async def client(serving):
    users = {VIEWER: UserInfo(name="vic", groups=("system:authenticated",))}
    async with serving(users=users) as made:
        for name in ("node-1", "node-2"):
            await made.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        yield made


async def test_a_pod(client):
    await running(client, "a", labels={"app": "web"})
    found = await client.get(f"{PODS}/a")
    assert found.json == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "creationTimestamp": timestamp(NOW),
            "labels": {"app": "web"},
        },
        "timestamp": timestamp(NOW),
        "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": "100m", "memory": "512Mi"}}],
    }


async def test_what_an_annotation_says(client):
    await running(client, "a", annotations={"stowplan.io/usage-cpu": "5", "stowplan.io/usage-memory": "10Mi"})
    usage = (await client.get(f"{PODS}/a")).json["containers"][0]["usage"]
    assert usage == {"cpu": "1", "memory": "10Mi"}


@pytest.mark.parametrize(
    ("since", "annotations"),
    [
        pytest.param(14.0, {}, id="just started"),
        pytest.param(60.0, {"stowplan.io/usage-cpu": "much"}, id="a wrong annotation"),
    ],
)
async def test_pods_without_metrics(client, since, annotations):
    await running(client, "a", since=since, annotations=annotations)
    found = await client.get(f"{PODS}/a")
    assert (found.status, found.json["message"]) == (404, 'podMetrics.metrics.k8s.io "default/a" not found')
    assert (await client.get(PODS)).json["items"] == []
    assert (await client.get(f"{PODS}/b")).status == 404


async def test_lists_and_selectors(client):
    for name, labels, node in (("a", {"app": "web"}, "node-1"), ("b", {}, "node-1"), ("c", {"app": "web"}, "node-2")):
        await running(client, name, labels=labels, node=node)

    async def names(path):
        return [one["metadata"]["name"] for one in (await client.get(path)).json["items"]]

    found = (await client.get(f"{API}/pods")).json
    assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    assert await names(f"{API}/pods") == ["a", "b", "c"]
    assert await names(f"{PODS}?labelSelector=app%3Dweb") == ["a", "c"]
    assert await names(f"{PODS}?labelSelector=app%3Dweb&limit=1") == ["a"]
    assert await names(f"{API}/namespaces/other/pods") == []


async def test_nodes(client):
    await running(client, "a")
    await running(client, "b")
    found = (await client.get(f"{API}/nodes")).json["items"]
    usage = {"node-1": {"cpu": "200m", "memory": "1Gi"}, "node-2": {"cpu": "0", "memory": "0"}}
    assert {one["metadata"]["name"]: one["usage"] for one in found} == usage
    assert (await client.get(f"{API}/nodes/node-1")).json["usage"] == usage["node-1"]
    missing = await client.get(f"{API}/nodes/no")
    assert (missing.status, missing.json["message"]) == (404, 'nodeMetrics.metrics.k8s.io "no" not found')


async def test_kubelets_that_are_stopped_report_nothing(client):
    await running(client, "a")
    await running(client, "b", node="node-2")
    patch = {"metadata": {"annotations": {"stowplan.io/kubelet": "stopped"}}}
    merge = "application/merge-patch+json"
    await client.request("PATCH", "/api/v1/nodes/node-1", patch, Content_Type=merge)
    assert [one["metadata"]["name"] for one in (await client.get(PODS)).json["items"]] == ["b"]


async def test_tables(client):
    await running(client, "a")
    pods, nodes = [(await client.get(f"{API}/{name}", Accept=TABLE)).json for name in ("pods", "nodes")]
    assert [one["name"] for one in pods["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in pods["rows"]] == [["a", "100m", "512Mi", "15s"]]
    assert nodes["rows"][0]["cells"] == ["node-1", "100m", "512Mi", "15s"]


async def test_it_is_discovered_and_read_only(client):
    groups = (await client.get("/apis")).json["groups"]
    assert "metrics.k8s.io" in [one["name"] for one in groups]
    resources = (await client.get(API)).json["resources"]
    assert [(one["name"], one["kind"], one["verbs"]) for one in resources] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    for method in ("POST", "DELETE"):
        assert (await client.request(method, PODS)).status == 405
    assert (await client.get(f"{PODS}?watch=1")).status == 405


async def test_those_who_may_view_may_read_it(client):
    async def read():
        return (await client.get(f"{API}/nodes", Authorization=f"Bearer {VIEWER}")).status

    assert await read() == 403
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "vic"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vic"}],
    }
    await client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    assert await read() == 200
