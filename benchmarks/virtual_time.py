"""A simulation: pods that come, run for a while and end, as fast as the engine decides.

    python benchmarks/virtual_time.py [--pods 100000] [--nodes 1000] [--scenario basic mixed] [--seed 1]
                                      [--standing 8] [--metrics] [--stories] [--events] [--effects]
                                      [--profile FILE]

One process, no API server, no clock: the engine in virtual time on its object store, without latency. `--rate` pods
come each simulated second and run for a minute or up to five, so that some 18,000 are there at a time. Each line is a
tenth of the pods: decisions per second of real time and of CPU, and memory. Metrics, stories and events are off unless
they are asked for. The last line has a digest of all placements in their order, and with `--effects` of the bytes of
every effect: two runs with the same options print the same.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import logging
import resource
import time
from random import Random
from typing import TYPE_CHECKING, Any

import shapes
from msgspec.structs import replace

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.timing.process_tuning import collect_garbage_less_often
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.framework.requests import Create
from stowplan.scheduler.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Pods of one scenario are alike but for their names and these groups.
GROUPS = 50
#: Seconds that a pod runs.
SHORTEST, LONGEST = 60.0, 300.0
#: The name of those that never end.
STANDING = "standing"


class Meter:
    """The stopwatch of metrics; its chance is its own."""

    def __init__(self) -> None:
        self.clock = time.perf_counter
        self.random = Random(0).random


class Effects(Engine):
    """An engine that keeps a digest of its effects."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.digest = hashlib.sha256()

    def step(self, input_: Any, now: float) -> list[Any]:
        effects = super().step(input_, now)
        for effect in effects:
            self.digest.update(effect.encoded())
        return effects


def engine_of(options: argparse.Namespace) -> Engine:
    registry = in_tree_registry()
    return (Effects if options.effects else Engine)(
        load_config(None, plugins=registry.declarations),
        registry=registry,
        now=0.0,
        meter=Meter(),
        metrics=SchedulerMetrics(MetricsRegistry(), gates=DEFAULT_FEATURES) if options.metrics else None,
        random=Random(options.seed),
        settings=EngineSettings(stories=options.stories, events=options.events),
        api=VirtualApi(),
    )


class Arrivals:
    """The pods, made when they come, and how long each runs."""

    def __init__(self, scenario: str, options: argparse.Namespace) -> None:
        # Five kinds of pods take turns in "mixed".
        self._templates = [convert(shapes.pod(i, scenario), Pod) for i in range(5 * GROUPS)]
        self._options = options
        self._chance = Random(options.seed)
        self.placed = hashlib.sha256()
        self.decisions = 0
        self.lines = Lines(options.pods)

    def __iter__(self) -> Iterator[tuple[float, Create]]:
        templates, rate = self._templates, self._options.rate
        for i in range(self._options.pods):
            template = templates[i % len(templates)]
            metadata = replace(template.metadata, name=f"p-{i:06d}", uid=f"p-{i}")
            yield i / rate, Create(obj=replace(template, metadata=metadata))

    def runs_for(self, pod: Pod) -> float | None:
        """It was placed."""
        if pod.metadata.name.startswith(STANDING):
            return None
        self.placed.update(f"{pod.metadata.name} {pod.spec.node_name}\n".encode())
        self.decisions += 1
        if self.decisions % self.lines.every == 0:
            self.lines.add(self.decisions)
        return SHORTEST + self._chance.random() * (LONGEST - SHORTEST)


class Lines:
    """How fast it goes, and in how much memory."""

    def __init__(self, pods: int) -> None:
        self.every = max(1, pods // 10)
        self.begin()

    def begin(self) -> None:
        self.first = self._last = (0, time.perf_counter(), time.process_time())

    def add(self, decisions: int) -> None:
        now = (decisions, time.perf_counter(), time.process_time())
        print(f"{decisions:10,} {_rates(self._last, now)}", flush=True)
        self._last = now


def _rates(since: tuple[int, float, float], now: tuple[int, float, float]) -> str:
    decisions, seconds, cpu = (a - b for a, b in zip(now, since, strict=True))
    return f"{decisions / seconds:14,.0f} {decisions / cpu:12,.0f} {1e6 * cpu / decisions:9.1f} {resident():8.1f}"


def resident() -> float:
    """MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def simulate(scenario: str, options: argparse.Namespace) -> None:
    arrivals = Arrivals(scenario, options)
    engine = engine_of(options)
    run = VirtualTime(engine, ObjectStore(), runs_for=arrivals.runs_for)
    for i in range(options.nodes):
        run.write(Create(obj=convert(shapes.node(i), Node)))
    for i in range(options.standing * options.nodes):
        pod = shapes.pod(i, scenario, STANDING, nodeName=f"node-{i % options.nodes:05d}")
        run.write(Create(obj=convert(pod, Pod)))
    run.run()
    run.feed(arrivals)
    gc.collect()
    print(f"{scenario}: {options.pods:,} pods on {options.nodes:,} nodes, {resident():.1f} MiB before the first")
    print(f"{'decisions':>10} {'per second':>14} {'per CPU s':>12} {'CPU µs':>9} {'MiB':>8}", flush=True)
    arrivals.lines.begin()
    run.run()
    whole = _rates(arrivals.lines.first, (arrivals.decisions, time.perf_counter(), time.process_time()))
    print(f"{'all':>10} {whole}")
    left = run.store.count(Pod)
    print(f"{run.now:,.1f} s simulated, {left} pods left, placements {arrivals.placed.hexdigest()[:16]}", end="")
    print(f", effects {engine.digest.hexdigest()[:16]}" if isinstance(engine, Effects) else "", flush=True)
    assert not run.refused, run.refused[:3]
    assert arrivals.decisions == options.pods, "not every pod was placed"
    assert left == options.standing * options.nodes, "not every pod ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100.0, help="pods that come each simulated second")
    parser.add_argument("--standing", type=int, default=0, help="pods of the same kind that each node has all the time")
    parser.add_argument("--scenario", nargs="+", default=["basic", "mixed"], choices=shapes.SCENARIOS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--stories", action="store_true")
    parser.add_argument("--events", action="store_true", help="events for users, which nobody hears")
    parser.add_argument("--effects", action="store_true", help="a digest of every effect, too")
    parser.add_argument("--profile", help="write a profile of the run here")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    collect_garbage_less_often()
    for scenario in options.scenario:
        if options.profile:
            cProfile.runctx("simulate(scenario, options)", globals(), locals(), options.profile)
        else:
            simulate(scenario, options)


if __name__ == "__main__":
    main()
