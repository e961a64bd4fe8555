"""A simulation of a search: the job for a worker, and its measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan_lab.simulation.definition.amounts import Span
from stowplan_lab.simulation.definition.load import Located
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.tuning.measures import measured_since

if TYPE_CHECKING:
    from stowplan_lab.simulation.definition.schema import Scenario
    from stowplan_lab.simulation.simulate import SimulationResult


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
