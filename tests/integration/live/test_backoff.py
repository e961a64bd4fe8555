"""When a failed pod is retried, to the second, under a manual clock."""

from math import ceil

import numpy as np
import pytest

from stowplan.drivers.live.scheduler import SchedulerSettings
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.status import Code, Reason, Status, unschedulable
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
        pytest.param({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, [3, 6, 7, 7], id="configured"),
        pytest.param({"podInitialBackoffSeconds": 4, "podMaxBackoffSeconds": 4}, [4, 4, 4], id="constant"),
        pytest.param({"podMaxBackoffSeconds": 3}, [1, 2, 3, 3], id="low ceiling"),
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


async def test_backoff_expiry_is_rounded_to_whole_seconds(api_server, namespace):
    """Pods that failed within the same second return together, ordered by priority."""
    a, made = permitting()
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, **made) as c:
        await at_fraction(c, 0.125)
        second = c.scheduler.clock() - 0.125
        await c.pods(pod("early"))
        await c.advance(0.75)
        await c.pods(pod("late"))
        await c.advance(1.0)
        assert c.place("early") == c.place("late") == "ERROR_BACKOFF"
        await c.advance(0.25)
        assert since(c, "early", second) == [0.125, 2.0]
        assert since(c, "late", second) == [0.875, 2.0]


async def test_backoff_after_errors_without_popping_from_the_backoff_queue(api_server, namespace):
    """Without SchedulerPopFromBackoffQ expiries are not rounded, and are checked once per second since the start."""
    a, made = permitting()
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, features=PATIENT, **made) as c:
        await c.advance(0.3)
        await c.pods(pod())
        # 0.3 + 1 has passed at 2; 2 + 2 has passed after 4; 5 + 4 has passed after 9.
        await c.advance(30.0)
        assert attempts(c, "web") == [0.3, 2.0, 5.0, 10.0, 19.0, 30.0]


async def test_a_rejection_resets_the_count_of_consecutive_errors(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, **made) as c:
        await at_fraction(c, 0.5)
        second = c.scheduler.clock() - 0.5
        await c.pods(pod())
        await c.advance(4.0)
        a.answers["permit"] = NO
        await c.advance(4.5)
        assert c.place("web") == "UNSCHEDULABLE"
        a.answers["permit"] = OOPS
        await c.nodes(node("n2"))
        # The third error counts as the first in a row.
        await c.advance(2.0)
        assert since(c, "web", second) == [0.5, 2.0, 5.0, 9.0, 11.0]


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


async def test_backoff_elapses_while_the_pod_is_unschedulable(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, features=PATIENT, **made) as c:
        await c.pods(pod())
        await c.advance(1.25)
        await c.nodes(node("n2"))
        assert attempts(c, "web") == [0.0, 1.25]
        assert moves(c, "web")[-2:] == [("active", "NodeAdd"), ("unschedulable", "ScheduleAttemptFailure")]
        await c.advance(1.25)
        await c.nodes(node("n3"))
        assert (len(attempts(c, "web")), c.place("web")) == (2, "BACKOFF")


@pytest.mark.parametrize(
    ("after", "place"), [pytest.param(1.5, "backoff", id="in"), pytest.param(2.0, "active", id="after")]
)
async def test_an_event_in_the_second_of_expiry_still_finds_the_pod_backing_off(api_server, namespace, after, place):
    """The pod failed at .25 of a second, with a backoff of one second."""
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, **made) as c:
        await at_fraction(c, 0.25)
        await c.pods(pod())
        await c.advance(after - 0.25)
        await c.nodes(node("n2"))
        assert moves(c, "web")[2] == (place, "NodeAdd")


async def test_a_backoff_that_ends_just_after_the_pod_was_woken(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, features=PATIENT, **made) as c:
        await c.advance(0.97)
        await c.pods(pod())
        await c.advance(0.98)
        await c.nodes(node("n2"))
        assert c.place("web") == "BACKOFF"
        await c.advance(1.0)
        assert attempts(c, "web") == [0.97, 2.0]


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


async def test_active_pods_are_popped_before_pods_in_backoff(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    order = []
    async with scheduled(api_server, namespace, features=EAGER, **made) as c:
        await c.pods(pod("late", priorityClassName="system-node-critical"), pod("slow"))
        await c.advance(5.0)
        # Only one of the two has just failed again.
        c.scheduler.queue.activate([c.queued("late").pod])
        await c.settle()
        a.answers["permit"] = lambda state, pod, node_name: order.append(pod.pod.metadata.name) or NO
        await c.nodes(node("n2"))
        assert order == ["slow", "late"]
        assert moves(c, "slow")[-2] == ("active", "NodeAdd")
        assert moves(c, "late")[-2] == ("backoff", "NodeAdd")


async def test_pending_pods_skip_the_backoff(api_server, namespace):
    """A pod that a plugin refused with Pending returns immediately."""

    def pending(state, pod, nodes):
        return Rejections.where(np.ones(len(nodes), bool), Reason("Later", "later"), Code.Pending)

    a = answering("A", filter=pending, wakes=[on(NODE, Action.Add)])
    b = answering("B", wakes=[on(NODE, Action.UpdateNodeLabel)])
    config = configuration(profile(filter=[a, b]))
    made = {"config": config, "plugins": [a, b], "before": NODES, "features": PATIENT}
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod())
        assert (c.queued("web").unschedulable_plugins, c.queued("web").pending_plugins) == ({"A"}, {"A"})
        await c.nodes(node("n2"))
        assert attempts(c, "web") == [0.0, 0.0]
        assert moves(c, "web")[-2:] == [("active", "NodeAdd"), ("unschedulable", "ScheduleAttemptFailure")]
        # Events that another plugin waits for do not wake this pod.
        await c.objects.patch("nodes", "n1", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert len(attempts(c, "web")) == 2


# -- maximum time in the unschedulable pool ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "flushed_at"),
    [
        # At the check at 300 seconds the pod has been unschedulable for only 299.75.
        pytest.param(SchedulerSettings(), [330, 660], id="default"),
        pytest.param(SchedulerSettings(max_in_unschedulable=45.0), [60, 120], id="configured"),
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


async def test_a_flushed_pod_is_scheduled_if_it_fits_now(api_server, namespace):
    """The flush retries a pod also if its plugin registered for too few events."""
    a = answering("A", permit=NO)
    made = {"config": configuration(profile(permit=[a])), "plugins": [a], "before": NODES}
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod())
        a.answers["permit"] = (None, 0.0)
        await c.nodes(node("n2"))
        await c.advance(300.0)
        assert c.place("web") == "UNSCHEDULABLE"
        await c.advance(31.0)
        assert await c.node_of("web")
        assert moves(c, "web")[-1] == ("active", "UnschedulableTimeout")


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


async def test_a_pod_activated_while_in_flight(api_server, namespace):
    """An activated pod that fails is retried although no event has occurred that its plugin waits for."""
    a = answering("A", permit=(Status(Code.Wait), 60.0))
    made = {"config": configuration(profile(permit=[a])), "plugins": [a], "before": NODES, "features": PATIENT}
    async with scheduled(api_server, namespace, **made) as c:
        await c.pods(pod(), pod("other"))
        waiting = {w.pod.pod.metadata.name: w for w in c.scheduler.waiting_pods}
        c.scheduler.frameworks["default-scheduler"].handle.activate([waiting["web"].pod])
        for pod_ in waiting.values():
            pod_.reject("A", "no")
        await c.settle()
        assert (c.place("web"), c.place("other")) == ("BACKOFF", "UNSCHEDULABLE")
