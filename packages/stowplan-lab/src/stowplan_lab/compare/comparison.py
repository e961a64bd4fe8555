"""Measures of each configuration on one scenario, and differences from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from stowplan.scheduler.inspection.records import Record
from stowplan_lab.compare.recorded import RecordingJob, measured_recording, notes_of
from stowplan_lab.compare.runs import Job, Run, measured
from stowplan_lab.compare.statistics import Estimate, estimate
from stowplan_lab.sweeps.run_all import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stowplan_lab.sweeps.workers import Workers

COMPARISON_VERSION = 1
#: A recording has its own random state.
_NO_SEED = 0
J = TypeVar("J", Job, RecordingJob)


class MeasureRecord(Record, frozen=True, kw_only=True):
    name: str
    #: One per configuration, in order.
    values: tuple[Estimate, ...]
    #: Each configuration minus the first, paired by seed; the first is 0.
    differences: tuple[Estimate, ...]


class FailureRecord(Record, frozen=True, kw_only=True):
    config: str
    seed: int
    error: str


class ComparisonRecord(Record, frozen=True, kw_only=True):
    version: int = COMPARISON_VERSION
    scenario: str
    configs: tuple[str, ...]
    #: Seeds that succeeded with all configurations.
    seeds: tuple[int, ...]
    measures: tuple[MeasureRecord, ...] = ()
    #: Percent of the pods that are on another node than with the first configuration, or on none.
    placed_differently: tuple[Estimate, ...] = ()
    failures: tuple[FailureRecord, ...] = ()
    #: Those of the simulations, once; or the limitations of rescheduling a recording.
    notes: tuple[str, ...] = ()
    #: Whether a recording was rescheduled, instead of a scenario.
    recording: bool = False
    #: Whether it was ended early: `seeds` are those that completed.
    interrupted: bool = False

    @property
    def is_same(self) -> bool:
        """Whether no run of any configuration differs from the first's."""
        every = (*self.placed_differently, *(one for measure in self.measures for one in measure.differences))
        return all(one == Estimate(mean=0.0) or (one.mean, one.low, one.high) == (0.0, 0.0, 0.0) for one in every)


def compare(
    scenario: str,
    configs: Sequence[str | None],
    *,
    names: Sequence[str],
    seeds: Sequence[int],
    workers: Workers,
    plugins: Sequence[str] = (),
    progress: Callable[[], object] = lambda: None,
) -> ComparisonRecord:
    """Simulate the scenario with each configuration and each seed; raises WorkersError."""
    jobs = [Job(scenario, side, config, seed, tuple(plugins)) for seed in seeds for side, config in enumerate(configs)]
    return _compared(scenario, names, seeds, jobs, measured, workers, progress)


def compare_recorded(
    recording: str,
    configs: Sequence[str | None],
    *,
    names: Sequence[str],
    workers: Workers,
    plugins: Sequence[str] = (),
    progress: Callable[[], object] = lambda: None,
) -> ComparisonRecord:
    """Reschedule the recording with each configuration (None: its own); raises WorkersError, RecordingError."""
    notes = notes_of(recording)
    jobs = [RecordingJob(recording, side, config, _NO_SEED, tuple(plugins)) for side, config in enumerate(configs)]
    found = _compared(recording, names, (_NO_SEED,), jobs, measured_recording, workers, progress)
    return msgspec.structs.replace(found, notes=notes, recording=True)


def _compared(
    about: str,
    names: Sequence[str],
    seeds: Sequence[int],
    jobs: Sequence[J],
    function: Callable[[J], Run],
    workers: Workers,
    progress: Callable[[], object],
) -> ComparisonRecord:
    found: dict[tuple[int, int], Run] = {}
    failures: dict[int, FailureRecord] = {}
    interrupted = False
    try:
        for outcome in run_all(workers, function, jobs):
            job = jobs[outcome.job]
            if outcome.result is None:
                failures[outcome.job] = FailureRecord(config=names[job.side], seed=job.seed, error=outcome.error)
            else:
                found[job.seed, job.side] = outcome.result
            progress()
    except KeyboardInterrupt:
        interrupted = True
    sides = range(len(names))
    # A seed counts for all configurations or for none: differences are paired by seed.
    by_seed = {seed: [found[seed, side] for side in sides] for seed in seeds if all((seed, s) in found for s in sides)}
    return ComparisonRecord(
        scenario=about,
        configs=tuple(names),
        seeds=tuple(by_seed),
        measures=tuple(_measures(by_seed)) if by_seed else (),
        placed_differently=tuple(_placed_differently(by_seed, side) for side in sides) if by_seed else (),
        failures=tuple(failures[job] for job in sorted(failures)),
        notes=tuple(dict.fromkeys(note for one in sorted(found) for note in found[one].notes)),
        interrupted=interrupted,
    )


def _measures(by_seed: Mapping[int, Sequence[Run]]) -> list[MeasureRecord]:
    every = list(by_seed.values())
    names = list(dict.fromkeys(name for runs in every for run in runs for name in run.values))
    found = []
    for name in names:
        rows = [[run.values.get(name, 0.0) for run in runs] for runs in every]
        if not any(map(any, rows)):
            continue
        columns = list(zip(*rows, strict=True))
        differences = ([b - a for a, b in zip(columns[0], column, strict=True)] for column in columns)
        found.append(
            MeasureRecord(
                name=name,
                values=tuple(estimate(column) for column in columns),
                differences=tuple(estimate(column) for column in differences),
            )
        )
    return found


def _placed_differently(by_seed: Mapping[int, Sequence[Run]], side: int) -> Estimate:
    return estimate([_share_elsewhere(runs[0].nodes, runs[side].nodes) for runs in by_seed.values()])


def _share_elsewhere(first: Mapping[str, str], other: Mapping[str, str]) -> float:
    pods = first.keys() | other.keys()
    return 100 * sum(first.get(pod) != other.get(pod) for pod in pods) / len(pods) if pods else 0.0
