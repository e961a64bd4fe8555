"""Metrics in each phase of a pod's life: labels and counts."""

from collections import Counter
from random import Random

import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan.scheduler.framework.diagnosis import from_statuses
from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.interface import PreBindPreFlightResult
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import raising, tampered
from support.examples import times
from support.live.live_scheduler import live
from support.observing.metrics import numbers
from support.plugins.answering_plugins import answering, configuration, profile

DEFAULT = "default-scheduler"
WAIT = (Status(Code.Wait, ()), 10.0)

TWO_NODES = (a_node("n1").obj(), a_node("n2").obj())
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 10,
}
FULL = (HIGH, a_node("n").allocatable(cpu=1, pods=10).obj(), a_pod("victim").requests(cpu="1").on("n").obj())


def at(metrics, point):
    """Status -> number of runs of an extension point."""
    found = numbers(metrics.framework_extension_point_duration_seconds)
    return {status: count for (name, status, _), count in found.items() if name == point}


def plugins_of(*classes):
    """Options of a live scheduler for plugins at the points that they have answers for."""
    points = {}
    for plugin in classes:
        for point in {POINTS[method] for method in plugin.answers}:
            points.setdefault(point, []).append(plugin)
    return {"config": configuration(profile(**points)), "plugins": classes}


POINTS = {
    "pre_filter": "preFilter",
    "filter": "filter",
    "post_filter": "postFilter",
    "pre_score": "preScore",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "pre_bind": "preBind",
    "pre_bind_pre_flight": "preBind",
    "post_bind": "postBind",
}

BOUND = {"schedule_attempts_total": {("scheduled", DEFAULT): 1}, "pod_scheduling_attempts": 1}
UNFIT = {"schedule_attempts_total": {("unschedulable", DEFAULT): 1}, "pod_scheduling_attempts": 0}
FAILED = {"schedule_attempts_total": {("error", DEFAULT): 1}, "pod_scheduling_attempts": 0}


@pytest.mark.parametrize(
    ("objects", "pod", "options", "expected"),
    [
        pytest.param(
            TWO_NODES,
            a_pod("p"),
            {},
            {
                **BOUND,
                "scheduling_attempt_duration_seconds": {("scheduled", DEFAULT): 1},
                "scheduling_algorithm_duration_seconds": 1,
                "pod_scheduling_sli_duration_seconds": {"1": 1},
                "pod_scheduled_after_flush_total": 0,
                "queue_incoming_pods_total": {("active", "UnscheduledPodAdd"): 1},
                "preemption_attempts_total": 0,
                "batch_attempts_total": {(DEFAULT, "no_hint"): 1},
                "get_node_hint_duration_seconds": {("no_hint", DEFAULT): 1},
                "permit_wait_duration_seconds": {},
                "goroutines": {},
            },
            id="bound",
        ),
        pytest.param(
            TWO_NODES,
            a_pod("p").requests(cpu="1000"),
            {},
            {
                **UNFIT,
                "scheduling_attempt_duration_seconds": {("unschedulable", DEFAULT): 1},
                "scheduling_algorithm_duration_seconds": 1,
                "pod_scheduling_sli_duration_seconds": {},
                "queue_incoming_pods_total": {
                    ("active", "UnscheduledPodAdd"): 1,
                    ("unschedulable", "ScheduleAttemptFailure"): 1,
                },
                "pending_pods": {"unschedulable": 1},
                "unschedulable_pods": {("NodeResourcesFit", DEFAULT): 1},
                "preemption_attempts_total": 1,
                "preemption_victims": 0,
            },
            id="fits nowhere",
        ),
        pytest.param(
            (),
            a_pod("p"),
            {},
            {
                # Parity: without any node the pod is rejected, and backs off as after an error.
                **UNFIT,
                "scheduling_algorithm_duration_seconds": 1,
                "pending_pods": {"backoff": 1},
                "framework_extension_point_duration_seconds": {("PreEnqueue", "Success", DEFAULT): 2},
            },
            id="no nodes",
        ),
        pytest.param(
            TWO_NODES,
            a_pod("p").gated("wait"),
            {},
            {
                "schedule_attempts_total": {},
                "queue_incoming_pods_total": {("unschedulable", "UnscheduledPodAdd"): 1},
                "pending_pods": {"gated": 1},
                "unschedulable_pods": {("SchedulingGates", DEFAULT): 1},
                "framework_extension_point_duration_seconds": {("PreEnqueue", "Success", DEFAULT): 1},
            },
            id="gated",
        ),
        pytest.param(
            TWO_NODES,
            a_pod("p"),
            {"wrap": tampered(bind=raising(Forbidden("the test says no")))},
            FAILED,
            id="not bound",
        ),
        pytest.param(
            FULL,
            a_pod("p").requests(cpu="1").spec(priorityClassName="high"),
            {},
            {
                **UNFIT,
                "preemption_attempts_total": 1,
                "preemption_victims": 1,
                "preemption_goroutines_duration_seconds": {"success": 1},
                "preemption_goroutines_execution_total": {"success": 1},
            },
            id="preempts",
        ),
    ],
)
async def test_metrics_of_attempts(objects, pod, options, expected):
    async with live(*objects, **options) as cluster:
        await cluster.create(pod.obj())
        cluster.scheduler.refresh_metrics()
        metrics = cluster.scheduler.metrics
        assert {name: numbers(getattr(metrics, name)) for name in expected} == expected


