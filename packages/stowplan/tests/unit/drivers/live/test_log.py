"""Log lines about a pod at the verbosities that operators use, and the object of its event."""

import asyncio

import pytest

from stowplan.kube.klog.logger import configure
from stowplan.plugins import BindPlugin, EnqueueExtensions, NodeFilterPlugin, PermitPlugin
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.live.live_scheduler import live

#: Lines of these modules only.
MODULES = ("event_handlers", "engine", "scheduler", "schedule_one", "binding_cycle", "default_binder")
MODULES += ("context", "scheduling_queue", "default_preemption")


class Lines:
    def __init__(self):
        self.lines = []
        self.modules = MODULES

    def write(self, entry):
        *_, folder, module = entry.module.split(".")
        # A plugin is identified by its folder.
        if (folder if module == "plugin" else module) in self.modules:
            keys = {key: getattr(value, "key", None) or named(value) for key, value in entry.keys.items()}
            self.lines.append((entry.level, entry.message, keys))

    def take(self):
        taken, self.lines = self.lines, []
        return taken


def named(value):
    metadata = getattr(value, "metadata", None)
    return value if metadata is None else "/".join(filter(None, (metadata.namespace, metadata.name)))


@pytest.fixture
def log():
    found = Lines()
    configure(sink=found, verbosity=5)
    yield found
    configure()


NOW = DeleteOptions(grace_period_seconds=0)
POD = {"pod": "default/p"}
ENTITY = {"type": "pod", "entity": "default/p"}
PREEMPTING = {"logger": "PostFilter.DefaultPreemption"}


def moved(queue, event):
    return (5, "Entity moved to an internal scheduling queue", ENTITY | {"event": event, "queue": queue})


async def test_a_pod_is_created_bound_and_deleted(log):
    async with live(a_node("n").obj()) as cluster:
        assert log.take() == [
            (3, "Add event for node", {"node": "n"}),
            (2, "Added node to NodeTree", {"node": "n", "zone": ""}),
        ]
        await cluster.create(a_pod("p").obj())
        assert log.take() == [
            (3, "Add event for unscheduled pod", POD),
            moved("Active", "UnscheduledPodAdd"),
            (4, "About to try and schedule pod", POD),
            (3, "Attempting to schedule pod", POD),
            (3, "Attempting to bind pod to node", POD | {"node": "n", "logger": "Bind.DefaultBinder"}),
            (2, "Successfully bound pod to node", POD | {"node": "n", "evaluatedNodes": 1, "feasibleNodes": 1}),
            (3, "Add event for scheduled pod", POD),
            (3, "Delete event for unscheduled pod", POD),
        ]
        cluster.api.patch("pods", "default", "p", {"metadata": {"labels": {"a": "b"}}})
        cluster.api.delete("pods", "default", "p", options=NOW)
        cluster.api.patch("nodes", "", "n", {"metadata": {"labels": {"a": "b"}}})
        cluster.api.delete("nodes", "", "n")
        await cluster.settle()
        assert sorted(log.take(), key=str) == [
            (2, "Removed node from NodeTree", {"node": "n", "zone": ""}),
            (3, "Delete event for node", {"node": "n"}),
            (3, "Delete event for scheduled pod", POD),
            (4, "Update event for node", {"node": "n"}),
            *[(4, "Update event for scheduled pod", POD)] * 2,
        ]


async def test_a_pod_that_fits_nowhere(log):
    async with live(a_node("n").allocatable(cpu=1).obj()) as cluster:
        log.take()
        await cluster.create(a_pod("p").requests(cpu=2).obj())
        told = log.take()
        *_, attempting, hopeless, in_vain, post_filter, no_fit, checking, asleep, updating, update = told
        message = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        status = f"no new claims to deallocate, preemption: {message}"
        assert post_filter == (5, "Status after running PostFilter plugins for pod", POD | {"status": status})
        sizes = {"inFlightEventsSize": 1, "inFlightPodsSize": 1, "unschedulablePlugins": {"NodeResourcesFit": {}}}
        assert checking == (5, "Checking events for in-flight pod", POD | sizes)
        assert attempting == (3, "Attempting to schedule pod", POD)
        assert no_fit[:2] == (2, "Unable to schedule pod; no fit; waiting")
        assert hopeless == (3, "Preemption will not help schedule pod on any node", POD | PREEMPTING)
        text = "No preemption candidate is found; preemption is not helpful for scheduling"
        assert in_vain == (2, text, POD | PREEMPTING)
        keys = {"schedulingCycle": 1, "hint": 0, "unschedulable plugins": {"NodeResourcesFit": {}}}
        place = {"event": "ScheduleAttemptFailure", "queue": "Unschedulable"}
        assert asleep == (3, "Pod moved to an internal scheduling queue", POD | place | keys)
        assert updating[:2] == (3, "Updating pod condition and nominated node name")
        assert update == (4, "Update event for unscheduled pod", POD)
        cluster.api.delete("pods", "default", "p")
        await cluster.settle()
        # An API server marks a pod before it removes it.
        assert log.take() == [
            (4, "Update event for unscheduled pod", POD),
            (3, "Delete event for unscheduled pod", POD),
        ]


