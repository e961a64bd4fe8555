"""When a pod that failed is tried again: to the second, under a clock that stands still until told otherwise."""

from math import ceil

import numpy as np
import pytest

from stowplan.config import DEFAULT_FEATURES
from stowplan.framework.events import NODE, Action, on
from stowplan.framework.rejections import Rejections
from stowplan.framework.status import Code, Reason, Status, unschedulable
from stowplan.live.scheduler import SchedulerSettings
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
    """Plugin A at Permit, which hears of new nodes, and a configuration with it."""
    a = answering("A", wakes=[on(NODE, Action.Add)])
    return a, {"config": configuration(profile(permit=[a]), **fields), "plugins": [a], "before": NODES}


def since(c, name, moment):
    """Moments of the pod's attempts, in seconds since that moment of the scheduler's clock."""
    begun = c.scheduler.clock() - c.time.now
    return [round(begun + t - moment, 3) for t in attempts(c, name)]


# -- errors: nothing but time helps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        # Until the whole second that the backoff ends in is over.
        pytest.param({}, [1, 2, 4, 8, 10, 10], id="default"),
        pytest.param({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, [3, 6, 7, 7], id="configured"),
        pytest.param({"podInitialBackoffSeconds": 4, "podMaxBackoffSeconds": 4}, [4, 4, 4], id="constant"),
        pytest.param({"podMaxBackoffSeconds": 3}, [1, 2, 3, 3], id="low ceiling"),
    ],
)
async def test_errors(api_server, namespace, fields, waits):
    a, made = permitting(**fields)
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, **made) as c:
        await at_fraction(c, 0.25)
        second = c.scheduler.clock() - 0.25
        await c.pods(pod())
        expected, whole = [0.25], 0
        for wait in waits:
            # In the second of its expiry it still backs off.
            whole += wait + 1
            expected.append(float(whole))
        await c.advance(whole - 0.5)
        assert since(c, "web", second) == expected[:-1]
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(0.25)
        assert since(c, "web", second) == expected
        # As much as a pod that always fails lets itself be seen.
        assert moves(c, "web")[-2:] == [("active", "BackoffComplete"), ("error backoff", "ScheduleAttemptFailure")]


async def test_the_part_of_a_second_does_not_count(api_server, namespace):
    """Pods that failed in one second come back in one, the more important ones first."""
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


async def test_errors_without_popping_early(api_server, namespace):
    """Then expiries are not rounded, and looked for once a second from the start."""
    a, made = permitting()
    a.answers["permit"] = OOPS
    async with scheduled(api_server, namespace, features=PATIENT, **made) as c:
        await c.advance(0.3)
        await c.pods(pod())
        # 0.3 + 1 is over at 2; 2 + 2 is over after 4; 5 + 4 is over after 9.
        await c.advance(30.0)
        assert attempts(c, "web") == [0.3, 2.0, 5.0, 10.0, 19.0, 30.0]


async def test_a_rejection_ends_a_row_of_errors(api_server, namespace):
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
        # The third error is the first in a row again.
        await c.advance(2.0)
        assert since(c, "web", second) == [0.5, 2.0, 5.0, 9.0, 11.0]


# -- rejections: an event and time -------------------------------------------------------------------------------------


async def test_rejections(api_server, namespace):
    """Without popping early: each time the event that wakes it comes at once, and it waits for the rest."""
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
            # Who looks when its backoff is just over finds it over a moment later.
            due = attempts(c, "web")[-1] + wait
            await c.advance(due - c.time.now)
            assert len(attempts(c, "web")) == tried
            await c.advance(1.0)
            assert attempts(c, "web")[-1] == (ceil(due) if due % 1 else due + 1)


async def test_backoff_goes_by_while_nobody_wakes_the_pod(api_server, namespace):
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
async def test_the_second_in_which_a_backoff_ends_belongs_to_it(api_server, namespace, after, place):
    """A pod that failed at .25 and may come back a second later."""
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


async def test_who_backs_off_is_tried_when_nobody_else_is_ready(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    async with scheduled(api_server, namespace, features=EAGER, **made) as c:
        await c.pods(pod())
        for number in range(3):
            await c.nodes(node(f"more-{number}"))
        assert attempts(c, "web") == [0.0] * 4
        woken = [("backoff", "NodeAdd"), ("unschedulable", "ScheduleAttemptFailure")]
        assert moves(c, "web")[2:] == woken * 3, "taken from where it backs off"
        assert c.scheduler.queue.incoming["active", "PopFromBackoffQ"] == 3
        assert c.queued("web").unschedulable_count == 4
        # Errors are another matter.
        a.answers["permit"] = OOPS
        await c.nodes(node("n5"))
        assert c.place("web") == "ERROR_BACKOFF"
        await c.nodes(node("n6"))
        assert (c.place("web"), len(attempts(c, "web"))) == ("ERROR_BACKOFF", 5)


async def test_who_is_ready_goes_before_who_backs_off(api_server, namespace):
    a, made = permitting()
    a.answers["permit"] = NO
    order = []
    async with scheduled(api_server, namespace, features=EAGER, **made) as c:
        await c.pods(pod("late", priorityClassName="system-node-critical"), pod("slow"))
        await c.advance(5.0)
        # Only one of them has just failed again.
        c.scheduler.queue.activate([c.queued("late").pod])
        await c.settle()
        a.answers["permit"] = lambda state, pod, node_name: order.append(pod.pod.metadata.name) or NO
        await c.nodes(node("n2"))
        assert order == ["slow", "late"]
        assert moves(c, "slow")[-2] == ("active", "NodeAdd")
        assert moves(c, "late")[-2] == ("backoff", "NodeAdd")


async def test_who_waits_for_something_outside_does_not_back_off(api_server, namespace):
    """A plugin that answered Pending says when: at once."""

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
        # What another plugin waits for is not what this pod waits for.
        await c.objects.patch("nodes", "n1", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert len(attempts(c, "web")) == 2


# -- five minutes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "looked"),
    [
        # The look at 300 seconds comes too early for a pod that has slept for 299.75.
        pytest.param(SchedulerSettings(), [330, 660], id="default"),
        pytest.param(SchedulerSettings(max_in_unschedulable=45.0), [60, 120], id="configured"),
    ],
)
async def test_who_has_slept_too_long(api_server, namespace, settings, looked):
    async with scheduled(api_server, namespace, before=NODES, settings=settings) as c:
        await c.advance(0.25)
        await c.pods(asking(pod(), cpu="64"))
        for number, look in enumerate(looked, 1):
            await c.advance(look - 0.25 - c.time.now)
            assert (len(attempts(c, "web")), c.queued("web").was_flushed) == (number, False)
            await c.advance(0.5)
            assert attempts(c, "web")[-1] == look
            assert moves(c, "web")[-2:] == [
                ("active", "UnschedulableTimeout"),
                ("unschedulable", "ScheduleAttemptFailure"),
            ]


async def test_who_has_slept_too_long_may_find_a_node(api_server, namespace):
    """A plugin that said too little of what it waits for does not keep a pod asleep for ever."""
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


# -- woken by name -----------------------------------------------------------------------------------------------------


async def test_activated_by_a_pod_that_is_scheduled(api_server, namespace):
    """Whoever sleeps, whoever backs off, but neither gated pods nor those that nobody knows."""

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


async def test_activated_while_in_flight(api_server, namespace):
    """The pod comes back, and is tried again although nothing happened that its plugin waits for."""
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
