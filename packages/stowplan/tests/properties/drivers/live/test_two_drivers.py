"""The same inputs through both drivers place every pod alike, at the same times and for the same reasons.

Pods of three priorities are created, wait behind gates and on Permit, fail in Reserve, PreBind and Bind, are deleted,
finish, are kept by finalizers, or are nominated or bound by another client; nodes are added, deleted, cordoned and
tainted; the API server refuses some writes. Pod groups, claims and deletions
with a grace period of their own are not drawn.
"""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.interface import BindPlugin, PermitPlugin, PreBindPlugin, ReservePlugin
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Done, Patch, Read, Wait
from stowplan.scheduler.framework.status import SKIP, Code, Status, error, unschedulable
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.live.two_drivers import PermitDecision, run_live, run_simulated
from support.plugins.answering_plugins import configuration, profile

NODES = ("n0", "n1", "n2")
PODS = tuple(f"p{i}" for i in range(7))

# -- plugins controlled by labels of pods ------------------------------------------------------------------------------


class Failing:
    """Fails the first times, alternately with Error and Unschedulable."""

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.tries = Counter()

    def failure(self, pod, label):
        self.tries[pod.uid] += 1
        tried = self.tries[pod.uid]
        if tried > int(pod.labels.get(label, 0)):
            return None
        return error(f"{label}: not yet") if tried % 2 else unschedulable(f"{label}: no")


class Reserves(Failing, ReservePlugin):
    name = "Reserves"

    def reserve(self, state, pod, node_name):
        return self.failure(pod, "fail-reserve")

    def unreserve(self, state, pod, node_name):
        pass


class Holds(PermitPlugin):
    name = "Holds"

    def permit(self, state, pod, node_name):
        seconds = pod.labels.get("hold")
        return (None, 0.0) if seconds is None else (Status(Code.Wait, ("held",)), float(seconds))


class Prepares(Failing, PreBindPlugin):
    """As a coroutine."""

    name = "Prepares"

    async def pre_bind(self, state, pod, node_name):
        if "fail-prepare" in pod.labels:
            body = {"metadata": {"labels": {"prepared-for": node_name}}}
            await self.handle.api.patch(Pod, pod.name, body, type_="merge", namespace=pod.namespace)
        return self.failure(pod, "fail-prepare")

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if "fail-prepare" in pod.labels else SKIP


class Waits(Failing, PreBindPlugin):
    """In steps."""

    name = "Waits"

    def pre_bind(self, state, pod, node_name):
        found = yield Read(kind=Pod, namespace=pod.namespace, name=pod.name)
        yield Wait(seconds=float(pod.labels["wait"]))
        return self.failure(pod, "fail-wait") if isinstance(found, Done) else error(found.error)

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if "wait" in pod.labels else SKIP


class Binds(Failing, BindPlugin):
    """A coroutine that skips most pods, and then some of those that it has started."""

    name = "Binds"

    async def bind(self, state, pod, node_name):
        if "fail-bind" not in pod.labels:
            await self.handle.api.get(Node, node_name)
            return SKIP
        failed = self.failure(pod, "fail-bind")
        if failed is None:
            await self.handle.api.bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node=node_name)
        else:
            await self.handle.api.get(Node, node_name)
        return failed


PLUGINS = (Reserves, Holds, Prepares, Waits, Binds)
CONFIG = configuration(
    profile(reserve=[Reserves], permit=[Holds], preBind=[Prepares, Waits], bind=[Binds], without={"bind": ["*"]})
)
CONFIG["profiles"][0]["plugins"]["bind"]["enabled"].append({"name": "DefaultBinder"})

# -- scripts -----------------------------------------------------------------------------------------------------------

few = st.integers(1, 2).map(str)
#: At most one of these for most pods.
labels = st.one_of(
    st.just({}),
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "fail-reserve": few,
            "hold": st.sampled_from(("3", "20")),
            "fail-prepare": st.sampled_from(("0", "1", "2")),
            "wait": st.sampled_from(("0.5", "5")),
            "fail-wait": few,
            "fail-bind": st.sampled_from(("0", "1", "2")),
            "refuse-bind": few,
            "refuse-patch": few,
            "refuse-delete": few,
        },
    ),
)


def new_pod(name, cpu, priority, labels, grace, gates, finalizers=()):
    spec = {"terminationGracePeriodSeconds": grace}
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if priority:
        spec |= {"priorityClassName": {10: "low", 100: "high"}[priority], "priority": priority}
    pod = a_pod(name).requests(cpu=cpu).labels(labels).spec(**spec).obj()
    pod["metadata"]["finalizers"] = list(finalizers)
    return Create(obj=convert(pod, Pod))


def new_node(name, cpu):
    return Create(obj=convert(a_node(name).allocatable(cpu=cpu, memory="16Gi", pods="110").obj(), Node))


def patch(kind, name, body, subresource=""):
    namespace = "" if kind is Node else "default"
    return Patch(kind=kind, namespace=namespace, name=name, body=body, type_="merge", subresource=subresource)