async def test_a_preempting_pod(log):
    log.modules = ("victim_evictions", "default_preemption")
    important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 5}
    async with live(a_node("n").allocatable(cpu=1, pods=10).obj(), important) as cluster:
        await cluster.create(a_pod("low").requests(cpu=1).obj())
        await cluster.create(a_pod("high").requests(cpu=1).spec(priorityClassName="c").obj())
        expected = {"preemptor": "default/high", "victim": "default/low", "node": "n"}
        told = log.take()
        assert (2, "Preemptor Pod preempted victim Pod", expected) in told
        where = {"pod": "default/high", "node": "n"} | PREEMPTING
        assert (2, "the target node for the preemption is determined", where) in told


async def test_a_non_preempting_pod(log):
    log.modules = ("default_preemption",)
    polite = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 5}
    polite["preemptionPolicy"] = "Never"
    async with live(a_node("n").allocatable(cpu=1, pods=10).obj(), polite) as cluster:
        await cluster.create(a_pod("low").requests(cpu=1).obj())
        await cluster.create(a_pod("p").requests(cpu=1).spec(priorityClassName="c").obj())
        reason = "not eligible due to preemptionPolicy=Never."
        assert log.take() == [(5, "Pod is not eligible for preemption", POD | PREEMPTING | {"reason": reason})]


async def test_shutdown(log):
    async with live():
        log.take()
    assert log.take() == [(2, "Scheduling queue is closed", {})]


async def test_known_kinds(log):
    log.modules = ("list_watch",)
    async with live():
        told = [line for line in log.take() if line[0] == 2]
    assert (2, "Caches populated", {"type": "*v1.Pod", "reflector": "pods"}) in told
    assert {line[:2] for line in told} == {(2, "Caches populated")}
    assert len(told) == len({line[2]["type"] for line in told})


async def test_a_node_that_changes_its_zone(log):
    async with live(a_node("n").zone("a").obj()) as cluster:
        log.take()
        cluster.api.patch("nodes", "", "n", {"metadata": {"labels": {"topology.kubernetes.io/region": "r"}}})
        await cluster.settle()
        assert log.take() == [
            (4, "Update event for node", {"node": "n"}),
            (2, "Removed node from NodeTree", {"node": "n", "zone": ":\0:a"}),
            (2, "Added node to NodeTree", {"node": "n", "zone": "r:\0:a"}),
        ]


async def test_a_pod_that_is_gated(log):
    log.modules = ("engine", "context", "places", "scheduling_queue")
    async with live(a_node("n").obj()) as cluster:
        await cluster.create(a_pod("p").spec(schedulingGates=[{"name": "g"}]).obj())
        status = "waiting for scheduling gates: [g]"
        text = "Entity moved to an internal scheduling queue"
        assert log.take() == [
            (4, "Status after running PreEnqueue plugin", POD | {"plugin": "SchedulingGates", "status": status}),
            (5, f"{text}, because it is gated", ENTITY | {"event": "UnscheduledPodAdd", "queue": "Unschedulable"}),
        ]
        cluster.api.patch("pods", "default", "p", {"spec": {"schedulingGates": []}})
        await cluster.settle()
        keys = {"event": "TargetPodUpdatePodSchedulingGatesEliminated", "queue": "Active"}
        assert (5, text, ENTITY | keys) in log.lines
        assert (5, f"{text} because the Pod is updated", ENTITY | POD | keys) in log.lines


async def test_events_and_unschedulable_pods(log):
    async with live(a_node("n").allocatable(cpu=1).obj()) as cluster:
        await cluster.create(a_pod("p").requests(cpu=2).obj())
        log.modules = ("scheduling_queue", "requeueing")
        log.take()
        # The rejecting plugins registered for it, but it does not help; and others alone registered for it.
        cluster.api.patch("nodes", "", "n", {"metadata": {"labels": {"a": "b"}}})
        await cluster.create(a_pod("other").on("n").obj())
        text = "Event is not making entity schedulable"
        assert (5, text, ENTITY | {"event": "NodeUpdateNodeLabel"}) in log.lines
        assert (5, text, ENTITY | {"event": "AssignedPodAdd"}) in log.lines


async def test_events_while_a_pod_is_in_flight(log):
    log.modules = ("scheduling_queue", "requeueing")
    async with live(a_node("n").obj(), config=bound_by(Refusing), plugins=[Refusing]) as cluster:
        queue = cluster.scheduler.queue
        await cluster.create(a_pod("waits").spec(nodeSelector={"a": "b"}).obj())
        log.take()
        await cluster.create(a_pod("p").spec(nodeSelector={"a": "b"}).obj())
        assert any(line[1] == "Checking events for in-flight pod" for line in log.take())
        queue.activate([cluster.scheduler.state.pending.get("default/p")])
        flying = queue.pop()
        queue.move_all(ASSIGNED_POD_DELETE, None, None)
        assert (5, "Event received while entities are in flight", {"event": "AssignedPodDelete"}) in log.take()
        flying.unschedulable_plugins = {"NodeResourcesFit"}
        queue.add_unschedulable_if_not_present(flying)
        assert (5, "Checking event for in-flight pod", POD | {"event": "AssignedPodDelete"}) in log.take()


