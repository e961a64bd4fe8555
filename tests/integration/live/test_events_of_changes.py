"""Which cluster events a change of an object causes, and what happens to events during an attempt."""

import pytest

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.framework.events import NODE, POD, PVC, Action, Hint
from stowplan.scheduler.framework.events import on as registered
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from support.api.manifests import node, pod
from support.api.storage_objects import claim
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking, attempts, moves, on
from support.scheduling.waking import change, create, delete, reallocate, relabel, resize, retaint, tolerate

WAIT = Status(Code.Wait)
PATIENT = DEFAULT_FEATURES.with_gates({"SchedulerPopFromBackoffQ": False})


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


def in_node(**spec):
    return change("nodes", "n1", {"spec": spec})


NODES = [
    ("uncordon", in_node(unschedulable=None), ["NodeUpdateNodeTaint"]),
    ("cordon", change("nodes", "n2", {"spec": {"unschedulable": True}}), []),
    ("allocatable", reallocate("n1", cpu="8"), ["NodeUpdateNodeAllocatable"]),
    ("labels", relabel("nodes", "n1", x="y"), ["NodeUpdateNodeLabel"]),
    ("taints", retaint("n1", "t"), ["NodeUpdateNodeTaint"]),
    ("conditions", node_status(conditions=[condition("False")]), ["NodeUpdateNodeCondition"]),
    ("heartbeat", node_status(conditions=[condition("True", "2026-02-02T00:00:00Z")]), []),
    ("annotations", change("nodes", "n1", {"metadata": {"annotations": {"x": "y"}}}), ["NodeUpdateNodeAnnotation"]),
    (
        "features",
        node_status(declaredFeatures=["RestartAllContainersOnContainerExits"]),
        ["NodeUpdateNodeDeclaredFeature"],
    ),
    ("nothing of interest", node_status(images=[{"names": ["x:1"], "sizeBytes": 5}]), []),
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
    (
        "several at once in the status",
        node_status(conditions=[condition("False")], allocatable={"cpu": "3"}),
        ["NodeUpdateNodeAllocatable", "NodeUpdateNodeCondition"],
    ),
    ("comes", create("nodes", node("n3")), ["NodeAdd"]),
    ("goes", delete("nodes", "n2"), ["NodeDelete"]),
]

PODS = [
    ("comes", create("pods", on("n1", pod("other"))), ["AssignedPodAdd"]),
    # First deletionTimestamp is set.
    ("goes", delete("pods", "web"), ["AssignedPodUpdate", "AssignedPodDelete"]),
    ("ends", change("pods", "web", {"status": {"phase": "Failed"}}, "merge", "status"), ["AssignedPodDelete"]),
    ("labels", relabel("pods", "web", x="y"), ["AssignedPodUpdatePodLabel"]),
    ("takes less", resize("web", cpu="1"), ["AssignedPodUpdatePodScaleDown"]),
    ("takes more", resize("web", cpu="3"), ["AssignedPodUpdate"]),
    ("takes more of one and less of another", resize("web", cpu="3", memory="1Mi"), ["AssignedPodUpdatePodScaleDown"]),
    ("tolerations", tolerate("web", "x"), ["AssignedPodUpdatePodToleration"]),
    (
        "claims made for it",
        change("pods", "web", {"status": {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "x"}]}},
               "merge", "status"),
        ["AssignedPodUpdatePodGeneratedResourceClaim"],
    ),
    ("annotations", change("pods", "web", {"metadata": {"annotations": {"x": "y"}}}), ["AssignedPodUpdate"]),
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


# -- unschedulable pods ------------------------------------------------------------------------------------------------


def refusing_until(*wakes, **answers):
    """A configuration whose plugin A refuses all pods and registers for `wakes`."""
    a = answering("A", wakes=wakes, permit=(unschedulable("no"), 0.0), **answers)
    config = configuration(profile(permit=[a]))
    return a, {"config": config, "plugins": [a], "before": [("nodes", node("n1"))]}


@pytest.mark.parametrize(
    ("action", "woken"),
    [
        pytest.param(Action.Update & ~Action.UpdatePodLabel, [], id="all but labels"),
        pytest.param(Action.Update, [("backoff", "UnschedulablePodUpdate")], id="all"),
    ],
)
async def test_unclassified_updates_wake_only_pods_registered_for_all_updates(api_server, namespace, action, woken):
    _, made = refusing_until(registered(POD, action))
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod())
        # One of them is the scheduler's own first patch of the status.
        assert moves(c, "web")[2::2] == woken
        moved = len(moves(c, "web"))
        await c.objects.patch("pods", "web", {"metadata": {"annotations": {"x": "y"}}})
        await c.settle()
        assert moves(c, "web")[moved::2] == woken


