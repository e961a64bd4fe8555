"""The patches of a pod's status, field by field, and which ones are not sent."""

from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import condition_time


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
