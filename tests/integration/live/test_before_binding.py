"""PreBind: parallel plugins, nominations written beforehand, preemption during PreBind, and pods to activate."""

import asyncio

import pytest

from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import nothing_in_flight


def preparing(api_server, namespace, *plugins, points=("preBind",), **options):
    config = configuration(profile(**dict.fromkeys(points, plugins)))
    options = {"config": config, "plugins": plugins, "wrap": Tampered, "before": [("nodes", node("n1"))], **options}
    return scheduled(api_server, namespace, **options)


class Gate:
    """A PreBind that waits until the test lets it proceed, and records its outcome."""

    def __init__(self, answer=None):
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = ""
        self._answer = answer

    async def __call__(self, state, pod, node_name):
        self.began.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError as e:
            self.ended = f"cancelled: {e}"
            raise
        self.ended = "done"
        return self._answer


# -- the nomination ----------------------------------------------------------------------------------------------------


async def test_the_nomination_is_readable_during_pre_bind(api_server, namespace):
    gate = Gate()
    async with preparing(api_server, namespace, answering("A", pre_bind=gate)) as c:
        await c.objects.create("pods", pod("web"))
        await c.until(gate.began.is_set)
        assert (await c.pod("web"))["status"]["nominatedNodeName"] == "n1"
        uid = c.objects.made("pods", "web")["metadata"]["uid"]
        # The pod is no longer in flight, so its failures count as errors.
        assert not c.scheduler.queue.is_in_flight(uid)
        assert c.scheduler.state.is_assumed(uid)
        gate.go.set()
        await c.settle()
        assert await c.node_of("web") == "n1"


# -- preemption -------------------------------------------------------------------------------------------------------


def important(name="boss"):
    made = pod(name, priority=None)
    del made["spec"]["priority"]
    made["spec"]["priorityClassName"] = "system-cluster-critical"
    return filling(made)


def filling(made):
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    return made


async def check_preempted_before_binding(c, name):
    """The pod is refused as preempted, and is not deleted."""
    (event,) = await c.events(name, reason="Preempted")
    boss = await c.pod("boss")
    note = f"Preempted by pod {boss['metadata']['uid']} on node n1 (in kube-scheduler memory)."
    assert (event["note"], event["action"], event["type"]) == (note, "Preempting", "Normal")
    assert event["related"]["name"] == "boss"
    # It is not deleted.
    assert (await c.pod(name))["metadata"].get("deletionTimestamp") is None
    queued = c.queued(name)
    assert (queued.unschedulable_plugins, queued.pending_plugins) == (set(), set())
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (0, 1)


async def test_a_pod_in_pre_bind_is_preempted(api_server, namespace):
    gate = Gate()
    only_web = lambda state, pod, node: gate(state, pod, node) if pod.pod.metadata.name == "web" else None  # noqa: E731
    async with preparing(api_server, namespace, answering("A", pre_bind=only_web)) as c:
        await c.objects.create("pods", filling(pod("web")))
        await c.until(gate.began.is_set)
        await c.objects.create("pods", important())
        await c.until(lambda: gate.ended)
        await c.settle()
        assert gate.ended == "cancelled: preempted by DefaultPreemption"
        assert (await c.condition("web"))["message"] == "preempted by DefaultPreemption"
        assert (await c.condition("web"))["reason"] == "SchedulerError"
        assert c.place("web") == "ERROR_BACKOFF"
        await check_preempted_before_binding(c, "web")
        await c.advance(3.0)
        assert await c.node_of("boss") == "n1"
        assert nothing_in_flight(c)


# -- pods to activate --------------------------------------------------------------------------------------------------


def stashing(c_of, name):
    """An answer that adds the pod `name` to the pods to activate when `web` is scheduled."""

    def stash(state, pod, node_name):
        if pod.pod.metadata.name == "web":
            queued = c_of().queued(name)
            state.pods_to_activate.add(queued.pod)

    return stash


@pytest.mark.parametrize(
    ("points", "answers"),
    [
        pytest.param(["reserve", "permit"], {"permit": (unschedulable("no"), 0.0)}, id="permit"),
        pytest.param(["reserve"], {"reserve": None}, id="reserve"),
    ],
)
async def test_pods_are_not_activated_by_one_that_fails(api_server, namespace, points, answers):
    found = []
    stash = stashing(lambda: found[0], "other")

    def stash_and_refuse(state, pod, node_name):
        stash(state, pod, node_name)
        return unschedulable("no") if points == ["reserve"] else None

    a = answering("A", **{**answers, "reserve": stash_and_refuse})
    async with preparing(api_server, namespace, a, points=points) as c:
        found.append(c)
        await c.pods(pod("other", nodeSelector={"no": "where"}))
        await c.pods(pod("web"))
        assert c.place("web") == "UNSCHEDULABLE"
        assert (c.place("other"), c.queued("other").attempts) == ("UNSCHEDULABLE", 1)
