"""The patches of a pod's status, field by field, and which ones are not sent."""

from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import condition_time, nothing_in_flight


def refusing(api_server, namespace):
    """A scheduler whose Permit refuses all pods with the message that the test sets."""
    a = answering("A", permit=(unschedulable("no"), 0.0))
    config = configuration(profile(without={"postFilter": ["*"]}, permit=[a]))
    before = [("nodes", node("n1"))]
    return scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered)


def set_message(c, text):
    c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = unschedulable(text), 0.0


async def retry(c, name="web"):
    """Retry the pod without changing it."""
    c.scheduler.queue.activate([c.queued(name).pod])
    await c.settle()


def full(c, message, **more):
    condition = {
        "lastProbeTime": None,
        "lastTransitionTime": condition_time(c),
        "message": message,
        "observedGeneration": 1,
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
    return {"status": {"conditions": [condition], **more}}


NO = "0/1 nodes are available: 1 no."
NOT_YET = "0/1 nodes are available: 1 not yet."
ORDER = "$setElementOrder/conditions"


async def test_the_first_failure_sends_all_of_the_condition(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        assert c.api.status_patches("web") == [full(c, NO)]
        (call,) = [call for call in c.api.calls if call.verb == "patch" and call.kind == "Pod"]
        assert (call.options["type_"], call.namespace) == ("strategic", namespace)


async def test_a_changed_message_sends_only_the_message(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        since = condition_time(c)
        set_message(c, "not yet")
        await c.advance(3.0)
        await retry(c)
        type_ = {"type": "PodScheduled"}
        assert c.api.status_patches("web")[1:] == [
            {"status": {ORDER: [type_], "conditions": [{"message": NOT_YET, **type_}]}}
        ]
        condition = await c.condition("web")
        assert (condition["message"], condition["lastTransitionTime"]) == (NOT_YET, since)


async def test_other_conditions_keep_their_place(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        ready = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": None}
        await c.pods(pod("web", schedulingGates=[{"name": "wait"}]))
        await c.objects.patch("pods", "web", {"status": {"conditions": [ready]}}, "merge", "status")
        await c.objects.patch("pods", "web", {"spec": {"schedulingGates": None}})
        await c.settle()
        (body,) = c.api.status_patches("web")
        assert body["status"][ORDER][-1] == {"type": "PodScheduled"}
        found = await c.pod("web")
        assert {one["type"] for one in found["status"]["conditions"]} >= {"Ready", "PodScheduled"}
        assert (await c.condition("web"))["observedGeneration"] == found["metadata"]["generation"] == 2


async def test_a_new_nomination_alone_is_sent(api_server, namespace):
    """The condition is unchanged, so only the nomination is sent."""
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.objects.patch("pods", "web", {"status": {"nominatedNodeName": "n9"}}, "merge", "status")
        await c.settle()
        assert len(c.api.status_patches("web")) == 1
        await retry(c)
        assert c.api.status_patches("web")[1:] == [{"status": {"nominatedNodeName": None}}]


# -- failing patches ---------------------------------------------------------------------------------------------------


async def test_queued_patches_are_dropped_before_binding(api_server, namespace):
    """The pod is about to be bound while the patch of a failure is in progress and another is queued."""
    async with refusing(api_server, namespace) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        set_message(c, "not yet")
        c.scheduler.queue.activate([c.queued("web").pod])
        await c.until(lambda: c.place("web") == "UNSCHEDULABLE" and c.queued("web").attempts == 2)
        c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = None, 0.0
        c.scheduler.queue.activate([c.queued("web").pod])
        await c.until(lambda: c.place("web") == "")
        for _ in range(10):
            await c._pause()
        # Binding waits for the patch in progress, as the order of the two would be undefined.
        assert c.api.verbs("web") == ["patch"]
        held.let_go()
        await c.settle()
        assert c.api.verbs("web") == ["patch", "bind"]
        assert await c.node_of("web") == "n1"
        assert (await c.condition("web"))["status"] == "True"
        assert nothing_in_flight(c)
