"""The objective of a search, which is minimized: a blend of measures, or a user's function.

Measures are of a part of a simulation, from a given time to its end. They cover the pods that arrived in that part
(waits: `timing.waits`, `gang_measures`). Shares, nodes and cost are from its samples.

A blend is the weighted sum of how much each measure is worse than the baseline's, in percent of that. So measures of
different units can be combined, the baseline itself has 0, and lower is better. Measures for which higher is better,
such as utilization, count with the opposite sign. The Pareto front shows the two of most weight apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from math import isfinite
from statistics import fmean

from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.timing.waits import Waits, wait_measures
from stowplan.scheduler.framework.status import RAISED
from stowplan_lab.simulation.results.parts import CALM
from stowplan_lab.simulation.results.simulation_records import SampleRow, gang_measures
from stowplan_lab.simulation.simulate import SimulationResult


class TuningError(RuntimeError):
    """Says what is wrong and what to do."""


#: Measures of every part, in addition to utilization, fragmentation and busiest of each resource.
MEASURES = (
    *("waits.mean", "waits.p95", "waits.longest", "gangs.mean", "gangs.longest", "unplaced", "evictions"),
    *("utilization", "fragmentation", "busiest", "nodes.mean", "cost"),
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
        wait = row.wait(until)
        if row.arrived >= since and wait is not None:
            waits.add(wait, placed=row.placed is not None)
    evicted = (row for row in result.decisions or () if row.evicted is not None and row.evicted >= since)
    return {
        **wait_measures(waits),
        **gang_measures(result.decisions or (), until, since),
        "evictions": float(sum(row.end not in CALM for row in evicted)),
        **_shares("utilization", samples, _use),
        **_shares("fragmentation", samples, lambda row: row.fragmentation),
        **_shares("busiest", samples, lambda row: row.busiest),
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


def axes_of(terms: Iterable[str], found: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Two measures that differ between configurations: the objective's first; fewer if fewer differ."""
    # Waiting time is mostly traded for one of these.
    others = ("cost", "waits.mean", "fragmentation", "nodes.mean", "evictions", "utilization")
    differing = [
        measure
        for measure in dict.fromkeys((*terms, *others, *MEASURES))
        if len({round(values.get(measure, 0.0), 9) for values in found}) > 1
    ]
    return tuple(differing[:2])


def front(axes: Sequence[str], found: Mapping[int, Mapping[str, float]]) -> list[int]:
    """The keys of the undominated ones, from best to worst in the first axis."""
    if len(axes) < 2:
        return []
    points = sorted(
        ((sign(axes[0]) * values.get(axes[0], 0.0), sign(axes[1]) * values.get(axes[1], 0.0)), key)
        for key, values in found.items()
    )
    kept: list[int] = []
    lowest = float("inf")
    for (_, second), key in points:
        if second < lowest:
            kept.append(key)
            lowest = second
    return kept


UserFunction = Callable[[Mapping[str, float]], float]

#: Short names.
_SHORT = {"waits": "waits.mean", "gangs": "gangs.mean", "nodes": "nodes.mean"}
DEFAULT = "waits.mean"


class Objective:
    """Either `terms`, or a function of the measures; lower is better."""

    def __init__(self, text: str, terms: Mapping[str, float], function: UserFunction | None = None) -> None:
        #: As entered by the user.
        self.text = text
        self.terms = terms
        self._function = function

    def scores(self, found: Sequence[Mapping[str, float]], baseline: Sequence[Mapping[str, float]]) -> list[float]:
        """One per seed, lower is better; both must have the same seeds. Raises TuningError."""
        if self._function is not None:
            return [self._evaluated(values) for values in found]
        return [self._blended(values, first, baseline) for values, first in zip(found, baseline, strict=True)]

    def _blended(
        self, found: Mapping[str, float], first: Mapping[str, float], baseline: Sequence[Mapping[str, float]]
    ) -> float:
        total = 0.0
        for measure, weight in self.terms.items():
            # Of the mean over seeds: a single seed may have a zero, such as no waits.
            unit = abs(fmean(values.get(measure, 0.0) for values in baseline)) / 100 or 1.0
            total += weight * sign(measure) * (found.get(measure, 0.0) - first.get(measure, 0.0)) / unit
        return round(total, 6)

    def _evaluated(self, values: Mapping[str, float]) -> float:
        assert self._function is not None
        try:
            found = float(self._function(dict(values)))
        except RAISED as error:
            raise TuningError(f"objective {self.text}: {type(error).__name__}: {error}") from error
        if not isfinite(found):
            raise TuningError(f"objective {self.text}: want a finite number, got {found}")
        return round(found, 6)


def read_objective(text: str) -> Objective:
    """Parse `waits`, `waits=1,cost=0.5`, or `module:function`; raises TuningError."""
    if ":" in text:
        return Objective(text, {}, _function_at(text))
    terms: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            terms[name.strip()] = float(weight) if weight else 1.0
        except ValueError:
            raise TuningError(f"objective {text}: the weight of {name} is not a number: {weight!r}") from None
    return blend(terms)


def blend(terms: Mapping[str, float]) -> Objective:
    """A blend of measures with weights; raises TuningError."""
    found: dict[str, float] = {}
    for name, weight in terms.items():
        measure = _SHORT.get(name, name)
        kind, dot, _ = measure.partition(".")
        if measure not in MEASURES and not (dot and kind in ("utilization", "fragmentation", "busiest")):
            meant = next(did_you_mean(measure, MEASURES), f"there are {', '.join(MEASURES)}, or a module:function")
            raise TuningError(f"objective: there is no measure {name!r}; {meant}")
        if not (isfinite(weight) and weight > 0):
            raise TuningError(f"objective: the weight of {name} must be above 0, got {weight:g}")
        found[measure] = weight
    if not found:
        raise TuningError("objective: it has no measure")
    return Objective(", ".join(f"{name}={weight:g}" for name, weight in found.items()), found)


def _function_at(path: str) -> UserFunction:
    module_name, _, name = path.partition(":")
    try:
        found = getattr(import_module(module_name), name, None)
    except RAISED as error:
        raise TuningError(f"objective {path}: cannot import {module_name}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TuningError(f"objective {path}: module {module_name} has no function {name}")
    function: UserFunction = found
    return function
