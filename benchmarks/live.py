"""The live scheduler in crowds: good pods beside pods that fit nowhere, and preemptors by the thousand.

    python benchmarks/live.py [beside] [preemptors] [--nodes 1000] [--unschedulable 0 1000 10000] [--preemptors 1000]
                              [--seconds 10] [--rate 50] [--profile N]

Scheduler and API share this process and one event loop, so the figures hold the API's work too: a good pod's latency
is from its creation to the moment at which the store has its node, and a second of CPU is one of both.

"beside": good pods come at a steady rate and go two seconds after they were bound. A third of the others are too large
for any node, a third want a label that no node has, a third would fit on a node with nobody on it: a deletion wakes the
first and the last, by what the plugins say.
"preemptors": every node is full of lesser pods, then as many more important pods come at once. Victims take a moment to
end. All preemptors must come to a node, and no more may die than is needed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import logging
import pstats
import time
from collections import deque
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import shapes

from stowplan.drivers.live.scheduler import Scheduler, SchedulerSettings
from stowplan.kube.api.documents import Documents
from stowplan.kube.config import load_config
from stowplan.scheduler.extenders.calls import kinds_wanted
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.controllers.controller_manager import set_up_controllers

if TYPE_CHECKING:
    from collections.abc import Iterable

LIVES = 2.0
#: Seconds that a victim takes to end.
ENDING = 0.2
AT_ONCE = DeleteOptions(grace_period_seconds=0)


Moment = tuple[float, float]


def now() -> Moment:
    return time.perf_counter(), time.process_time()


class Cluster:
    def __init__(self) -> None:
        self.server = ApiServer(random=Random(1))
        set_up_controllers(self.server, controllers=())
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shapes.NAMESPACE}}
        classes = [priority_class("low", 1), priority_class("high", 100)]
        self.server.create_all([namespace, *classes])
        self.pods = self.server.registry.of_storage("pods")
        self.nodes = self.server.registry.of_storage("nodes")
        #: Pod -> when its node was written, by the clock on the wall and by the CPU's.
        self.bound: dict[str, Moment] = {}
        self.victims: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.server.store.on_change(self._changed)

    def _changed(self, event: Any) -> None:
        stored = event.stored
        if stored.resource != "pods" or event.type == "DELETED":
            return
        if stored.field("spec.nodeName"):
            self.bound.setdefault(stored.name, now())
        if event.type == "MODIFIED" and b'"deletionTimestamp"' in stored.data and stored.name not in self.victims:
            self.victims.add(stored.name)
            task = asyncio.get_running_loop().create_task(self._end(stored.name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _end(self, name: str) -> None:
        await asyncio.sleep(ENDING)
        self.delete(name)

    def create(self, obj: dict[str, Any]) -> None:
        resource = self.nodes if obj["kind"] == "Node" else self.pods
        obj["metadata"].pop("uid", None)
        self.server.registry.create(resource, obj["metadata"].get("namespace", ""), obj)

    def delete(self, name: str) -> None:
        self.server.registry.delete(self.pods, shapes.NAMESPACE, name, options=AT_ONCE)


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def sized(obj: dict[str, Any], cpu: str) -> dict[str, Any]:
    container = obj["spec"]["containers"][0]
    obj["spec"]["containers"] = [{**container, "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}]
    return obj


@asynccontextmanager
async def scheduling(cluster: Cluster, config: dict[str, Any] | None = None, *, overlaps: bool = False):
    registry = in_tree_registry()
    loaded = load_config(config, plugins=registry.declarations)
    documents = Documents(kinds_wanted(loaded))
    scheduler = Scheduler(
        EmbeddedApi(cluster.server, documents=documents),
        loaded,
        registry=registry,
        random=Random(1),
        settings=SchedulerSettings(overlaps=overlaps),
        documents=documents,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        await scheduler.ready.wait()
        yield scheduler
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Meter:
    """Wall and CPU seconds of a block, and its profile if that is wanted."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._profile = cProfile.Profile() if lines else None

    def __enter__(self) -> Meter:
        self.start, self.cpu_start = time.perf_counter(), time.process_time()
        if self._profile is not None:
            self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        if self._profile is not None:
            self._profile.disable()
            pstats.Stats(self._profile).sort_stats("tottime").print_stats(self._lines)
        self.seconds, self.cpu = time.perf_counter() - self.start, time.process_time() - self.cpu_start


# -- good pods beside others -------------------------------------------------------------------------------------------


def unschedulable(i: int) -> dict[str, Any]:
    kind = i % 3
    if kind == 0:
        return sized(shapes.pod(i, prefix="large"), f"{100 + i % 20}")
    if kind == 1:
        return shapes.pod(i, prefix="nowhere", nodeSelector={"disk": "none"})
    # Every node has a little less left than this.
    return sized(shapes.pod(i, prefix="tight"), "1")