SUCCESS = {"Success": 1}
ALL_POINTS = {
    **dict.fromkeys(("PreEnqueue", "Sign", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"), SUCCESS),
    **dict.fromkeys(("PreBind", "Bind", "PostBind"), SUCCESS),
    "PreBindPreFlight": {"Skip": 1},
    "PostFilter": {},
    "Unreserve": {},
}


@pytest.mark.parametrize(
    ("answers", "pods", "expected"),
    [
        pytest.param({}, (a_pod("p"),), ALL_POINTS, id="bound"),
        pytest.param({}, (a_pod("p").node_selector(a="n1"),), {"PreFilter": SUCCESS, "Filter": SUCCESS}, id="selector"),
        pytest.param(
            {"pre_filter": unschedulable("no")},
            (a_pod("p"),),
            {"PreFilter": {"Unschedulable": 1}, "Filter": {}, "PostFilter": {"Unschedulable": 1}, "Score": {}},
            id="PreFilter says no",
        ),
        pytest.param(
            {"pre_filter": error("oops")},
            (a_pod("p"),),
            {"PreFilter": {"Error": 1}, "Filter": {}, "PostFilter": {}},
            id="PreFilter fails",
        ),
        pytest.param(
            {"filter": error("oops")},
            (a_pod("p"),),
            {"PreFilter": SUCCESS, "Filter": {"Error": 1}, "PostFilter": {}, "Score": {}},
            id="Filter fails",
        ),
        pytest.param(
            {"post_filter": error("oops")},
            (a_pod("p").requests(cpu="1000"),),
            {"Filter": SUCCESS, "PostFilter": {"Error": 1}, "Score": {}},
            id="PostFilter fails",
        ),
        pytest.param(
            {"score": lambda state, pod, nodes: error("oops")},
            (a_pod("p"),),
            {"PreScore": SUCCESS, "Score": {"Error": 1}, "Reserve": {}},
            id="Score fails",
        ),
        pytest.param(
            {"pre_score": error("oops")},
            (a_pod("p"),),
            {"Filter": SUCCESS, "PreScore": {"Error": 1}, "Score": {}, "Reserve": {}},
            id="PreScore fails",
        ),
        pytest.param(
            {"reserve": unschedulable("no")},
            (a_pod("p"),),
            {"Reserve": {"Unschedulable": 1}, "Unreserve": SUCCESS, "Permit": {}},
            id="Reserve says no",
        ),
        pytest.param(
            {"permit": (unschedulable("no"), 0.0)},
            (a_pod("p"),),
            {"Reserve": SUCCESS, "Permit": {"Unschedulable": 1}, "Unreserve": SUCCESS, "Bind": {}},
            id="Permit says no",
        ),
        pytest.param({"permit": WAIT}, (a_pod("p"),), {"Permit": {"Wait": 1}, "PreBind": {}}, id="Permit waits"),
        pytest.param(
            {"pre_bind": error("oops"), "pre_bind_pre_flight": PreBindPreFlightResult()},
            (a_pod("p"),),
            {"PreBindPreFlight": SUCCESS, "PreBind": {"Error": 1}, "Bind": {}, "Unreserve": SUCCESS},
            id="PreBind fails",
        ),
        pytest.param(
            {},
            (a_pod("p"), a_pod("q")),
            {point: {"Success": 2} for point in ("Sign", "PreFilter", "Filter", "PreScore", "Score")},
            id="equal pods",
        ),
    ],
)
async def test_extension_points(answers, pods, expected):
    options = plugins_of(answering("P", **answers)) if answers else {}
    async with live(*TWO_NODES, **options) as cluster:
        await cluster.create(*(pod.obj() for pod in pods))
        metrics = cluster.scheduler.metrics
        assert {point: at(metrics, point) for point in expected} == expected


async def test_permit_wait_duration():
    gate = answering("Gate", permit=WAIT)
    async with live(a_node("n").obj(), **plugins_of(gate)) as cluster:
        await cluster.create(a_pod("allowed").obj(), a_pod("late").obj())
        metrics = cluster.scheduler.metrics
        assert numbers(metrics.goroutines) == {"binding": 2}
        assert numbers(metrics.permit_wait_duration_seconds) == {}
        await cluster.advance(2.0)
        uid = cluster.pod("allowed")["metadata"]["uid"]
        cluster.scheduler.waiting_pods.get(uid).allow("Gate")
        await cluster.settle()
        await cluster.advance(9.0)
        waits = {values[0]: (child.count, child.sum) for values, child in metrics.permit_wait_duration_seconds.series()}
        assert waits == {"Success": (1, 2.0), "Unschedulable": (1, 10.0)}
        assert numbers(metrics.goroutines) == {}
        # This time also counts for the pod.
        bound = metrics.scheduling_attempt_duration_seconds.with_label_values("scheduled", DEFAULT)
        assert (bound.count, bound.sum) == (1, 2.0)


async def test_sli_duration_starts_when_the_pod_is_first_ready():
    async with live(a_node("n").allocatable(cpu=1, pods=10).obj()) as cluster:
        await cluster.create(a_pod("first").requests(cpu="1").obj(), a_pod("p").requests(cpu="1").obj())
        await cluster.advance(20.0)
        await cluster.delete("pods", "first")
        await cluster.advance(5.0)
        assert cluster.place("p") is None
        sli = cluster.scheduler.metrics.pod_scheduling_sli_duration_seconds
        assert numbers(sli) == {"1": 1, "2": 1}
        assert sli.with_label_values("2").sum == pytest.approx(20.0)
        assert cluster.scheduler.metrics.pod_scheduling_attempts.sum == 3


async def test_a_flushed_pod():
    refused = [unschedulable("not yet")]
    moody = answering("Moody", pre_filter=lambda *_: refused[0])
    async with live(a_node("n").obj(), **plugins_of(moody)) as cluster:
        await cluster.create(a_pod("p").obj())
        assert cluster.place("p") is Place.UNSCHEDULABLE
        refused[0] = None
        await cluster.advance(340.0)
        assert cluster.place("p") is None
        assert cluster.scheduler.metrics.pod_scheduled_after_flush_total.value == 1


async def test_equal_pods_are_hints_for_each_other():
    async with live(*TWO_NODES) as cluster:
        await cluster.create(*(a_pod(f"p{i}").obj() for i in range(3)), a_pod("other").requests(cpu="1").obj())
        metrics = cluster.scheduler.metrics
        assert numbers(metrics.batch_attempts_total) == {(DEFAULT, "no_hint"): 2, (DEFAULT, "hint_used"): 2}
        assert numbers(metrics.get_node_hint_duration_seconds) == {("no_hint", DEFAULT): 2, ("hint", DEFAULT): 2}


async def test_plugin_evaluation_counters_start_at_zero():
    asked = answering("Asked", filter=None, score=None, pre_filter=None)
    skipping = answering("Skipping", pre_filter=Status(Code.Skip), filter=None)
    async with live(*TWO_NODES, **plugins_of(asked, skipping)) as cluster:
        evaluations = cluster.scheduler.metrics.plugin_evaluation_total

        def counted(plugin):
            found = {values: child.value for values, child in evaluations.series()}
            return {point: count for (name, point, _), count in found.items() if name == plugin}

        assert counted("Asked") == {"PreFilter": 0, "Filter": 0, "Score": 0}
        await cluster.create(a_pod("p").obj())
        assert counted("Asked") == {"PreFilter": 1, "Filter": 2, "Score": 2}
        assert counted("Skipping") == {"PreFilter": 0, "Filter": 0}


@pytest.mark.parametrize("drawn", [True, False])
async def test_single_calls_are_timed_in_sampled_cycles(drawn):
    plugin = answering("P", pre_filter=None, filter=None, score=None, reserve=None, permit=(None, 0.0), post_bind=None)
    async with live(*TWO_NODES, **plugins_of(plugin)) as cluster:
        for framework in cluster.scheduler.frameworks.values():
            framework.metrics._chance = lambda: 0.0999 if drawn else 0.1
        await cluster.create(a_pod("p").obj())
        found = numbers(cluster.scheduler.metrics.plugin_execution_duration_seconds)
        ours = {point: count for (name, point, status), count in found.items() if name == "P" and status == "Success"}
        points = ("PreFilter", "Filter", "Score", "ScoreExtensionNormalize", "Reserve", "Permit", "PostBind")
        assert ours == (dict.fromkeys(points, 1) if drawn else {})
        assert bool(found) is drawn
        if drawn:
            assert found["DefaultBinder", "Bind", "Success"] == 1
            assert found["SchedulingGates", "PreEnqueue", "Success"] == 1
            assert found["NodePorts", "PreFilter", "Skip"] == 1


async def test_events():
    """Each handler's own label, and that of each change; events that no plugin registered for are not handled."""
    async with live(*TWO_NODES) as cluster:
        durations = cluster.scheduler.metrics.event_handling_duration_seconds
        assert numbers(durations)["NodeAdd"] == 2

        async def heard(doing):
            before = Counter(numbers(durations))
            await doing
            await cluster.settle()
            return dict(Counter(numbers(durations)) - before)

        bound = {"UnscheduledPodAdd": 1, "AssignedPodAdd": 1, "UnscheduledPodDelete": 1}
        assert await heard(cluster.create(a_pod("p").obj())) == bound
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert await heard(cluster.patch("pods", "p", labels)) == {
            "AssignedPodUpdatePodLabel": 1,
            "AssignedPodUpdate": 1,
        }
        nothing = {"metadata": {"annotations": {"a": "b"}}}
        assert await heard(cluster.patch("pods", "p", nothing)) == {"AssignedPodUpdate": 2}
        assert await heard(cluster.patch("nodes", "n1", labels)) == {"NodeUpdateNodeLabel": 1}
        # The deletion starts as an update.
        gone = {"AssignedPodUpdate": 2, "AssignedPodDelete": 1}
        assert await heard(cluster.delete("pods", "p")) == gone
        assert await heard(cluster.delete("nodes", "n2")) == {"NodeDelete": 1}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
        service["spec"] = {"ports": [{"port": 1}]}
        assert await heard(cluster.create(service)) == {}
        storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}}
        assert await heard(cluster.create({**storage, "provisioner": "p"})) == {"storage.k8s.io/StorageClassAdd": 1}


