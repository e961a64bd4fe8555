"""Simulate configurations with several seeds each; yield each when all its seeds are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan_lab.sweeps.run_all import run_all
from stowplan_lab.tuning.runs import Job, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from stowplan_lab.sweeps.workers import Workers
    from stowplan_lab.tuning.runs import Measured, Part

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
