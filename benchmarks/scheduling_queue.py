"""What the scheduling queue costs: µs an operation, beside many pods that sleep.

    python benchmarks/scheduling_queue.py [--sleeping 10000] [--shapes 20]

Sleeping pods were rejected by NodeResourcesFit, as in a full cluster. Events nobody waits for, and events about which
every shape must be asked and says no, are what a stream of good pods causes.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import TYPE_CHECKING

import shapes

from stowplan.kube.api.decode import decode_object
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE,
    Action,
    ClusterEvent,
    Hint,
    on,
    pod_events,
)
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.scheduler.queue.metrics import QueueMetrics
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 200


class Bench:
    """A queue with sleeping pods of some shapes."""

    def __init__(self, sleeping: int, shape_count: int) -> None:
        self.state = ClusterState()
        registry = in_tree_registry()
        config = load_config(None, plugins=registry.declarations)
        handle = Handle(cluster=self.state, profile_name="default-scheduler", features=DEFAULT_FEATURES)
        self.framework = Framework(config.profiles[0], registry, handle)
        self.now = 1_000_000.0
        self.queue = SchedulingQueue(
            {"default-scheduler": self.framework},
            self.state.nominator,
            self.state.pending,
            now=lambda: self.now,
            metrics=QueueMetrics(SchedulerMetrics(MetricsRegistry(), gates=DEFAULT_FEATURES), now=perf_counter),
        )
        self.sleepers = [self.pod(i, "sleeper", cpu=f"{100 + i % shape_count}") for i in range(sleeping)]
        self.queue_up()

    def pod(self, i: int, prefix: str, cpu: str = "100m"):
        obj = shapes.pod(i, prefix=prefix)
        obj["metadata"]["labels"] = {"app": "race"}
        obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        return self.state.pod_info(decode_object(obj))

    def queue_up(self) -> None:
        for info in self.sleepers:
            self.queue.add(info)
        popped = []
        while (queued := self.queue.pop()) is not None:
            popped.append(queued)
        for queued in popped:
            queued.unschedulable_plugins = {"NodeResourcesFit"}
            self.queue.add_unschedulable_if_not_present(queued)
        # Their backoff is long over.
        self.now += 60


def nothing() -> None:
    pass


def best(
    what: str,
    unit: str,
    call: Callable[[], object],
    *,
    repeats: int = REPEATS,
    each: int = 1,
    after: Callable[[], None] = nothing,
) -> None:
    """Print the best and the median time of a call, or of each of so many in one."""
    taken = []
    for _ in range(repeats):
        begun = perf_counter()
        call()
        taken.append((perf_counter() - begun) / each)
        after()
    shown(what, unit, taken)


def shown(what: str, unit: str, taken: list[float]) -> None:
    taken.sort()
    scale = {"µs": 1e6, "ms": 1e3}[unit]
    print(f"{what:<58} {taken[0] * scale:9.2f} {taken[len(taken) // 2] * scale:9.2f} {unit}")


def attempts(bench: Bench) -> None:
    infos = [bench.pod(i, "good") for i in range(500)]
    queue = bench.queue

    def placed() -> None:
        for info in infos:
            queue.add(info)
            queued = queue.pop()
            assert queued is not None
            queue.done(queued.pod.uid)

    best("add + pop + done", "µs", placed, each=len(infos), repeats=20)

    def waiting() -> None:
        for info in infos:
            queue.add(info)
        while (queued := queue.pop()) is not None:
            queue.done(queued.pod.uid)

    best("add, 500 times; pop + done, 500 times", "µs", waiting, each=len(infos), repeats=20)
    failed(bench, infos)


def failed(bench: Bench, infos: list) -> None:
    taken = []
    for _ in range(20):
        for info in infos:
            bench.queue.add(info)
        popped = [bench.queue.pop() for _ in infos]
        begun = perf_counter()
        for queued in popped:
            queued.unschedulable_plugins = {"NodeResourcesFit"}
            bench.queue.add_unschedulable_if_not_present(queued)
        taken.append((perf_counter() - begun) / len(infos))
        for info in infos:
            bench.queue.delete(info)
    shown("add_unschedulable_if_not_present", "µs", taken)


def events(bench: Bench) -> None:
    queue, state = bench.queue, bench.state
    good = decode_object(shapes.pod(0, prefix="bound", nodeName="node-00000"))
    pending = decode_object(shapes.pod(0, prefix="unbound"))
    small = decode_object(shapes.node(0, cpu="1"))
    state.add_node(small)
    added = ClusterEvent(NODE, Action.Add)
    queue.add(bench.pod(0, "flying"))
    flying = queue.pop()
    assert flying is not None

    def land() -> None:
        """The list of events in flight must not grow on."""
        queue.done(flying.pod.uid)
        queue.add(flying.pod)
        queue.pop()

    def unheard(event: ClusterEvent) -> Callable[[], None]:
        def happens() -> None:
            for _ in range(100):
                queue.move_all(event, None, good)

        return happens

    best("AssignedPodAdd, nobody waits for it", "µs", unheard(ASSIGNED_POD_ADD), each=100, after=land)
    best(
        "UnschedulablePodUpdate, nobody waits for it",
        "µs",
        unheard(pod_events(DEFAULT_VERSION).updated),
        each=100,
        after=land,
    )
    best("AssignedPodDelete, asked, all Skip", "ms", lambda: queue.move_all(ASSIGNED_POD_DELETE, pending, None))
    best("NodeAdd, asked, all Skip", "ms", lambda: queue.move_all(added, None, small))
    unknowing(bench)


def unknowing(bench: Bench) -> None:
    """The same with a hint that may read anything, so that each pod is asked about."""
    own = bench.framework.registered_events

    def asked_each() -> dict:
        return {**own(), "NodeResourcesFit": [on(NODE, Action.Add, lambda pod, old, new: Hint.SKIP)]}

    bench.framework.registered_events = asked_each  # type: ignore[method-assign]
    bench.queue.register()
    small, added = decode_object(shapes.node(0, cpu="1")), ClusterEvent(NODE, Action.Add)
    best("NodeAdd, each pod asked, all Skip", "ms", lambda: bench.queue.move_all(added, None, small))
    bench.framework.registered_events = own  # type: ignore[method-assign]
    bench.queue.register()


def gated(bench: Bench) -> None:
    """Preemptors whose preemption goes on, while victims go one by one."""
    shut = Status(Code.UnschedulableAndUnresolvable, ("waiting",))
    bench.framework.plugins["DefaultPreemption"].pre_enqueue = lambda pod: shut  # type: ignore[attr-defined]
    gone = decode_object(shapes.pod(0, prefix="victim", nodeName="node-00000"))
    some = bench.sleepers[:1000]
    bench.queue.activate(some)
    assert bench.queue.counts()["gated"] == len(some)
    rest = bench.sleepers[1000:]
    for info in rest:
        bench.queue.delete(info)
    best(
        f"AssignedPodDelete, {len(some)} pods stay gated", "ms",
        lambda: bench.queue.move_all(ASSIGNED_POD_DELETE, gone, None), repeats=20,
    )  # fmt: skip


def waking(bench: Bench) -> None:
    big, added = decode_object(shapes.node(1, cpu="1000")), ClusterEvent(NODE, Action.Add)
    begun = perf_counter()
    bench.queue.move_all(added, None, big)
    taken = perf_counter() - begun
    woken = bench.queue.counts()["active"]
    print(f"{f'NodeAdd, all {woken} woken':<58} {taken * 1e3:9.2f} {'':>9} ms")
    begun = perf_counter()
    while bench.queue.pop() is not None:
        pass
    print(f"{f'{woken} popped':<58} {(perf_counter() - begun) * 1e3:9.2f} {'':>9} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description="µs an operation of the scheduling queue")
    parser.add_argument("--sleeping", type=int, default=10_000)
    parser.add_argument("--shapes", type=int, default=20)
    args = parser.parse_args()
    sleeping, shape_count = args.sleeping, args.shapes
    bench = Bench(sleeping, shape_count)
    print(f"{f'{sleeping} sleeping pods of {shape_count} shapes':<58} {'best':>9} {'median':>9}")
    attempts(bench)
    events(bench)
    waking(bench)
    gated(Bench(sleeping, shape_count))


if __name__ == "__main__":
    main()