async def test_hints_and_sizes():
    async with live(a_node("n").allocatable(cpu=1, pods=10).obj()) as cluster:
        await cluster.create(a_pod("on").requests(cpu="1").obj(), a_pod("p").requests(cpu="1").obj())
        metrics = cluster.scheduler.metrics
        hints = metrics.queueing_hint_execution_duration_seconds
        await cluster.create(a_node("small").allocatable(cpu="500m", pods=10).obj())
        assert numbers(hints) == {("NodeResourcesFit", "NodeAdd", "QueueSkip"): 1}
        await cluster.delete("pods", "on")
        assert numbers(hints)["NodeResourcesFit", "AssignedPodDelete", "Queue"] == 1
        cluster.scheduler.refresh_metrics()
        assert {values[0] for values, _ in metrics.inflight_events.series()} == {"PodPopped"}
        await cluster.advance(3.0)
        cluster.scheduler.refresh_metrics()
        assert numbers(metrics.cache_size) == {"nodes": 2, "pods": 1}
        assert numbers(metrics.pending_pods) == {}
        assert numbers(metrics.unschedulable_pods) == {}


async def test_events_in_flight_are_counted_while_a_pod_waits():
    gate = answering("Gate", permit=WAIT)
    async with live(a_node("n").obj(), **plugins_of(gate)) as cluster:
        await cluster.create(a_pod("p").obj())
        await cluster.create(a_node("more").obj())
        metrics = cluster.scheduler.metrics
        cluster.scheduler.refresh_metrics()
        assert numbers(metrics.inflight_events) == {"PodPopped": 1, "NodeAdd": 1}
        assert numbers(metrics.cache_size) == {"nodes": 2, "pods": 1, "assumed_pods": 1}
        await cluster.advance(11.0)
        cluster.scheduler.refresh_metrics()
        assert numbers(metrics.inflight_events) == {}


