"""When a failed pod is retried, to the second, under a manual clock."""

from math import ceil

import pytest

from stowplan.drivers.live.scheduler import SchedulerSettings
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking, at_fraction, attempts, moves

EAGER = DEFAULT_FEATURES
PATIENT = DEFAULT_FEATURES.with_gates({"SchedulerPopFromBackoffQ": False})
OOPS = RuntimeError("oops")
NODES = [("nodes", node("n1"))]
NO = (unschedulable("no"), 0.0)


def permitting(**fields):
    """Plugin A at Permit, which registers for new nodes, and a configuration with it."""
    a = answering("A", wakes=[on(NODE, Action.Add)])
    return a, {"config": configuration(profile(permit=[a]), **fields), "plugins": [a], "before": NODES}


def since(c, name, moment):
    """Times of the pod's attempts, in seconds since `moment` on the scheduler's clock."""
    begun = c.scheduler.clock() - c.time.now
    return [round(begun + t - moment, 3) for t in attempts(c, name)]


# -- errors: only time ends their backoff ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        # The backoff lasts until the end of the whole second in which it expires.
        pytest.param({}, [1, 2, 4, 8, 10, 10], id="default"),
    ],
)
async def test_backoff_after_errors(api_server, namespace, fields, waits):
    a, made = permitting(**fields)
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, **made) as c:
        await at_fraction(c, 0.25)
        second = c.scheduler.clock() - 0.25
        await c.pods(pod())
        expected, whole = [0.25], 0
        for wait in waits:
            # The pod still backs off during the second in which its backoff expires.
            whole += wait + 1
            expected.append(float(whole))
        await c.advance(whole - 0.5)
        assert since(c, "web", second) == expected[:-1]
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(0.25)
        assert since(c, "web", second) == expected
        # An error does not park the pod as unschedulable.
        assert moves(c, "web")[-2:] == [("active", "BackoffComplete"), ("error backoff", "ScheduleAttemptFailure")]


# -- rejections: an event and time end their backoff -------------------------------------------------------------------


async def test_backoff_after_rejections(api_server, namespace):
    """Each time a new node moves the pod to the backoff queue at once, where it waits for the rest of its backoff."""
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, features=PATIENT, **made) as c:
        await c.advance(0.5)
        await c.pods(pod())
        for number, wait in enumerate([1, 2, 4, 8, 10, 10]):
            tried = len(attempts(c, "web"))
            assert c.place("web") == "UNSCHEDULABLE"
            await c.nodes(node(f"more-{number}"))
            assert c.place("web") == "BACKOFF"
            assert moves(c, "web")[-1] == ("backoff", "NodeAdd")
            # A backoff that ends exactly at a check is noticed only by the next check.
            due = attempts(c, "web")[-1] + wait
            await c.advance(due - c.time.now)
            assert len(attempts(c, "web")) == tried
            await c.advance(1.0)
            assert attempts(c, "web")[-1] == (ceil(due) if due % 1 else due + 1)


async def test_pods_in_backoff_are_popped_if_the_active_queue_is_empty(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, features=EAGER, **made) as c:
        await c.pods(pod())
        for number in range(3):
            await c.nodes(node(f"more-{number}"))
        assert attempts(c, "web") == [0.0] * 4
        woken = [("backoff", "NodeAdd"), ("unschedulable", "ScheduleAttemptFailure")]
        assert moves(c, "web")[2:] == woken * 3, "popped from the backoff queue"
        assert c.scheduler.queue.incoming["active", "PopFromBackoffQ"] == 3
        assert c.queued("web").unschedulable_count == 4
        # Pods that failed with an error are not popped early.
        a.answers["permit"] = OOPS
        await c.nodes(node("n5"))
        assert c.place("web") == "ERROR_BACKOFF"
        await c.nodes(node("n6"))
        assert (c.place("web"), len(attempts(c, "web"))) == ("ERROR_BACKOFF", 5)


# -- maximum time in the unschedulable pool ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "flushed_at"),
    [
        # At the check at 300 seconds the pod has been unschedulable for only 299.75.
        pytest.param(SchedulerSettings(), [330, 660], id="default"),
    ],
)
async def test_unschedulable_pods_are_flushed_after_the_timeout(api_server, namespace, settings, flushed_at):
    async with scheduled(api_server, namespace, before=NODES, settings=settings) as c:
        await c.advance(0.25)
        await c.pods(asking(pod(), cpu="64"))
        for number, look in enumerate(flushed_at, 1):
            await c.advance(look - 0.25 - c.time.now)
            assert (len(attempts(c, "web")), c.queued("web").was_flushed) == (number, False)
            await c.advance(0.5)
            assert attempts(c, "web")[-1] == look
            assert moves(c, "web")[-2:] == [
                ("active", "UnschedulableTimeout"),
                ("unschedulable", "ScheduleAttemptFailure"),
            ]


# -- activated by plugins ----------------------------------------------------------------------------------------------


async def test_pods_activated_by_a_scheduled_pod(api_server, namespace):
    """Activates unschedulable pods and pods in backoff, but neither gated nor unknown pods."""

    def failing(state, pod, node_name):
        if pod.pod.metadata.name == "asleep":
            return NO
        raise OOPS

    def permit(state, pod, node_name):
        if pod.pod.metadata.name == "other":
            for one in wanted:
                state.pods_to_activate.add(one)
        return None, 0.0

    a, made = permitting()
    a.answers["permit"] = failing
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod("asleep"), pod("wrong"), pod("gated", schedulingGates=[{"name": "a"}]), pod("gone"))
        assert (c.place("asleep"), c.place("wrong")) == ("UNSCHEDULABLE", "ERROR_BACKOFF")
        wanted = [c.queued(name).pod for name in ("asleep", "wrong", "gated", "gone")]
        await c.objects.delete("pods", "gone")
        await c.settle()
        a.answers["permit"] = permit
        await c.pods(pod("other"))
        assert await c.node_of("other") == "n1"
        for name in ("asleep", "wrong"):
            assert moves(c, name)[-1] == ("active", "ForceActivate")
            assert attempts(c, name) == [0.0, 0.0]
            assert await c.node_of(name) == "n1"
        assert (c.queued("gated").gating_plugin, attempts(c, "gated")) == ("SchedulingGates", [])
        assert c.queued("gone") is None
