"""Simulations of a search: each configuration with several seeds, its job for a worker, and its measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan_lab.simulation.definition.amounts import Span
from stowplan_lab.simulation.definition.scenario_fields import Scenario
from stowplan_lab.simulation.definition.scenario_loading import Located
from stowplan_lab.simulation.simulate import SimulationResult, simulate_scenario
from stowplan_lab.sweeps import Workers, run_all
from stowplan_lab.tuning.objective import measured_since


class Part(PlainStruct, frozen=True, kw_only=True):
    """A scenario, and the part of its time that counts."""

    scenario: Scenario
    folder: str
    #: MODULE:CLASS of plugins.
    plugins: tuple[str, ...] = ()
    #: Seconds since the start: the start of the part that counts, and the end of the simulation; None: its own.
    since: float = 0.0
    until: float | None = None


class Measured(PlainStruct, frozen=True):
    values: dict[str, float]
    #: For the user, such as what can never run.
    notes: tuple[str, ...]


class Job(PlainStruct, frozen=True, kw_only=True):
    part: Part
    #: A KubeSchedulerConfiguration.
    config: dict[str, Any]
    seed: int


def measured(job: Job) -> Measured:
    """Simulate; importable, for worker processes."""
    result = _simulated(job)
    return Measured(measured_since(result, job.part.since), result.summary.notes)


def last_arrival(job: Job) -> float:
    """The time of the last arrival; importable, for worker processes."""
    return max((row.arrived for row in _simulated(job).decisions or ()), default=0.0)


def _simulated(job: Job) -> SimulationResult:
    part = job.part
    # Waits require rows of pods.
    scenario = replace(part.scenario, output=replace(part.scenario.output, decisions=True))
    if part.until is not None:
        scenario = replace(scenario, duration=Span(part.until))
    return simulate_scenario(
        Located(scenario, Path(part.folder)),
        config=job.config,
        seed=job.seed,
        plugins=[load_plugin(path) for path in part.plugins],
    )


#: Measure -> value, by seed.
Measures = list[dict[str, float]]


class Simulated(NamedTuple):
    """The result for one configuration: measures, or the error of the first seed that failed."""

    key: str
    measures: Measures
    error: str = ""
    #: Of all seeds, each once.
    notes: tuple[str, ...] = ()


def simulated(
    workers: Workers,
    wanted: Mapping[str, tuple[Part, dict[str, Any]]],
    seeds: Sequence[int],
    progress: Callable[[], object],
) -> Iterator[Simulated]:
    """Key -> part and configuration; in order of completion."""
    jobs = [(key, Job(part=part, config=config, seed=seed)) for key, (part, config) in wanted.items() for seed in seeds]
    found: dict[str, dict[int, Measured]] = {key: {} for key in wanted}
    errors: dict[str, dict[int, str]] = {key: {} for key in wanted}
    for outcome in run_all(workers, measured, [job for _, job in jobs]):
        key, job = jobs[outcome.job]
        progress()
        if outcome.result is None:
            errors[key][job.seed] = outcome.error
        else:
            found[key][job.seed] = outcome.result
        if len(found[key]) + len(errors[key]) < len(seeds):
            continue
        if errors[key]:
            seed = min(errors[key])
            yield Simulated(key, [], f"seed {seed}: {errors[key][seed]}")
        else:
            runs = [found[key][seed] for seed in seeds]
            notes = dict.fromkeys(note for run in runs for note in run.notes)
            yield Simulated(key, [run.values for run in runs], notes=tuple(notes))
