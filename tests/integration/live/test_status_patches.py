"""What is sent to change a pod's status, field by field, and what is not sent."""

import pytest

from stowplan.api.api_errors import Conflict, Forbidden, InternalError, NotFound, ServiceUnavailable
from stowplan.api.port import Unreachable
from stowplan.framework.interface import PostFilterResult
from stowplan.framework.status import Code, Status, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.plugins.raised import in_short
from support.scheduling.failed_attempts import condition_time, nominated, nothing_in_flight


def refusing(api_server, namespace, *, before=(), wrap=Tampered, **answers):
    """A scheduler whose Permit refuses everything with the words of the test."""
    a = answering("A", **(answers or {"permit": (unschedulable("no"), 0.0)}))
    points = {"post_filter": "postFilter", "permit": "permit", "reserve": "reserve"}
    config = configuration(
        profile(without={"postFilter": ["*"]}, **{points[method]: [a] for method in a.answers if method in points})
    )
    options = {"config": config, "plugins": [a], "wrap": wrap}
    return scheduled(api_server, namespace, before=[("nodes", node("n1")), *before], **options)


def say(c, text):
    c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = unschedulable(text), 0.0


async def again(c, name="web"):
    """Have the pod tried once more, by no change of its own."""
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


async def test_the_same_again_sends_nothing(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.advance(3.0)
        await again(c)
        assert c.queued("web").attempts == 2
        assert len(c.api.status_patches("web")) == 1


async def test_other_words_send_only_these(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        since = condition_time(c)
        say(c, "not yet")
        await c.advance(3.0)
        await again(c)
        type_ = {"type": "PodScheduled"}
        assert c.api.status_patches("web")[1:] == [
            {"status": {ORDER: [type_], "conditions": [{"message": NOT_YET, **type_}]}}
        ]
        condition = await c.condition("web")
        assert (condition["message"], condition["lastTransitionTime"]) == (NOT_YET, since)


async def test_another_reason_is_sent_with_its_words(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = RuntimeError("oops")
        await again(c)
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


async def test_only_a_new_generation_is_no_reason_to_write(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.objects.patch("pods", "web", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}})
        await c.settle()
        assert (await c.pod("web"))["metadata"]["generation"] == 2
        await again(c)
        assert len(c.api.status_patches("web")) == 1
        assert (await c.condition("web"))["observedGeneration"] == 1


async def test_a_nomination_goes_with_the_condition(api_server, namespace):
    nomination = PostFilterResult(Status(Code.Success), "n1")
    async with refusing(api_server, namespace, post_filter=nomination) as c:
        await c.pods(pod("web", nodeSelector={"no": "where"}))
        message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        assert c.api.status_patches("web") == [full(c, message, nominatedNodeName="n1")]


async def test_a_nomination_that_is_lost_is_null(api_server, namespace):
    async with refusing(api_server, namespace, before=[("pods", nominated())]) as c:
        assert c.api.status_patches("web") == [full(c, NO, nominatedNodeName=None)]


async def test_a_nomination_alone(api_server, namespace):
    """The condition says it already: only the nomination is new."""
    async with refusing(api_server, namespace) as c:
        await c.pods(pod("web"))
        await c.objects.patch("pods", "web", {"status": {"nominatedNodeName": "n9"}}, "merge", "status")
        await c.settle()
        assert len(c.api.status_patches("web")) == 1
        await again(c)
        assert c.api.status_patches("web")[1:] == [{"status": {"nominatedNodeName": None}}]


# -- patches that fail ------------------------------------------------------------------------------------------------


async def let_retries_happen(c):
    """The pauses between tries are parts of a second."""
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
async def test_tries(api_server, namespace, error, tries):
    async with refusing(api_server, namespace) as c:
        c.api.instead["patch"] = raising(error)
        await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.api.status_patches("web"))
        await let_retries_happen(c)
        await c.settle()
        assert len(c.api.status_patches("web")) == tries
        assert await c.condition("web") is None
        # The queue does not depend on it.
        assert c.place("web") == "UNSCHEDULABLE"
        # The next failure writes what this one could not.
        del c.api.instead["patch"]
        await again(c)
        assert (await c.condition("web"))["message"] == NO


async def test_the_last_try_may_succeed(api_server, namespace):
    async with refusing(api_server, namespace) as c:
        c.api.instead["patch"] = raising(ServiceUnavailable("not now"), times=3)
        await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.api.status_patches("web"))
        await let_retries_happen(c)
        await c.settle()
        assert len(c.api.status_patches("web")) == 4
        assert (await c.condition("web"))["message"] == NO


async def test_the_newest_failure_is_the_one_that_is_told(api_server, namespace):
    """While a patch is under way the pod fails again, twice: what is sent next is what it failed with last."""
    async with refusing(api_server, namespace) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        for text in ("maybe", "not yet"):
            say(c, text)
            c.scheduler.queue.activate([c.queued("web").pod])
            await c.until(lambda: c.place("web") == "UNSCHEDULABLE" and c.scheduler.queue.counts()["active"] == 0)
        assert c.queued("web").attempts == 3
        del c.api.instead["patch"]
        held.let_go()
        await c.settle()
        assert (await c.condition("web"))["message"] == NOT_YET
        assert len(c.api.status_patches("web")) == 2


async def test_what_an_attempt_had_to_say_does_not_come_after_the_binding(api_server, namespace):
    """The patch of a failure is under way, another waits behind it, when the pod is about to be bound after all."""
    async with refusing(api_server, namespace) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        say(c, "not yet")
        c.scheduler.queue.activate([c.queued("web").pod])
        await c.until(lambda: c.place("web") == "UNSCHEDULABLE" and c.queued("web").attempts == 2)
        c.scheduler.frameworks["default-scheduler"].plugins["A"].answers["permit"] = None, 0.0
        c.scheduler.queue.activate([c.queued("web").pod])
        await c.until(lambda: c.place("web") == "")
        for _ in range(10):
            await c._pause()
        # It waits for what is under way, as nobody could say which of the two came first.
        assert c.api.verbs("web") == ["patch"]
        held.let_go()
        await c.settle()
        assert c.api.verbs("web") == ["patch", "bind"]
        assert await c.node_of("web") == "n1"
        assert (await c.condition("web"))["status"] == "True"
        assert nothing_in_flight(c)
