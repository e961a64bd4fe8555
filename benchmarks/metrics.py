"""What metrics cost: µs of CPU a pod, of the live scheduler with them and without, in one process.

    python benchmarks/metrics.py [--nodes 1000 5000] [--pods 200] [--rounds 40]

Two schedulers have the same nodes and are given the same pods, round by round, one after the other; one of them has
its metrics taken away. The API is next to nothing (binding answers at once, and the news of it come when a round's pods
are all bound), so the path is the whole one of a pod: it is heard of, queued, tried, bound, told of by an event, and
heard of as bound. The difference is the median over the rounds, as others may use the machine meanwhile. What the
requests of a pod (a bind and an event) are told of is measured alone, and comes on top.

"equal": all pods are alike, and share what was found out. "controllers": the pods of fifty controllers come in turn.
"different": no two pods ask for the same, which no cluster does, but which shows the most that metrics can cost.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import time
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import shapes

from stowplan.api.changes import Change
from stowplan.api.decode import decode_object
from stowplan.api.port import Listing
from stowplan.api.types import Node, Pod
from stowplan.client.request_metrics import RequestMetrics
from stowplan.config import load_config
from stowplan.engine.attempt import on_node
from stowplan.engine.attempt_metrics import AttemptMetrics
from stowplan.in_tree.registry import in_tree_registry
from stowplan.live.scheduler import Scheduler
from stowplan.metrics.client import ClientMetrics
from stowplan.metrics.registry import MetricsRegistry
from stowplan.queue.metrics import QueueMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

REQUESTS_A_POD = 2
#: Pods stay for so many rounds.
STAY = 2
CONTROLLERS = 50


class Nothing:
    """An API with nodes and nothing else, where every write succeeds at once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.bound: dict[str, str] = {}
        #: Binds that are still awaited.
        self.awaited = 0
        self.all_bound = asyncio.Event()

    async def list(self, kind: type[Any], **_: Any) -> Listing[Any]:
        return Listing(self.nodes if kind is Node else (), "1")

    async def watch(self, kind: type[Any], **_: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def serves(self, kind: type[Any]) -> bool:
        return True

    async def bind(self, *, name: str, node: str, **_: Any) -> None:
        self.bound[name] = node
        self.awaited -= 1
        if not self.awaited:
            self.all_bound.set()

    async def create(self, obj: Any, **_: Any) -> Any:
        return obj


class Silent:
    """Stands in for metrics that nobody wants: whatever it is asked to do, it does not."""

    incoming = property(lambda self: {})

    def __init__(self, now: Any) -> None:
        self.now = now
        self.binding = self
        self.value = 0.0
        self.points = defaultdict(lambda: self)

    def _ignore(self, *_: Any, **__: Any) -> None: ...

    ran = took = begin_cycle = decided = scheduled = failed = waited = came = hinted = _ignore


class Competitor:
    """A scheduler at work."""

    def __init__(self, nodes: Sequence[Node], *, metrics: bool) -> None:
        self.api = Nothing(nodes)
        registry = in_tree_registry()
        config = load_config(None, plugins=registry.declarations)
        self.scheduler = Scheduler(self.api, config, registry=registry, random=Random(1))
        if not metrics:
            self._silence()
        self.running = asyncio.create_task(self.scheduler.run())
        self.there: list[list[Pod]] = []
        self.took: list[float] = []

    def _silence(self) -> None:
        scheduler = self.scheduler
        for framework in scheduler.frameworks.values():
            framework.metrics = None
            framework.handle.metrics = Silent(time.monotonic)
        for part in (scheduler._cycle, scheduler._binding, scheduler._failures):
            assert isinstance(part._metrics, AttemptMetrics)
            part._metrics = Silent(scheduler.clock)
        for part in (scheduler.queue, scheduler.queue._places, scheduler.queue._requeueing):
            assert isinstance(part._metrics, QueueMetrics)
            part._metrics = Silent(time.monotonic)
        scheduler.handlers._handled = lambda label, started: None

    async def round(self, pods: Sequence[Pod]) -> None:
        """Bind these pods and hear of it; then those of an earlier round leave, which is not measured."""
        handle = self.scheduler.handlers.handle
        started = time.process_time()
        self.api.awaited = len(pods)
        self.api.all_bound.clear()
        handle(Pod, [Change(None, pod) for pod in pods])
        async with asyncio.timeout(60):
            await self.api.all_bound.wait()
        bound = [on_node(pod, self.api.bound[pod.metadata.name]) for pod in pods]
        handle(Pod, [Change(old, new) for old, new in zip(pods, bound, strict=True)])
        self.took.append((time.process_time() - started) / len(pods))
        for _ in range(100_000):
            if not self.scheduler.busy:
                break
            await asyncio.sleep(0)
        self.there.append(bound)
        if len(self.there) > STAY:
            handle(Pod, [Change(pod, None) for pod in self.there.pop(0)])


def pods_of(kind: str, number: int, count: int) -> list[Pod]:
    made = []
    for i in range(count):
        nth = number * count + i
        obj = shapes.pod(nth, prefix=kind)
        if kind != "equal":
            memory = 500 + (nth // CONTROLLERS if kind == "different" else 0)
            size = {"cpu": f"{100 + nth % CONTROLLERS}m", "memory": f"{memory}Mi"}
            obj["spec"]["containers"][0]["resources"] = {"requests": size}
        made.append(decode_object(obj))
    return made


async def compared(kind: str, nodes: int, options: argparse.Namespace) -> None:
    objects = [decode_object(shapes.node(i)) for i in range(nodes)]
    both = [Competitor(objects, metrics=wanted) for wanted in (False, True)]
    for competitor in both:
        await competitor.scheduler.ready.wait()
    gc.collect()
    gc.freeze()
    gc.disable()
    for number in range(options.rounds + 2):
        pods = pods_of(kind, number, options.pods)
        for competitor in both if number % 2 else reversed(both):
            await competitor.round(pods)
        gc.collect(0)
    gc.enable()
    gc.unfreeze()
    for competitor in both:
        competitor.running.cancel()
        await asyncio.gather(competitor.running, return_exceptions=True)
    without, with_them = (competitor.took[2:] for competitor in both)
    differences = [1e6 * (more - less) for less, more in zip(without, with_them, strict=True)]
    base, difference = 1e6 * statistics.median(without), statistics.median(differences)
    quarter, _, three_quarters = statistics.quantiles(differences)
    print(
        f"{kind:11} pods, {nodes:6,} nodes: {base:6.1f} µs a pod without, {difference:5.1f} more with metrics "
        f"(middle half {quarter:.1f} to {three_quarters:.1f}), {100 * difference / base:.1f} %",
        flush=True,
    )


def a_request(count: int = 100_000) -> float:
    """µs that the metrics of one request take."""
    metrics = RequestMetrics(ClientMetrics(MetricsRegistry()), server="https://10.0.0.1:6443")
    clock = time.monotonic
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            started, of_method = clock(), metrics.of("POST")
            of_method.waited(clock() - started)
            of_method.tried("201")
            of_method.sent(200)
            of_method.ended(clock() - started)
            of_method.received(300)
        best = min(best, (time.process_time() - began) / count)
    return 1e6 * best


async def run(options: argparse.Namespace) -> None:
    for kind in ("equal", "controllers", "different"):
        for nodes in options.nodes:
            await compared(kind, nodes, options)
    request = a_request()
    print(f"a request to an API server: {request:.1f} µs, {REQUESTS_A_POD} a pod: {REQUESTS_A_POD * request:.1f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=200, help="pods a round")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
