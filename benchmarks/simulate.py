"""`simulate_scenario` at size: pods that come, run for a while and end, with all models on, and a row for each.

    python benchmarks/simulate.py [--pods 100000] [--nodes 1000 5000] [--folder FOLDER] [--profile FILE]
    python benchmarks/simulate.py --scenario FILE

Five kinds of pods with 50 groups of labels each, as in `benchmarks/virtual_time.py`, at 100 a second of simulated time;
lifetimes are drawn. Each line is a tenth of the pods: pods per second of real time and of CPU, and memory. With
`--scenario`, it is a tenth of the time of a scenario with a duration, such as `benchmarks/week.yaml`.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import time
from pathlib import Path
from typing import Any

import shapes
import virtual_time

from stowplan.kube.timing.process_tuning import collect_garbage_less_often
from stowplan_lab.simulation.simulate import simulate_scenario

GROUPS = 10
KINDS = 5


def scenario(pods: int, nodes: int, rate: float) -> dict[str, Any]:
    """Each kind of pod is a workload of its own; together they come at `rate`."""
    number = KINDS * GROUPS
    workloads = []
    for i in range(number):
        manifest = shapes.pod(i, "mixed")
        del manifest["metadata"]["uid"]
        workloads.append(
            {
                "name": f"p{i}",
                "manifest": manifest,
                "poisson": f"{rate / number}/s",
                "count": pods // number,
                "lifetime": {"uniform": ["60s", "5m"]},
            }
        )
    group = {
        "name": "node",
        "count": nodes,
        "capacity": {"cpu": 4, "memory": "32Gi"},
        "zones": ["zone0", "zone1", "zone2"],
        "price": 0.1,
    }
    namespace = {"name": "benchmark", "cluster": {"groups": [group]}, "workloads": workloads}
    return namespace


class Lines:
    def __init__(self, pods: int) -> None:
        self.every = max(1, pods // 10)
        self.first = self.last = (0, time.perf_counter(), time.process_time())

    def __call__(self, progress: Any, simulation: Any) -> None:
        if progress.arrived - self.last[0] >= self.every:
            now = (progress.arrived, time.perf_counter(), time.process_time())
            print(f"{progress.arrived:10,} {virtual_time._rates(self.last, now)}", flush=True)
            self.last = now


class Tenths:
    """A line per tenth of the simulated time."""

    def __init__(self) -> None:
        self.done = 0
        self.first = self.last = (0, time.perf_counter(), time.process_time())

    def __call__(self, progress: Any, simulation: Any) -> None:
        if progress.time * 10 >= (self.done + 1) * progress.duration:
            self.done += 1
            now = (simulation.ledger.placements, time.perf_counter(), time.process_time())
            print(f"{now[0]:10,} {virtual_time._rates(self.last, now)}", flush=True)
            self.last = now


def run_scenario(path: str) -> None:
    lines = Tenths()
    print(f"{'pods':>10} {'per second':>14} {'per CPU s':>12} {'CPU µs':>9} {'MiB':>8}", flush=True)
    summary = simulate_scenario(path, decisions=False, progress=lines).summary
    now = (summary.placements, time.perf_counter(), time.process_time())
    print(f"{'all':>10} {virtual_time._rates(lines.first, now)}")
    print(f"{summary.simulated:,.0f} s simulated, {summary.arrived:,} pods, rows {summary.digest[:16]}")
    print(f"ends {summary.ends}, Jobs {summary.jobs}, in use {summary.utilization}", flush=True)


def run(pods: int, nodes: int, options: argparse.Namespace) -> None:
    lines = Lines(pods)
    print(f"{pods:,} pods on {nodes:,} nodes")
    print(f"{'pods':>10} {'per second':>14} {'per CPU s':>12} {'CPU µs':>9} {'MiB':>8}", flush=True)
    found = simulate_scenario(
        scenario(pods, nodes, options.rate),
        folder=Path(options.folder) if options.folder else None,
        decisions=bool(options.folder),
        progress=lines,
    )
    now = (found.summary.placements, time.perf_counter(), time.process_time())
    print(f"{'all':>10} {virtual_time._rates(lines.first, now)}")
    print(f"{found.summary.simulated:,.0f} s simulated, rows {found.summary.digest[:16]}", flush=True)
    assert found.summary.ends == {"finished": found.summary.arrived}, found.summary.ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--rate", type=float, default=100.0, help="pods that come each simulated second")
    parser.add_argument("--folder", help="write the results there")
    parser.add_argument("--profile", help="write a profile of the run here")
    parser.add_argument("--scenario", help="a scenario with a duration, instead of these pods")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    collect_garbage_less_often()
    if options.scenario:
        run_scenario(options.scenario)
        return
    for nodes in options.nodes:
        if options.profile:
            cProfile.runctx("run(options.pods, nodes, options)", globals(), locals(), options.profile)
        else:
            run(options.pods, nodes, options)


if __name__ == "__main__":
    main()
