"""Replaying recorded runs has the same effects, byte for byte.

test_soak.py, test_crowds.py, tests/chaos and test_hang_guard.py do the same with their runs.
"""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import msgspec
import numpy as np
import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError, NotFound, TooManyRequests
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.timing.times import ManualTime
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.plugins import (
    SKIP,
    Action,
    Code,
    Create,
    Delete,
    Done,
    EnqueueExtensions,
    FilterPlugin,
    Hint,
    Patch,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    Read,
    Reason,
    Rejections,
    Status,
    Update,
    Wait,
    custom_resource,
    error,
    on,
    unschedulable,
)
from stowplan.testing import a_node, a_pod
from support.api import manifests
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.preempting import priority_class


def kinds_of(recorded):
    """The recorded inputs."""
    return {msgspec.json.decode(line)[1] for line in recorded.lines[1:]}


def small_node(name="n1", **labels):
    return a_node(name).labels(**labels).allocatable(cpu=2, pods=110).obj()


@asynccontextmanager
async def replayed(*objects, plugins=(), extenders=(), **options):
    """A run whose replay must have the same effects."""
    recorded = Recorded()
    options |= {"plugins": plugins, "extenders": extenders, "recorder": recorded.recorder}
    async with live(*objects, **options) as cluster:
        cluster.recorded = recorded
        yield cluster
    recorded.check(*plugins, extenders=extenders)


async def turns(number=200):
    for _ in range(number):
        await asyncio.sleep(0)


async def pass_time(cluster, seconds):
    """Advance time even if not everything settles in between: failures are retried later."""
    end = cluster.time.now + seconds
    await turns()
    while cluster.time.next_alarm(end):
        await turns()


async def busy_cluster(recorded, **options):
    """Pods that fit, unschedulable pods, a preemption, a new node, deleted pods."""
    async with live(a_node("n1").allocatable(cpu=2, pods=110).obj(), recorder=recorded.recorder, **options) as cluster:
        await cluster.create(priority_class("urgent", 100))
        await cluster.create(*(a_pod(f"p{i}").requests(cpu="500m").obj() for i in range(6)))
        await cluster.create(a_pod("urgent").priority(100, class_name="urgent").requests(cpu="1500m").obj())
        await cluster.advance(3.0)
        await cluster.create(a_node("n2").allocatable(cpu=2, pods=110).obj())
        await cluster.advance(10.0)
        await cluster.delete("pods", "urgent")
        await cluster.advance(30.0)


async def test_a_run_is_replayed():
    recorded = Recorded()
    await busy_cluster(recorded)
    assert len(recorded.effects) > 50
    recorded.check()
    assert b'"type":"Delete"' in b"".join(b"".join(step) for step in recorded.effects), "no pod was evicted"
    assert kinds_of(recorded) >= {"Changes", "Started", "Schedule", "Answer", "Tick", "Stopped", "Closing"}


async def test_a_recording_from_the_middle_is_replayed():
    recorded = Recorded()
    async with live(small_node()) as cluster:
        await cluster.create(*(a_pod(f"p{i}").requests(cpu="500m").obj() for i in range(6)))
        await cluster.advance(3.0)
        cluster.scheduler.record(recorded.recorder)
        with pytest.raises(RuntimeError, match="recorded already"):
            cluster.scheduler.record(recorded.recorder)
        await cluster.create(small_node("n2"), a_pod("p6").requests(cpu="500m").obj())
        await cluster.advance(10.0)
        assert cluster.node_of("p6") == "n2"
    recorded.check()
    assert b'"dump":{' in recorded.lines[0]
    assert kinds_of(recorded) >= {"Changes", "Schedule", "Answer", "Tick", "Stopped", "Closing"}


async def test_a_different_response_is_detected():
    recorded = Recorded()
    await busy_cluster(recorded)
    lines = list(recorded.lines)
    which = next(i for i, line in enumerate(lines) if b'"Answer"' in line)
    now, name, (number, *_), *rest = msgspec.json.decode(lines[which])
    lines[which] = msgspec.json.encode([now, name, [number, "Refused", ["Conflict", "no", 409]], *rest])
    assert recorded.replayed(lines=lines) != recorded.effects


# -- plugins' coroutines -----------------------------------------------------------------------------------------------


