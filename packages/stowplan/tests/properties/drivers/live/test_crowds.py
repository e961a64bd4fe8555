"""Many unschedulable pods beside a few that fit, and many preemptors at once on a full cluster.

Work is counted, not time: function calls, attempts, deletions; benchmarks/live.py measures times. The inputs are
recorded and replayed at the end, which must have the same effects.
"""

import asyncio
import sys
from contextlib import asynccontextmanager, contextmanager
from random import Random

import pytest

from stowplan.drivers.live.scheduler import MAX_PODS_PER_TURN
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.live.live_scheduler import live
from support.live.recorded import Recorded

AT_ONCE = DeleteOptions(grace_period_seconds=0)
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("middle", 10), ("high", 100))
]


def new(builder):
    """A dict as users write it."""
    obj = builder.obj()
    obj["metadata"].pop("uid", None)
    return obj


@asynccontextmanager
async def recorded_live(*objects, **options):
    recorded = Recorded()
    async with live(*objects, recorder=recorded.recorder, validate=False, **options) as cluster:
        yield cluster
    recorded.check()


# -- unschedulable pods ------------------------------------------------------------------------------------------------


def unschedulable(i):
    """One of six kinds: three that a deleted pod wakes, and three that only a new label or taint would."""
    pod = a_pod(f"hopeless-{i}")
    kind = i % 6
    if kind < 3:
        return new(pod.requests(cpu=str(50 + kind)))
    return new(pod.requests(cpu="100m").node_selector(disk=f"none-{kind}"))


@contextmanager
def counting():
    """The number of function calls, of our code and others'."""
    calls = [0]

    def count(frame, event, arg):
        if event in ("call", "c_call"):
            calls[0] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def work_of_good_pods(sleepers):
    """Function calls per good pod, from its creation until everything has settled."""
    nodes = [a_node(f"n{i}").obj() for i in range(5)]
    found = []
    async with live(*nodes, *(unschedulable(i) for i in range(sleepers)), validate=False) as cluster:
        # The first pods fill caches for the others.
        for i in range(5):
            await cluster.create(new(a_pod(f"first-{i}").requests(cpu="100m")))
        await cluster.advance(60)
        assert cluster.scheduler.queue.counts()["unschedulable"] == sleepers
        before = cluster.scheduler.queue.scheduling_cycle
        for i in range(5):
            with counting() as calls:
                await cluster.create(new(a_pod(f"good-{i}").requests(cpu="100m")))
            assert cluster.node_of(f"good-{i}")
            found.append(calls[0])
        assert cluster.scheduler.queue.scheduling_cycle == before + 5, "other pods were tried"
    return sorted(found)


async def test_the_cost_of_a_pod_does_not_depend_on_unschedulable_pods():
    few, many = await work_of_good_pods(60), await work_of_good_pods(1200)
    # Hints are called once for all pods of one kind, and both clusters have the same number of kinds.
    assert many[2] <= few[2] * 1.05, (few, many)


async def test_a_deletion_wakes_only_pods_it_may_help_and_each_once():
    async with recorded_live(a_node("n1").obj(), *(unschedulable(i) for i in range(120))) as cluster:
        queue = cluster.scheduler.queue
        await cluster.create(new(a_pod("good").requests(cpu="100m")))
        await cluster.advance(60)
        before = queue.scheduling_cycle
        for _ in range(3):
            # Twice in a row: those already tried back off, and are popped early as the active queue is empty.
            cluster.api.delete("pods", "default", "good", options=AT_ONCE)
            await cluster.settle()
            assert queue.scheduling_cycle == before + 60
            await cluster.create(new(a_pod("good").requests(cpu="100m")))
            assert queue.scheduling_cycle == before + 61
            before += 61
        assert queue.counts()["unschedulable"] == 120


async def attempts_before_a_new_pod(rest):
    """The number of attempts before a good pod that was created when a deleted pod had just woken many others."""
    async with recorded_live(a_node("n1").obj(), *(unschedulable(i) for i in range(420))) as cluster:
        scheduler = cluster.scheduler
        await cluster.create(new(a_pod("gone").requests(cpu="100m")))
        await cluster.advance(rest)
        before = scheduler.queue.scheduling_cycle
        cluster.api.delete("pods", "default", "gone", options=AT_ONCE)
        for _ in range(100):
            await asyncio.sleep(0)
            if scheduler.queue.scheduling_cycle > before:
                break
        cluster.api.server.create_all([new(a_pod("good").requests(cpu="100m"))])
        await cluster.settle()
        assert scheduler.queue.scheduling_cycle == before + 211, "not half of them were woken"
        tried = [record.key for record in reversed(scheduler.stories.last_decisions(211))]
    return tried.index("default/good")