async def test_a_pod_that_is_being_deleted(log):
    async with live() as cluster:
        log.take()
        await cluster.create(a_pod("p").obj())
        log.take()
        # A finalizer delays the deletion.
        cluster.api.patch("pods", "default", "p", {"metadata": {"finalizers": ["example.com/f"]}})
        cluster.api.delete("pods", "default", "p")
        await cluster.settle()
        log.take()
        await cluster.advance(3.0)
        found = log.take()
        assert [line for line in found if line[0] == 3] == [(3, "Skip schedule deleting pod", POD)]


class Refusing(BindPlugin):
    name = "Refusing"

    async def bind(self, state, pod, node_name):
        raise RuntimeError("no")


class Slow(BindPlugin):
    """Returns after the informer has observed the binding."""

    name = "Slow"

    async def bind(self, state, pod, node_name):
        meta = pod.pod.metadata
        await self.handle.api.bind(namespace=pod.namespace, name=meta.name, uid=meta.uid, node=node_name)
        for _ in range(1_000):
            await asyncio.sleep(0)
            if not self.handle.cluster.is_assumed(pod.uid):
                return
        raise AssertionError("nobody hears of the binding")


def configuration(**points):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": points}],
    }


def bound_by(plugin):
    return configuration(bind={"enabled": [{"name": plugin.name}], "disabled": [{"name": "*"}]})


async def test_a_pod_that_cannot_be_bound(log):
    async with live(a_node("n").obj(), config=bound_by(Refusing), plugins=[Refusing]) as cluster:
        await cluster.create(a_pod("p").obj())
        assert [line for line in log.take() if line[0] == 1] == [(1, "Failed to bind pod", POD)]


async def test_a_pod_that_is_on_a_node_already_cannot_be_assumed(log):
    """Such as one whose informer first reports it bound, then unbound."""
    async with live(validate=False) as cluster:
        await cluster.create(a_pod("p").obj())
        state = cluster.scheduler.state
        pending = state.pending.get("default/p")
        state.add_pod(pending.pod)
        state.pending.put(pending)
        log.take()
        await cluster.create(a_node("n").obj())
        await cluster.advance(3.0)
        assert (0, "Scheduler cache AssumePod failed", POD) in log.take()
        assert "is in the cache, so can't be assumed" in cluster.condition("p")["message"]


async def test_the_event_regards_the_pod_as_it_was_tried():
    async with live(a_node("n").obj(), config=bound_by(Slow), plugins=[Slow]) as cluster:
        cluster.api.server.create_all([a_pod("p").obj()])
        created = cluster.pod("p")["metadata"]["resourceVersion"]
        await cluster.settle()
        assert cluster.pod("p")["metadata"]["resourceVersion"] != created
        assert [event["regarding"]["resourceVersion"] for event in cluster.events("p", "Scheduled")] == [created]


class Switchable(NodeFilterPlugin, PermitPlugin, EnqueueExtensions):
    """Refuses pods until switched, for which there is no event; then makes pods wait."""

    name = "Switchable"
    says_no = True

    def filter_node(self, state, pod, node):
        return unschedulable("no") if Switchable.says_no else None

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 10.0

    def events_to_register(self):
        return ()


SWITCHABLE = configuration(**{point: {"enabled": [{"name": "Switchable"}]} for point in ("filter", "permit")})


async def test_a_flushed_pod_then_waits_on_permit(log):
    Switchable.says_no = True
    async with live(a_node("n").obj(), config=SWITCHABLE, plugins=[Switchable]) as cluster:
        await cluster.create(a_pod("p").obj())
        await cluster.advance(40.0)
        Switchable.says_no = False
        await cluster.advance(291.0)
        assert (4, "Pod waiting on permit", POD) in log.take()
        cluster.scheduler.waiting_pods.get(cluster.pod("p")["metadata"]["uid"]).allow("Switchable")
        await cluster.settle()
        text = "Pod scheduled after flush from unschedulablePods"
        keys = POD | {"unschedulablePlugins": ["Switchable"], "pendingPlugins": []}
        assert [line for line in log.take() if line[0] == 4 and "flush" in line[1]] == [(4, text, keys)]


async def test_a_pod_that_times_out_on_permit(log):
    Switchable.says_no = False
    async with live(a_node("n").obj(), config=SWITCHABLE, plugins=[Switchable]) as cluster:
        await cluster.create(a_pod("p").obj())
        log.take()
        await cluster.advance(10.0)
        status = "rejected due to timeout after waiting 10s at plugin Switchable"
        assert (4, "Pod rejected while waiting on permit", POD | {"status": status}) in log.take()
