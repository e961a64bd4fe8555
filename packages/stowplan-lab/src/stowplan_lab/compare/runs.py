"""One simulation of a comparison: its input and result, as sent to workers.

Arrivals, lifetimes and faults do not depend on decisions (`scenarios.simulation`), so with the same seed configurations
get the same pods, and differences are paired by seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan_lab.simulation.simulate import simulate_scenario

if TYPE_CHECKING:
    from stowplan_lab.simulation.results.records import SummaryRecord


class Job(PlainStruct, frozen=True):
    scenario: str
    #: Index of the configuration in the comparison, and its file; None: the scenario's own.
    side: int
    config: str | None
    seed: int
    #: MODULE:CLASS of plugins.
    plugins: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True):
    #: Measure -> value.
    values: dict[str, float]
    #: Pod -> its last node.
    nodes: dict[str, str]
    #: For the user, such as what can never run.
    notes: tuple[str, ...] = ()


def measured(job: Job) -> Run:
    """Simulate; importable, for worker processes."""
    plugins = [load_plugin(path) for path in job.plugins]
    result = simulate_scenario(job.scenario, config=job.config, seed=job.seed, plugins=plugins)
    summary = result.summary
    return Run(values_of(summary), {row.pod: row.node for row in result.decisions or ()}, summary.notes)


def values_of(summary: SummaryRecord) -> dict[str, float]:
    """The compared measures of a simulation; shares in percent, waits in seconds."""
    waits = summary.waits
    return {
        "waits.mean": waits.mean,
        "waits.p95": waits.p95,
        "waits.longest": waits.longest,
        "unplaced": float(waits.unplaced),
        "evictions": float(summary.evictions),
        **{f"utilization.{name}": 100 * share for name, share in summary.utilization.items()},
        **{f"fragmentation.{name}": 100 * share for name, share in summary.fragmentation.items()},
        "nodes.mean": summary.nodes_mean,
        "cost": summary.cost,
    }