async def test_the_first_event_that_wakes_a_pod_is_recorded_as_the_cause(api_server, namespace):
    _, made = refusing_until(
        registered(POD, Action.UpdatePodLabel, lambda *_: Hint.SKIP), registered(POD, Action.UpdatePodToleration)
    )
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod())
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert len(attempts(c, "web")) == 1
        both = [
            {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}},
            {"op": "add", "path": "/metadata/labels/y", "value": "y"},
        ]
        await c.objects.patch("pods", "web", both, "json")
        await c.settle()
        assert moves(c, "web")[-2] == ("backoff", "UnschedulablePodUpdatePodToleration")


# -- pods in flight ----------------------------------------------------------------------------------------------------


def waiting_on_permit(*wakes):
    a = answering("A", wakes=wakes, permit=(WAIT, 60.0))
    config = configuration(profile(permit=[a]))
    return {"config": config, "plugins": [a], "before": [("nodes", node("n1"))], "features": PATIENT}


async def reject(c):
    for waiting in c.scheduler.waiting_pods:
        waiting.reject("A", "no")
    await c.settle()


@pytest.mark.parametrize(
    ("early", "late", "place"),
    [
        pytest.param(None, create("nodes", node("n2")), "BACKOFF", id="meanwhile"),
        pytest.param(None, None, "UNSCHEDULABLE", id="nothing"),
        pytest.param(create("nodes", node("n2")), None, "UNSCHEDULABLE", id="before"),
        pytest.param(None, relabel("nodes", "n1", x="y"), "UNSCHEDULABLE", id="something else"),
        pytest.param(None, create("nodes", node("n2", unschedulable=True)), "UNSCHEDULABLE", id="hint says no"),
    ],
)
async def test_events_during_an_attempt_count(api_server, namespace, early, late, place):
    wakes = registered(NODE, Action.Add, lambda pod, old, new: Hint.SKIP if new.spec.unschedulable else Hint.QUEUE)
    async with scheduled(api_server, namespace, **waiting_on_permit(wakes)) as c:
        for do, then in ((early, c.pods(pod())), (late, reject(c))):
            if do is not None:
                await do(c.objects)
                await c.settle()
            await then
        assert (c.place("web"), moves(c, "web")[-1]) == (place, (place.lower(), "ScheduleAttemptFailure"))


async def test_events_count_per_attempt(api_server, namespace):
    """One pod's attempt starts before the event, the other's after it."""
    async with scheduled(api_server, namespace, **waiting_on_permit(registered(NODE, Action.Add))) as c:
        await c.pods(pod("early"))
        await c.nodes(node("n2"))
        await c.pods(pod("late"))
        await reject(c)
        assert (c.place("early"), c.place("late")) == ("BACKOFF", "UNSCHEDULABLE")


async def test_a_pod_changed_in_flight_is_requeued_in_its_newest_version(api_server, namespace):
    """Changes of an assumed pod are no events, but it is requeued in its newest version."""
    async with scheduled(api_server, namespace, **waiting_on_permit(registered(POD, Action.UpdatePodLabel))) as c:
        await c.pods(pod())
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        await reject(c)
        assert c.place("web") == "UNSCHEDULABLE"
        assert c.queued("web").pod.pod.metadata.labels == {"app": "web", "x": "y"}
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "z"}}})
        await c.settle()
        assert moves(c, "web")[-1] == ("backoff", "UnschedulablePodUpdatePodLabel")


async def test_events_are_kept_only_while_pods_are_in_flight(api_server, namespace):
    async with scheduled(api_server, namespace, **waiting_on_permit(registered(PVC, Action.Add))) as c:
        await c.pods(pod())
        for _ in range(3):
            await c.objects.patch("nodes", "n1", {"metadata": {"annotations": {"x": None}}})
            await c.objects.patch("nodes", "n1", {"metadata": {"annotations": {"x": "y"}}})
        await c.settle()
        assert not [label for label, count in c.scheduler.queue.in_flight_events().items() if "Annotation" in label]
        await reject(c)
        assert not c.scheduler.queue.in_flight()
        assert not +c.scheduler.queue.in_flight_events()