async def beside(count: int, options: argparse.Namespace) -> None:
    cluster = Cluster()
    for i in range(options.nodes):
        cluster.create(shapes.node(i))
        full = sized(shapes.pod(i, prefix="filler", nodeName=f"node-{i:05d}"), "3500m")
        cluster.create(full)
    for i in range(count):
        cluster.create(unschedulable(i))
    async with scheduling(cluster) as scheduler:
        await tried_once(scheduler, count)
        gc.collect()
        attempts = scheduler.queue.scheduling_cycle
        with Meter(options.profile) as meter:
            born = await stream(cluster, options)
        attempts = scheduler.queue.scheduling_cycle - attempts - len(born)
    bound = [(cluster.bound[name], at) for name, at in born.items() if name in cluster.bound]
    print(
        f"{count:6,} unschedulable: good pods bound after {late(end[0] - at[0] for end, at in bound)}, "
        f"in CPU time {late(end[1] - at[1] for end, at in bound)}; {len(born) - len(bound)} not bound; "
        f"{attempts:,} other attempts; {meter.cpu:.1f} s of CPU in {meter.seconds:.1f} s",
        flush=True,
    )


def late(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    at = [f"{1e3 * found[int(share * (len(found) - 1))]:.1f}" for share in (0.5, 0.9, 0.99, 1.0)]
    return f"{at[0]} ms (p90 {at[1]}, p99 {at[2]}, worst {at[3]})"


async def tried_once(scheduler: Scheduler, count: int) -> None:
    for _ in range(3000):
        if scheduler.queue.scheduling_cycle >= count and not scheduler.busy:
            return
        await asyncio.sleep(0.1)
    raise RuntimeError("the scheduler does not come to rest")


async def stream(cluster: Cluster, options: argparse.Namespace) -> dict[str, Moment]:
    """Good pods at a steady rate, each there for a while once it is bound; when each was created."""
    born: dict[str, Moment] = {}
    leaving: deque[str] = deque()
    start = time.perf_counter()
    total = int(options.seconds * options.rate)
    for tick in range(5 * total):
        await asyncio.sleep(max(0.0, start + tick / options.rate - time.perf_counter()))
        if len(born) < total:
            obj = shapes.pod(tick, prefix="good")
            born[obj["metadata"]["name"]] = now()
            leaving.append(obj["metadata"]["name"])
            cluster.create(obj)
        elif all(name in cluster.bound for name in leaving):
            break
        while leaving and time.perf_counter() - cluster.bound.get(leaving[0], now())[0] > LIVES:
            cluster.delete(leaving.popleft())
    return born


# -- preemptors --------------------------------------------------------------------------------------------------------


async def preemptors(options: argparse.Namespace) -> None:
    """Each node has four pods of one CPU; each preemptor asks for two."""
    cluster = Cluster()
    for i in range(options.nodes):
        cluster.create(shapes.node(i))
        for j in range(4):
            victim = shapes.pod(4 * i + j, prefix="v", nodeName=f"node-{i:05d}", priorityClassName="low")
            cluster.create(sized(victim, "1"))
    async with scheduling(cluster) as scheduler:
        await tried_once(scheduler, 0)
        gc.collect()
        with Meter(options.profile) as meter:
            names = []
            for i in range(options.preemptors):
                obj = sized(shapes.pod(i, prefix="high", priorityClassName="high"), "2")
                names.append(obj["metadata"]["name"])
                cluster.create(obj)
            for _ in range(int(options.seconds * 500)):
                if all(name in cluster.bound for name in names):
                    break
                await asyncio.sleep(0.02)
        attempts = scheduler.queue.scheduling_cycle
    placed = sum(name in cluster.bound for name in names)
    print(
        f"{options.preemptors:,} preemptors on {options.nodes:,} full nodes: {placed:,} bound after "
        f"{meter.seconds:.2f} s with {meter.cpu:.2f} s of CPU and {attempts:,} attempts; "
        f"{len(cluster.victims):,} victims, {2 * options.preemptors:,} needed",
        flush=True,
    )


async def run(options: argparse.Namespace) -> None:
    if "beside" in options.what:
        for count in options.unschedulable:
            await beside(count, options)
    if "preemptors" in options.what:
        await preemptors(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["beside", "preemptors"])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--unschedulable", type=int, nargs="+", default=[0, 1000, 10000])
    parser.add_argument("--preemptors", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=50.0, help="good pods a second")
    parser.add_argument("--profile", type=int, default=0, help="so many lines of what took the time")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
