"""Which cluster events a change of an object causes; all changes: test_events.py of the framework."""

import pytest

from support.api.manifests import node, pod
from support.api.storage_objects import claim
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import asking, on
from support.scheduling.waking import change, create, delete, relabel, resize


def record_event_labels(c):
    """Labels of the events that reach the queue from now on."""
    labels = []
    move_all = c.scheduler.queue.move_all

    def listening(event, old, new, **options):
        labels.append(event.label)
        move_all(event, old, new, **options)

    c.scheduler.queue.move_all = listening
    return labels


def condition(status, heartbeat="2026-01-01T00:00:00Z"):
    return {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}


def node_status(**fields):
    return change("nodes", "n1", {"status": fields}, subresource="status")


NODES = [
    ("heartbeat", node_status(conditions=[condition("True", "2026-02-02T00:00:00Z")]), []),
    (
        "several at once",
        change(
            "nodes",
            "n1",
            {
                "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}},
                "spec": {"unschedulable": None, "taints": [{"key": "t", "effect": "NoExecute"}]},
            },
        ),
        ["NodeUpdateNodeTaint", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint", "NodeUpdateNodeAnnotation"],
    ),
    ("goes", delete("nodes", "n2"), ["NodeDelete"]),
]

PODS = [
    # First deletionTimestamp is set.
    ("goes", delete("pods", "web"), ["AssignedPodUpdate", "AssignedPodDelete"]),
    ("takes less", resize("web", cpu="1"), ["AssignedPodUpdatePodScaleDown"]),
    (
        "claims made for it",
        change("pods", "web", {"status": {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "x"}]}},
               "merge", "status"),
        ["AssignedPodUpdatePodGeneratedResourceClaim"],
    ),
    (
        "several at once",
        change(
            "pods",
            "web",
            [
                {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}},
                {"op": "add", "path": "/metadata/labels/x", "value": "y"},
            ],
            "json",
        ),
        ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodToleration"],
    ),
]  # fmt: skip

OTHERS = [
    ("comes", create("persistentvolumeclaims", claim("d")), ["PersistentVolumeClaimAdd"]),
    ("changes", relabel("persistentvolumeclaims", "c", x="y"), ["PersistentVolumeClaimUpdate"]),
]


def table(cases):
    return pytest.mark.parametrize(("do", "labels"), [pytest.param(do, labels, id=what) for what, do, labels in cases])


async def check(server, namespace, before, do, labels):
    async with scheduled(server, namespace, before=before) as c:
        found = record_event_labels(c)
        await do(c.objects)
        await c.settle()
        assert found == labels


@table(NODES)
async def test_node_events(api_server, namespace, do, labels):
    first = node("n1", unschedulable=True)
    first["status"]["conditions"] = [condition("True")]
    await check(api_server, namespace, [("nodes", first), ("nodes", node("n2"))], do, labels)


@table(PODS)
async def test_assigned_pod_events(api_server, namespace, do, labels):
    claims = [{"name": "d", "resourceClaimTemplateName": "t"}]
    placed = on("n1", asking(pod(resourceClaims=claims), cpu="2", memory="1Gi"))
    await check(api_server, namespace, [("nodes", node("n1")), ("pods", placed)], do, labels)


@pytest.mark.parametrize(("what", "do", "labels"), OTHERS)
async def test_events_of_other_kinds(api_server, namespace, what, do, labels):
    made = claim("c") | {"metadata": {"name": "c"}}
    await check(api_server, namespace, [("persistentvolumeclaims", made)], _here(do, namespace), labels)


def _here(do, namespace):
    """Create the claims of `do` in the namespace of the test, as they name another."""

    async def act(objects):
        make = objects.create

        async def create_here(plural, obj):
            return await make(plural, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}})

        objects.create = create_here
        return await do(objects)

    return act


async def test_binding_a_pod_is_an_assigned_pod_add(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("nodes", node("n1"))]) as c:
        found = record_event_labels(c)
        await c.pods(pod())
        assert await c.node_of("web") == "n1"
        assert found == ["AssignedPodAdd"]