async def test_a_failing_hint_has_its_own_label():
    def oops(pod, old, new):
        raise RuntimeError("oops")

    plugin = answering("P", filter=unschedulable_everywhere, wakes=(on(NODE, Action.Add, oops),))
    async with live(a_node("n").obj(), **plugins_of(plugin)) as cluster:
        await cluster.create(a_pod("p").obj())
        await cluster.create(a_node("m").obj())
        found = numbers(cluster.scheduler.metrics.queueing_hint_execution_duration_seconds)
        assert found["P", "NodeAdd", "Error"] == 1


def unschedulable_everywhere(state, pod, nodes):
    return from_statuses(dict.fromkeys(range(len(nodes)), unschedulable("no")), len(nodes))


@pytest.mark.parametrize("seed", range(times(6)))
async def test_counts_agree_with_the_state(seed):
    """Nodes and pods are added and removed; incremental counts must agree with the cluster and the queue in the end."""
    random, moves = Random(seed), Counter()
    async with live(a_node("n0").allocatable(cpu=2, pods=10).obj(), random=random) as cluster:
        scheduler, metrics = cluster.scheduler, cluster.scheduler.metrics
        told = scheduler.stories.moved

        def moved(queued, place, cause):
            if place in QUEUES:
                moves[QUEUES[place], cause] += 1
            told(queued, place, cause)

        scheduler.stories.moved = moved
        for i in range(30):
            what = random.choice(("pod", "pod", "pod", "node", "time", "gone"))
            if what == "pod":
                pod = a_pod(f"p{i}").requests(cpu=f"{random.choice((100, 1500, 9000))}m")
                await cluster.create((pod.node_selector(a="b") if random.random() < 0.2 else pod).obj())
            elif what == "node":
                await cluster.create(a_node(f"n{i + 1}").allocatable(cpu=2, pods=10).obj())
            elif what == "time":
                await cluster.advance(random.choice((0.5, 3.0, 40.0)))
            elif pods := cluster.api.names("pods"):
                await cluster.delete("pods", random.choice(pods))
        attempts = numbers(metrics.schedule_attempts_total)
        assert sum(attempts.values()) == scheduler.queue.scheduling_cycle
        assert numbers(metrics.scheduling_attempt_duration_seconds) == attempts
        assert numbers(metrics.scheduling_algorithm_duration_seconds) == sum(attempts.values())
        assert numbers(metrics.pod_scheduling_attempts) == attempts["scheduled", DEFAULT]
        assert sum(numbers(metrics.pod_scheduling_sli_duration_seconds).values()) == attempts["scheduled", DEFAULT]
        assert sum(at(metrics, "PreFilter").values()) == sum(attempts.values())
        assert sum(at(metrics, "Bind").values()) == attempts["scheduled", DEFAULT]
        incoming = Counter(numbers(metrics.queue_incoming_pods_total))
        # A pod popped early is counted as entering the active queue.
        del incoming["active", "PopFromBackoffQ"]
        assert incoming == moves
        scheduler.refresh_metrics()
        assert numbers(metrics.pending_pods) == {
            name: count for name, count in scheduler.queue.counts().items() if count
        }
        assert numbers(metrics.cache_size)["nodes"] == scheduler.state.table.count


QUEUES = {
    Place.ACTIVE: "active",
    Place.BACKOFF: "backoff",
    Place.ERROR_BACKOFF: "backoff",
    Place.UNSCHEDULABLE: "unschedulable",
}