pods, nodes = st.sampled_from(PODS), st.sampled_from(NODES)
created = st.builds(
    new_pod,
    pods,
    st.sampled_from(("1", "2", "3")),
    st.sampled_from((0, 0, 10, 100)),
    labels,
    st.sampled_from((0, 2)),
    st.sampled_from(((), (), (), ("a",))),
    st.sampled_from(((), (), (), ("example.com/kept",))),
)
happens = st.one_of(
    created,
    created,
    created,
    st.builds(lambda name: Delete(kind=Pod, namespace="default", name=name), pods),
    st.builds(lambda name: patch(Pod, name, {"spec": {"schedulingGates": None}}), pods),
    st.builds(lambda name: patch(Pod, name, {"metadata": {"labels": {"new": "label"}}}), pods),
    st.builds(lambda name: patch(Pod, name, {"metadata": {"finalizers": None}}), pods),
    st.builds(lambda name, node: patch(Pod, name, {"status": {"nominatedNodeName": node}}, "status"), pods, nodes),
    st.builds(lambda name: patch(Pod, name, {"status": {"phase": "Succeeded"}}, "status"), pods),
    st.builds(lambda name, node: Bind(namespace="default", name=name, uid="", node=node), pods, nodes),
    st.builds(lambda name, allow: PermitDecision(name, "Holds", allow=allow), pods, st.booleans()),
    st.builds(new_node, nodes, st.sampled_from(("2", "4"))),
    st.builds(lambda name: Delete(kind=Node, namespace="", name=name), nodes),
    st.builds(lambda name, off: patch(Node, name, {"spec": {"unschedulable": off}}), nodes, st.booleans()),
    st.builds(
        lambda name, taints: patch(Node, name, {"spec": {"taints": taints}}),
        nodes,
        st.sampled_from((None, [{"key": "k", "effect": "NoSchedule"}])),
    ),
)
pauses = st.sampled_from((0, 0, 0.25, 1, 3, 12))
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("low", 10), ("high", 100))
]


OPTIONS = {"plugins": PLUGINS, "config": CONFIG, "rest": 45.0}


def both(script, *, scale=1, seed=0):
    options = {"scale": scale, "seed": seed, **OPTIONS}
    found, recorded = asyncio.run(run_live(script, objects=CLASSES, **options))
    return found, run_simulated(recorded, **options)


def agree(found, simulated):
    assert simulated.effects == found.effects
    assert simulated.snapshots == found.snapshots
    assert simulated.queue == found.queue
    assert [error for _, error in simulated.refused] == [error for _, error in found.refused]


@examples(25)
@given(
    st.lists(created, min_size=2, max_size=6, unique_by=lambda request: request.obj.metadata.name),
    st.lists(st.tuples(pauses, happens), min_size=4, max_size=20),
    st.sampled_from((1, 64, 512)),
    st.integers(0, 3),
)
def test_random_scripts(first, script, scale, seed):
    there = [new_node("n0", "4"), new_node("n1", "3"), *first]
    agree(*both([*((0, one) for one in there), *script], scale=scale, seed=seed))


# -- scenarios with known results --------------------------------------------------------------------------------------


def a_simple_pod(name, cpu="1", priority=0, *, grace=0, gates=(), **labels):
    labels = {label.replace("_", "-"): value for label, value in labels.items()}
    return new_pod(name, cpu, priority, labels, grace, gates)


def delete(kind, name):
    return Delete(kind=kind, namespace="" if kind is Node else "default", name=name)


EVERYTHING = [
    (0, new_node("n0", "4")),
    (0, a_simple_pod("gated", "2", gates=("a",))),
    (0, a_simple_pod("low-1", "2", grace=2, refuse_delete="1")),
    (0, a_simple_pod("low-2", "2", fail_reserve="1")),
    (1, a_simple_pod("high", "3", priority=100, refuse_bind="4")),
    (12, new_node("n1", "4")),
    (0, a_simple_pod("held", hold="3")),
    (0, a_simple_pod("let-go", hold="20")),
    (0, a_simple_pod("turned-away", hold="20", refuse_patch="1")),
    (1, PermitDecision("let-go", "Holds", allow=True)),
    (1, PermitDecision("turned-away", "Holds", allow=False)),
    (0, a_simple_pod("prepared", fail_prepare="1")),
    (0, a_simple_pod("waits", wait="5", fail_wait="1")),
    (0, a_simple_pod("bound", fail_bind="2")),
    (12, patch(Node, "n1", {"spec": {"unschedulable": True}})),
    (0, patch(Pod, "gated", {"spec": {"schedulingGates": None}})),
    (3, delete(Pod, "high")),
    (12, delete(Node, "n1")),
]


@pytest.mark.parametrize("scale", [1, 64, 512])
def test_all_kinds_of_changes(scale):
    found, simulated = both(EVERYTHING, scale=scale)
    agree(found, simulated)
    told = "\n".join(found.effects)
    for what in ("Preempted", "not today", "fail-prepare", "fail-wait", "fail-bind", "no Bind", "due to timeout"):
        assert what in told, what


def test_all_kinds_of_changes_with_fast_requests():
    found, _ = both(EVERYTHING)
    nodes = {name: picture[1] for name, picture in found.snapshots[-1].items()}
    assert all(nodes[name] for name in ("let-go", "prepared", "waits", "bound", "gated"))
    assert nodes["held"] == nodes["turned-away"] == ""
    assert not {"low-1", "high"} & nodes.keys()


def test_a_waiting_pod_is_dropped_when_it_is_marked_for_deletion():
    """A deletion is two changes, and the next pod with that name may be scheduled before the binding
    cycle has ended."""
    p0 = a_simple_pod("p0", hold="3")
    script = [
        *((0, new_node(name, cpu)) for name, cpu in (("n0", "4"), ("n1", "3"))),
        *((0, one) for one in (a_simple_pod("p1", hold="3"), p0, delete(Pod, "p0"), p0)),
    ]
    agree(*both(script))


def test_differences_are_detected():
    options = {"scale": 1, "seed": 0, **OPTIONS}
    found, recorded = asyncio.run(run_live(EVERYTHING, objects=CLASSES, **options))
    without = [one for one in recorded if not isinstance(one[1], PermitDecision)]
    assert len(without) == len(recorded) - 2
    assert run_simulated(without, **options).snapshots[-1] != found.snapshots[-1]