#: Attempts until a new pod is observed: a few turns of the loop.
SOON = 5 * MAX_PODS_PER_TURN


async def test_new_pods_are_tried_before_pods_in_backoff():
    assert await attempts_before_a_new_pod(rest=0) <= SOON


async def test_new_pods_are_tried_before_woken_pods():
    assert await attempts_before_a_new_pod(rest=60) <= SOON


# -- preemptors --------------------------------------------------------------------------------------------------------


class Kubelets:
    """Finish victims some time after they were deleted, in any order."""

    def __init__(self, cluster, random):
        self.cluster, self.random = cluster, random
        self.doomed = {}
        self.died = {}
        cluster.api.store.on_change(self._written)

    def _written(self, event):
        stored = event.stored
        if stored.resource != "pods":
            return
        if event.type == "DELETED":
            self.doomed.pop(stored.name, None)
            self.died[stored.name] = stored.field("spec.nodeName")
        elif b'"deletionTimestamp"' in stored.data:
            self.doomed.setdefault(stored.name, self.cluster.time.now + self.random.random() * 5)

    async def advance(self, seconds):
        for _ in range(seconds):
            await self.cluster.advance(1.0)
            for name in [name for name, end in self.doomed.items() if end <= self.cluster.time.now]:
                self.cluster.api.delete("pods", "default", name, options=AT_ONCE)
            await self.cluster.settle()


def full_node(i, *, grace, guarded=False):
    """A node of four CPUs with four pods of low priority, half of which have a budget if `guarded`."""
    pods = (a_pod(f"v{i}-{j}").requests(cpu="1").on(f"n{i}") for j in range(4))
    labelled = (pod.labels(app="guarded" if guarded and j < 2 else "free") for j, pod in enumerate(pods))
    return [a_node(f"n{i}").obj(), *(new(pod.spec(terminationGracePeriodSeconds=grace)) for pod in labelled)]


def preemptor(i, class_name="high"):
    return new(a_pod(f"p{i}").requests(cpu="2").spec(priorityClassName=class_name))


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "guard", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "guarded"}}, "minAvailable": "100%"},
}


async def crowd(nodes, count, *, grace, guarded=False, classes=("high",), seed=1):
    """All preemptors at once; returns (their nodes, victims by node)."""
    random = Random(seed)
    objects = [obj for i in range(nodes) for obj in full_node(i, grace=grace, guarded=guarded)]
    async with recorded_live(*CLASSES, BUDGET, *objects, random=Random(seed)) as cluster:
        kubelets = Kubelets(cluster, random)
        wanted = [preemptor(i, random.choice(classes)) for i in range(count)]
        await cluster.create(*wanted)
        await kubelets.advance(30)
        names = [obj["metadata"]["name"] for obj in wanted]
        told = [event["regarding"]["name"] for event in cluster.events(reason="Preempted")]
        assert set(told) == set(kubelets.died), "not exactly the victims have an event"
        assert len(cluster.scheduler.engine.evictions) <= 2, "unexpected attempts"
        assert not cluster.scheduler.state.nominator
        assert not [name for name in names if cluster.place(name)]
        placed = {name: cluster.node_of(name) for name in names}
    return placed, kubelets.died


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("nodes", "count"), [pytest.param(40, 40, id="one a node"), pytest.param(20, 40, id="no pod survives")]
)
@pytest.mark.parametrize("grace", [0, 30])
async def test_the_number_of_victims_is_minimal(nodes, count, grace, seed):
    placed, died = await crowd(nodes, count, grace=grace, seed=seed)
    assert all(placed.values())
    assert len(died) == 2 * count
    for node in set(died.values()) | set(placed.values()):
        victims, newcomers = (sum(name == node for name in of.values()) for of in (died, placed))
        assert victims == 2 * newcomers, f"{node}: {victims} died for {newcomers}"


async def test_no_budget_is_violated_unnecessarily():
    placed, died = await crowd(60, 60, grace=30, guarded=True)
    assert all(placed.values())
    assert len(died) == 120
    # Two pods of each node have a budget and two do not: all fit without evicting the former.
    assert not [name for name in died if name.endswith(("-0", "-1"))]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_preemptors_of_different_priorities(seed):
    """They may take what was nominated to others, which then have to go elsewhere; all are bound."""
    placed, died = await crowd(40, 60, grace=30, classes=("middle", "high"), seed=seed)
    assert all(placed.values())
    assert 120 <= len(died) <= 120 * 1.1
    assert set(died.values()) == set(placed.values()), "victims on a node without a preemptor"


async def test_two_hundred_preemptors():
    placed, died = await crowd(100, 200, grace=30)
    assert all(placed.values())
    assert len(died) == 400
