"""What metrics cost: µs of CPU a pod, of the engine with them and without, in one process.

    python benchmarks/metrics.py [--nodes 1000 5000] [--pods 200] [--rounds 40]

Two engines in virtual time have the same nodes and are given the same pods, round by round, one after the other; one of
them has no metrics. The path is the whole one of a pod: it is heard of, queued, tried, bound, told of by an event, and
heard of as bound, on a small object store instead of an API server. The difference is the median over the rounds, as
others may use the machine meanwhile. What the requests of a pod (a bind and an event) are told of is measured alone,
and comes on top.

"equal": all pods are alike, and share what was found out. "controllers": the pods of fifty controllers come in turn.
"different": no two pods ask for the same, which no cluster does, but which shows the most that metrics can cost.
"""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import time
from random import Random
from typing import TYPE_CHECKING

import shapes

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.metrics.client_metrics import ClientMetrics
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.net.client.request_metrics import RequestMetrics
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.framework.requests import Create, Delete
from stowplan.scheduler.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUESTS_A_POD = 2
#: Pods stay for so many rounds.
STAY = 2
CONTROLLERS = 50


class Competitor:
    """An engine in a time that stands still, on a cluster of its own."""

    def __init__(self, nodes: Sequence[Node], *, metrics: bool) -> None:
        registry = in_tree_registry()
        engine = Engine(
            load_config(None, plugins=registry.declarations),
            registry=registry,
            now=0.0,
            meter=Meter(),
            metrics=SchedulerMetrics(MetricsRegistry(), gates=DEFAULT_FEATURES) if metrics else None,
            random=Random(1),
            api=VirtualApi(),
        )
        self.time = VirtualTime(engine, ObjectStore())
        for node in nodes:
            self.time.write(Create(obj=node))
        self.time.run()
        self.there: list[Sequence[Pod]] = []
        self.took: list[float] = []

    def round(self, pods: Sequence[Pod]) -> None:
        """Place these pods; then those of an earlier round leave, which is not measured."""
        started = time.process_time()
        for pod in pods:
            self.time.write(Create(obj=pod))
        self.time.run()
        self.took.append((time.process_time() - started) / len(pods))
        placed = [self.time.store.get(Pod, pod.metadata.namespace, pod.metadata.name) for pod in pods]
        assert all(pod.spec.node_name for pod in placed)
        self.there.append(pods)
        if len(self.there) > STAY:
            for pod in self.there.pop(0):
                self.time.write(Delete(kind=Pod, namespace=pod.metadata.namespace, name=pod.metadata.name))
            self.time.run()


class Meter:
    """The stopwatch of metrics; its chance is its own."""

    def __init__(self) -> None:
        self.clock = time.monotonic
        self.random = Random(0).random


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


def compared(kind: str, nodes: int, options: argparse.Namespace) -> None:
    objects = [decode_object(shapes.node(i)) for i in range(nodes)]
    both = [Competitor(objects, metrics=wanted) for wanted in (False, True)]
    gc.collect()
    gc.freeze()
    gc.disable()
    for number in range(options.rounds + 2):
        pods = pods_of(kind, number, options.pods)
        for competitor in both if number % 2 else reversed(both):
            competitor.round(pods)
        gc.collect(0)
    gc.enable()
    gc.unfreeze()
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


def run(options: argparse.Namespace) -> None:
    for kind in ("equal", "controllers", "different"):
        for nodes in options.nodes:
            compared(kind, nodes, options)
    request = a_request()
    print(f"a request to an API server: {request:.1f} µs, {REQUESTS_A_POD} a pod: {REQUESTS_A_POD * request:.1f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=200, help="pods a round")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    run(options)


if __name__ == "__main__":
    main()
