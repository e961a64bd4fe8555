"""Measures of a part of a simulation, from a given time to its end.

They cover the pods that arrived in that part (waits: `timing.waits`). Shares, nodes and cost are from its samples.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from stowplan.kube.timing.waits import Waits, wait_measures
from stowplan_lab.simulation.results.ledger import CALM, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stowplan_lab.simulation.results.records import SampleRow
    from stowplan_lab.simulation.simulate import SimulationResult

#: Measures of every part, in addition to utilization and fragmentation of each resource.
MEASURES = (
    *("waits.mean", "waits.p95", "waits.longest", "unplaced", "evictions"),
    *("utilization", "fragmentation", "nodes.mean", "cost"),
)
#: Higher is better.
_MORE_IS_BETTER = "utilization"
_NO_RESOURCE = "pods"


def sign(measure: str) -> int:
    """1 if lower is better, -1 if higher is."""
    return -1 if measure.partition(".")[0] == _MORE_IS_BETTER else 1


def measured_since(result: SimulationResult, since: float) -> dict[str, float]:
    """Measures of a simulation with decisions; shares in percent, waits in seconds."""
    until = result.summary.simulated
    samples = [row for row in result.series if row.time >= since] or result.series[-1:]
    waits = Waits()
    for row in result.decisions or ():
        arrived_placed = row.placed is not None and not row.attempts
        if row.arrived >= since and row.end != REFUSED and not arrived_placed:
            end = row.placed if row.placed is not None else until if row.ended is None else row.ended
            waits.add(end - row.arrived, placed=row.placed is not None)
    evicted = (row for row in result.decisions or () if row.evicted is not None and row.evicted >= since)
    return {
        **wait_measures(waits),
        "evictions": float(sum(row.end not in CALM for row in evicted)),
        **_shares("utilization", samples, _use),
        **_shares("fragmentation", samples, lambda row: row.fragmentation),
        "nodes.mean": fmean(row.nodes for row in samples) if samples else 0.0,
        "cost": samples[-1].cost - samples[0].cost if samples else 0.0,
    }


def _use(row: SampleRow) -> dict[str, float]:
    have = row.allocatable
    return {name: used / have[name] for name, used in row.used.items() if have.get(name) and name != _NO_RESOURCE}


def _shares(
    name: str, samples: Sequence[SampleRow], of: Callable[[SampleRow], Mapping[str, float]]
) -> dict[str, float]:
    """Means over the samples in percent: of each resource, and of all used resources together."""
    every = [of(row) for row in samples]
    resources = sorted({resource for shares in every for resource in shares})
    means = {resource: 100 * fmean(shares.get(resource, 0.0) for shares in every) for resource in resources}
    used = [mean for mean in means.values() if mean] or [0.0]
    return {name: fmean(used), **{f"{name}.{resource}": mean for resource, mean in means.items()}}
