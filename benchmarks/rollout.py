"""µs of CPU that the scheduler takes for a pod of a Deployment, from its pop to the request that binds it.

    python benchmarks/rollout.py [--nodes 5000] [--pods 1000] [--scenario plain …] [--metrics] [--group 50]

Two engines get the same pods: one decides each by itself (`alone`), the other a run of them together (`run`). They take
turns of `--group` pods, after which the binds are answered and the bound pods delivered, which is not counted. Smallest
and median time of a turn. Where the pods go must be the same.

Existing pods, two a node, have the shape of the new ones. `default` are pods that a Service selects, which spread by
default constraints over hosts and zones.
"""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import time
from random import Random
from typing import Any

import shapes
from msgspec.structs import replace

from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod, Service
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.engine import SCHEDULE, Engine
from stowplan.scheduler.engine.evaluation import run_of_pods
from stowplan.scheduler.engine.inputs import Answer, Changes, Started
from stowplan.scheduler.framework.requests import Bind, Done
from stowplan.scheduler.in_tree.registry import in_tree_registry

#: What is printed -> the kind of pods, and how many of them a run has before they are decided together.
SCENARIOS = {"plain": "basic", "spread": "spread", "prefspread": "prefspread", "default": "basic"}
SIDES = {"alone": 1 << 60, "run": run_of_pods.WORTHWHILE}


class Meter:
    def __init__(self) -> None:
        self.clock = time.perf_counter
        self.random = Random(0).random


class Side:
    def __init__(self, scenario: str, options: argparse.Namespace) -> None:
        registry = in_tree_registry()
        self.engine = Engine(
            load_config(None, plugins=registry.declarations),
            registry=registry,
            now=0.0,
            meter=Meter(),
            metrics=SchedulerMetrics(MetricsRegistry(), gates=DEFAULT_FEATURES) if options.metrics else None,
            random=Random(1),
            api=VirtualApi(),
        )
        self.engine.step(Started(), 0.0)
        nodes = [convert(shapes.node(i), Node) for i in range(options.nodes)]
        self.comes(Node, nodes)
        if scenario == "default":
            self.comes(Service, [convert(_service(), Service)])
        kind = SCENARIOS[scenario]
        old = [shapes.pod(i, kind, "e", nodeName=f"node-{i % options.nodes:05d}") for i in range(2 * options.nodes)]
        self.comes(Pod, [convert(pod, Pod) for pod in old])
        template = convert(shapes.pod(0, kind), Pod)
        new = [
            replace(template, metadata=replace(template.metadata, name=f"p-{i}", uid=f"p-{i}"))
            for i in range(options.pods)
        ]
        self.comes(Pod, new)
        self.pods = {pod.metadata.uid: pod for pod in new}
        self.placed: list[tuple[str, str]] = []
        self.times: list[float] = []

    def comes(self, kind: type[Any], objects: list[Any]) -> None:
        self.engine.step(Changes(kind, [Change(None, obj) for obj in objects]), 0.0)

    def turn(self, pods: int) -> None:
        engine, effects = self.engine, []
        started = time.process_time()
        for _ in range(pods):
            effects += engine.step(SCHEDULE, 0.0)
        self.times.append((time.process_time() - started) / pods)
        bound = []
        for effect in effects:
            if isinstance(effect.action, Bind):
                engine.step(Answer(effect.number, Done(None)), 0.0)
                pod, node = self.pods[effect.action.uid], effect.action.node
                bound.append(Change(pod, replace(pod, spec=replace(pod.spec, node_name=node))))
                self.placed.append((effect.action.uid, node))
        engine.step(Changes(Pod, bound), 0.0)


def _service() -> dict[str, Any]:
    metadata = {"name": "race", "namespace": shapes.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "race"}}}


def measure(scenario: str, options: argparse.Namespace) -> dict[str, list[float]]:
    sides = {name: Side(scenario, options) for name in SIDES}
    gc.collect()
    gc.freeze()
    gc.disable()
    for first in range(0, options.pods, options.group):
        # In alternating order.
        for name in sorted(sides, reverse=bool(first // options.group % 2)):
            run_of_pods.WORTHWHILE = SIDES[name]
            sides[name].turn(min(options.group, options.pods - first))
    gc.enable()
    gc.unfreeze()
    alone, run = sides.values()
    assert alone.placed == run.placed, "the pods went to other nodes"
    assert len(run.placed) == options.pods
    return {name: side.times for name, side in sides.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--group", type=int, default=50, help="pods of a turn")
    parser.add_argument("--scenario", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    parser.add_argument("--metrics", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print("µs of CPU a pod   alone: least  median  run: least  median   mean  ratio")
    for scenario in options.scenario:
        times = measure(scenario, options)
        (a_min, a_median, a_mean), (r_min, r_median, r_mean) = (
            (1e6 * min(t), 1e6 * statistics.median(t), 1e6 * statistics.fmean(t)) for t in times.values()
        )
        print(
            f"{scenario:16} {a_min:>13.0f} {a_median:>7.0f} {r_min:>11.0f} {r_median:>7.0f} {r_mean:>6.0f}"
            f" {a_mean / r_mean:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