class Gang(PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Pods wait for each other on Permit; coroutines between two steps decide about them."""

    name = "Gang"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        #: UIDs of pods that have waited in PreBind.
        self.waited = set()

    def permit(self, state, pod, node_name):
        return (Status(Code.Wait), 600.0) if "gang" in pod.labels else (None, 0.0)

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if pod.labels.keys() & {"frees", "refuses", "waits", "stops", "fails", "gives-up"} else SKIP

    async def pre_bind(self, state, pod, node_name):
        labels, handle = pod.labels, self.handle
        await asyncio.sleep(0)
        for waiting in handle.waiting_pods:
            if "frees" in labels:
                waiting.allow(self.name)
            elif "refuses" in labels:
                waiting.reject(self.name, "the gang is full")
        for uid in handle.pods_in_pre_bind.uids():
            if "stops" in labels and uid != pod.uid:
                handle.pods_in_pre_bind.get(uid).cancel("stopped")
        if "waits" in labels and pod.uid not in self.waited:
            self.waited.add(pod.uid)
            await asyncio.Event().wait()
        if "fails" in labels:
            return error("no volume")
        if "gives-up" in labels:
            raise asyncio.CancelledError
        node = await handle.api.get(Node, node_name)
        handle.event_recorder.event(
            pod.pod, type_="Normal", reason="Prepared", action="Binding", note=node_name, related=node
        )
        return None

    async def post_bind(self, state, pod, node_name):
        self.handle.activate(list(self.handle.cluster.pending.values()))


GANG = configuration(profile(permit=[Gang], preBind=[Gang], postBind=[Gang]))


async def test_actions_of_coroutines_between_steps():
    async with replayed(small_node(), config=GANG, plugins=[Gang]) as cluster:
        for name, label in (("w1", "gang"), ("w2", "gang"), ("big", "big")):
            await cluster.create(a_pod(name).labels(**{label: "1"}).requests(cpu="9" if label == "big" else "1m").obj())
        await cluster.create(a_pod("refuses").labels(refuses="1").obj())
        assert "the gang is full" in cluster.condition("w1")["message"]
        await cluster.advance(30.0)
        await cluster.create(a_pod("frees").labels(frees="1").obj())
        assert cluster.node_of("w1") == cluster.node_of("w2") == "n1"
        cluster.server.create_all([a_pod("waits").labels(waits="1").obj()])
        await turns()
        await cluster.create(a_pod("stops").labels(stops="1").obj())
        assert "stopped" in cluster.events("waits", "FailedScheduling")[0]["note"]
        assert cluster.node_of("stops") == "n1"
        recorded = cluster.recorded
        assert kinds_of(recorded) >= {"Activated", "Allowed", "Rejected", "Cancelled", "Told"}
        assert len(cluster.events(reason="Prepared")) == 4


async def test_coroutines_that_fail_or_are_cancelled():
    async with replayed(small_node(), config=GANG, plugins=[Gang]) as cluster:
        await cluster.create(a_pod("fails").labels(fails="1").obj())
        assert "no volume" in cluster.condition("fails")["message"]
        await cluster.create(a_pod("gives-up").labels(**{"gives-up": "1"}).obj())
        assert "gave up" in cluster.condition("gives-up")["message"]
        await cluster.advance(20.0)


async def test_a_wait_on_permit_that_ends_by_itself():
    async with replayed(small_node(), config=GANG, plugins=[Gang]) as cluster:
        await cluster.create(a_pod("w").labels(gang="1").obj(), a_pod("gone").labels(gang="1").obj())
        await cluster.delete("pods", "gone")
        await cluster.advance(700.0)
        assert "rejected due to timeout" in cluster.condition("w")["message"]


# -- steps and their outcomes ------------------------------------------------------------------------------------------


class Steps(PreBindPlugin):
    """Makes every kind of request, and records the outcomes."""

    name = "Steps"

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if pod.labels else SKIP

    def pre_bind(self, state, pod, node_name):
        said = []
        outcome = yield Read(kind=Node, namespace="", name=node_name)
        said.append(_told(outcome))
        if isinstance(outcome, Done):
            said.append(_told((yield Update(obj=outcome.value))))
        patch = {"metadata": {"annotations": {"step": "1"}}}
        said.append(_told((yield Patch(kind=Pod, namespace=pod.namespace, name=pod.name, body=patch))))
        said.append(_told((yield Create(obj=pod.pod))))
        said.append(_told((yield Delete(kind=Pod, namespace=pod.namespace, name="nobody"))))
        yield Wait(keys=frozenset({("Node", f"/{node_name}")}), seconds=5.0)
        return unschedulable(*said)


def _told(outcome):
    what = outcome.value.metadata.resource_version if isinstance(outcome, Done) else outcome.error
    return f"{type(outcome).__name__} {what}"


class Failing:
    """An API that fails: verb -> the error to raise once. Events and statuses are not affected."""

    def __init__(self, api, errors):
        self._api = api
        self.errors = errors

    def __getattr__(self, name):
        method = getattr(self._api, name)
        if name not in ("bind", "patch", "delete", "create", "update", "get"):
            return method

        async def called(*args, **options):
            if options.get("lane", "default") == "default" and name in self.errors:
                raise self.errors.pop(name)
            return await method(*args, **options)

        return called


PROBLEMS = [
    Conflict("changed meanwhile"),
    NotFound("gone"),
    Forbidden("not yours"),
    TooManyRequests("slow down", code=429),
    InternalError("oops"),
    Unreachable("no route"),
    OutcomeUnknown("lost"),
    DecodeError(field="metadata", message="odd"),
    asyncio.CancelledError(),
    RuntimeError("a bug"),
]


@pytest.mark.parametrize("problem", [None, *PROBLEMS], ids=repr)
@pytest.mark.parametrize("verb", ["get", "update", "patch", "create", "delete", "bind"])
async def test_outcomes_of_steps(verb, problem):
    errors = {}
    config = configuration(profile(preBind=[Steps]))
    options = {"config": config, "plugins": [Steps], "wrap": lambda api: Failing(api, errors)}
    async with replayed(small_node(), **options) as cluster:
        if problem is not None:
            errors[verb] = problem
        cluster.server.create_all([a_pod("steps").labels(asks="1").obj(), a_pod("plain").obj()])
        await pass_time(cluster, 26.0)
        assert errors == {}
        assert cluster.condition("steps")["message"]
        assert cluster.node_of("plain") == "n1"


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("verb", ["delete", "patch", "get"])
async def test_outcomes_of_preemption(verb, problem):
    """Deletions and status patches of preemption; if a response is lost, it reads the object."""
    errors = {}
    async with replayed(priority_class("high", 10), small_node(), wrap=lambda api: Failing(api, errors)) as cluster:
        await cluster.create(*(a_pod(f"v{i}").requests(cpu=1).obj() for i in range(2)))
        errors[verb] = problem
        if verb == "get":
            errors["delete"] = OutcomeUnknown("lost")
        cluster.server.create_all([a_pod("p").priority(10, class_name="high").requests(cpu=2).obj()])
        await pass_time(cluster, 60.0)
        assert verb == "get" or errors == {}


# -- custom objects, and kinds that appear and vanish ------------------------------------------------------------------

GATE = custom_resource("gates.v1.batch.example.com")
ZONE = custom_resource("zones.v1.batch.example.com", namespaced=False)


class Gate(FilterPlugin, EnqueueExtensions):
    """Accepts pods where a gate is blue; disabled while the cluster has no such kind."""

    name = "Gate"
    kind = GATE

    def events_to_register(self):
        return (on(self.kind.resource, Action.All, lambda pod, old, new: Hint.QUEUE),)

    def filter(self, state, pod, nodes):
        colors = [gate.content["spec"]["color"] for gate in self.handle.cluster.objects.all(self.kind)]
        closed = np.full(len(nodes), "blue" not in colors)
        return Rejections.where(closed, Reason("Closed", f"open gates: {colors}"))


class Zone(Gate):
    kind = ZONE
    needs_kinds = (ZONE,)

    def events_to_register(self):
        return ()


def definition(kind):
    made = manifests.definition(kind.group, kind.plural, kind.plural.title()[:-1])
    made["spec"]["scope"] = "Namespaced" if kind.namespaced else "Cluster"
    return made


def of_custom_kind(kind, name, color):
    metadata = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
    api_version, what = f"{kind.group}/{kind.version}", kind.plural.title()[:-1]
    return {"apiVersion": api_version, "kind": what, "metadata": metadata, "spec": {"color": color}}


@pytest.mark.parametrize("plugin", [Gate, Zone])
async def test_custom_objects_and_a_new_kind(plugin):
    kind, config = plugin.kind, configuration(profile(filter=[plugin]))
    plural = f"{kind.plural}.{kind.group}"
    async with replayed(small_node(), config=config, plugins=[plugin]) as cluster:
        await cluster.create(a_pod("before").obj())
        assert cluster.node_of("before") == "n1", "the plugin is not disabled"
        await cluster.create(definition(kind))
        await cluster.advance(70.0)
        await cluster.create(a_pod("waits").obj())
        assert "open gates: []" in cluster.condition("waits")["message"]
        await cluster.create(of_custom_kind(kind, "a", "red"))
        await cluster.patch(plural, "a", {"spec": {"color": "blue"}}, namespace=kind.namespaced and "default")
        await cluster.advance(400.0)
        assert cluster.node_of("waits") == "n1"
        await cluster.delete(plural, "a", namespace=kind.namespaced and "default")
        await cluster.create(a_pod("late").obj())
        assert not cluster.node_of("late")
        served = [msgspec.json.decode(line)[2] for line in cluster.recorded.lines[1:] if b'"Served"' in line]
        assert served == [[["Gate"], False], [["Gate"], True]]


# -- extenders ---------------------------------------------------------------------------------------------------------


class Scripted:
    """Answers each call in turn: a value, an error to raise, or None for the first node."""

    def __init__(self, *answers):
        self._answers = list(answers)

    async def ask(self, verb, question):
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, BaseException):
            raise answer
        return question["nodes"][:1] if answer is None else answer


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("problem", [*PROBLEMS, ["nobody"], {"failed": {"n1": "no"}}, 7], ids=repr)
async def test_a_failing_extender(problem, ignorable):
    extender = FakeExtender("e", filters=True, ignorable=ignorable)
    options = {"extenders": [extender], "extender_clients": {"e": Scripted(problem)}}
    async with replayed(small_node(), small_node("n2"), **options) as cluster:
        await cluster.create(a_pod("p").obj())
        await cluster.advance(400.0)
        assert cluster.node_of("p")
        assert "Answer" in kinds_of(cluster.recorded)


# -- time, randomness, and shutdown ------------------------------------------------------------------------------------


class SettableTime(ManualTime):
    def set_wall_clock(self, seconds):
        self._start += seconds


async def test_a_changed_wall_clock():
    time = SettableTime()
    async with replayed(small_node(), time=time) as cluster:
        await cluster.create(a_pod("big").requests(cpu=9).obj())
        time.set_wall_clock(-3600.0)
        await cluster.advance(2.0)
        await cluster.create(a_pod("bigger").requests(cpu=10).obj())
        assert "WallClock" in kinds_of(cluster.recorded)
        # The condition has the time.
        assert cluster.condition("bigger")["lastTransitionTime"] < cluster.condition("big")["lastTransitionTime"]


@pytest.mark.parametrize("seed", range(3))
async def test_ties(seed):
    names = [f"n{i}" for i in range(20)]
    async with replayed(*map(small_node, names), random=Random(seed)) as cluster:
        await cluster.create(*(a_pod(f"p{i}").obj() for i in range(20)))
        assert len({cluster.node_of(f"p{i}") for i in range(20)}) > 5


@pytest.mark.parametrize("end", ["halt", "drain"])
async def test_a_lost_lease_and_shutdown_during_work(end):
    """One pod waits on Permit, one in PreBind, one for an extender; binds are in progress."""
    never = asyncio.Event()

    class Silent:
        async def ask(self, verb, question):
            await never.wait()

    options = {"config": GANG, "plugins": [Gang], "extender_clients": {"e": Silent()}}
    async with replayed(small_node(), extenders=[FakeExtender("e", filters=True, only="asks")], **options) as cluster:
        for label in ("gang", "waits", "asks"):
            cluster.server.create_all([a_pod(label).labels(**{label: "1"}).obj()])
        await turns(2000)
        assert cluster.scheduler.engine.under_way == 3
        cluster.server.create_all([a_pod(f"p{i}").obj() for i in range(5)])
        await turns(3)
        ending = asyncio.create_task(getattr(cluster.scheduler, end)())
        while not ending.done():
            await turns(10)
            cluster.time.next_alarm(cluster.time.now + 10.0)
        cluster.server.create_all([a_pod("later").obj()])
        await turns()
        assert not cluster.node_of("later")
        assert "Stopped" in kinds_of(cluster.recorded)
