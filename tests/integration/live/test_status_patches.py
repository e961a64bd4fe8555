"""The patches of a pod's status, field by field, and which ones are not sent."""

import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError, NotFound, ServiceUnavailable
from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.plugins.raised import in_short
from support.scheduling.failed_attempts import condition_time, nominated, nothing_in_flight


def refusing(api_server, namespace, *, before=(), wrap=Tampered, **answers):
    """A scheduler whose Permit refuses all pods with the message that the test sets."""
    a = answering("A", **(answers or {"permit": (unschedulable("no"), 0.0)}))
    points = {"post_filter": "postFilter", "permit": "permit", "reserve": "reserve"}
    config = configuration(
        profile(without={"postFilter": ["*"]}, **{points[method]: [a] for method in a.answers if method in points})
    )
    options = {"config": config, "plugins": [a], "wrap": wrap}
    return scheduled(api_server, namespace, before=[("nodes", node("n1")), *before], **options)


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


async def test_an_unchanged_failure_sends_nothing(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.advance(3.0)
        await retry(c)
        assert c.queued("web").attempts == 2
        assert len(c.api.status_patches("web")) == 1


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


async def test_a_changed_reason_is_sent_with_its_message(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = RuntimeError("oops")
        await retry(c)
        type_ = {"type": "PodScheduled"}
        message = 'running Permit plugin "A": oops'
        changed = {"message": message, "reason": "SchedulerError", **type_}
        [patch] = c.api.status_patches("web")[1:]
        [told] = patch["status"]["conditions"]
        assert patch == {"status": {ORDER: [type_], "conditions": [told]}}
        assert told | {"message": in_short(told["message"])} == changed


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


async def test_a_new_observed_generation_alone_sends_nothing(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.objects.patch("pods", "web", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}})
        await c.settle()
        assert (await c.pod("web"))["metadata"]["generation"] == 2
        await retry(c)
        assert len(c.api.status_patches("web")) == 1
        assert (await c.condition("web"))["observedGeneration"] == 1


async def test_a_nomination_goes_with_the_condition(api_server, namespace):
    nomination = PostFilterResult(Status(Code.Success), "n1")
    async with refusing(api_server, namespace, post_filter=nomination) as c:
        await c.pods(pod("web", nodeSelector={"no": "where"}))
        message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        assert c.api.status_patches("web") == [full(c, message, nominatedNodeName="n1")]


async def test_a_lost_nomination_is_sent_as_null(api_server, namespace):
    async with refusing(api_server, namespace, before=[("pods", nominated())]) as c:
        assert c.api.status_patches("web") == [full(c, NO, nominatedNodeName=None)]


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


async def let_retries_happen(c):
    """The delays between retries are fractions of a second."""
    for _ in range(20):
        await c._pause()
        c.time.next_alarm(c.time.now + 0.4)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(InternalError("etcd is tired"), 4, id="500"),
        pytest.param(ServiceUnavailable("not now"), 4, id="503"),
        pytest.param(Conflict("somebody was faster"), 4, id="409"),
        pytest.param(Unreachable("connection refused"), 4, id="unreachable"),
        pytest.param(Forbidden("you may not"), 1, id="403"),
        pytest.param(NotFound("gone"), 1, id="404"),
    ],
)
async def test_retries_by_error(api_server, namespace, error, tries):
    async with refusing(api_server, namespace) as c:
        c.api.instead["patch"] = raising(error)
        await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.api.status_patches("web"))
        await let_retries_happen(c)
        await c.settle()
        assert len(c.api.status_patches("web")) == tries
        assert await c.condition("web") is None
        # Requeueing does not depend on the patch.
        assert c.place("web") == "UNSCHEDULABLE"
        # The next failure writes what this patch could not.
        del c.api.instead["patch"]
        await retry(c)
        assert (await c.condition("web"))["message"] == NO


async def test_the_last_retry_may_succeed(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        c.api.instead["patch"] = raising(ServiceUnavailable("not now"), times=3)
        await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.api.status_patches("web"))
        await let_retries_happen(c)
        await c.settle()
        assert len(c.api.status_patches("web")) == 4
        assert (await c.condition("web"))["message"] == NO


async def test_only_the_latest_failure_is_written(api_server, namespace):
    """The pod fails twice more while a patch is in progress: the next patch has only the latest failure."""
    async with refusing(api_server, namespace) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        for text in ("maybe", "not yet"):
            set_message(c, text)
            c.scheduler.queue.activate([c.queued("web").pod])
            await c.until(lambda: c.place("web") == "UNSCHEDULABLE" and c.scheduler.queue.counts()["active"] == 0)
        assert c.queued("web").attempts == 3
        del c.api.instead["patch"]
        held.let_go()
        await c.settle()
        assert (await c.condition("web"))["message"] == NOT_YET
        assert len(c.api.status_patches("web")) == 2


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
