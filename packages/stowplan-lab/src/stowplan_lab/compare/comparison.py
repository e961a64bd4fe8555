"""Measures of each configuration on one scenario or recording, and differences from the first.

Arrivals, lifetimes and faults do not depend on decisions (`simulation.simulate`), so with the same seed configurations
get the same pods, and differences are paired by seed. Means have 95 % confidence intervals (Student's t).

A recording has the times at which pods and nodes were added and deleted, but not the consequences of other decisions: a
pod is deleted when it was deleted then, however long it has run, and evicted pods are not recreated. So nodes,
utilization and cost are not measured, and the notes explain how to read the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeVar

import msgspec
from yaml import YAMLError

from stowplan.ask.rebalance.policy.policy_file import KIND
from stowplan.drivers.hang_guard.guarded_plugins import registry_with_installed
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.history.recordings.recording_files import files_of_run, header_of
from stowplan.history.recordings.rerun import RerunResult, rerun
from stowplan.kube.api.yaml_text import first_value
from stowplan.kube.config import load_config
from stowplan.kube.kubernetes_versions import KubernetesVersion, emulated_version_of
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import wait_measures
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.framework.runtime.registry import Registry, load_plugin
from stowplan.scheduler.inspection.records import Record
from stowplan_lab.simulation.results.simulation_records import SummaryRecord, gang_measures
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.sweeps import Workers, run_all

#: The name of the configuration of the recording.
RECORDED = "recorded"
#: Stands for what happened in the recording, to which configurations are compared.
REAL = "real"
#: Stands for the scenario without rebalancing.
NO_REBALANCE = "no-rebalance"
_WITH_VERSION = re.compile(r"(?:(.+)@)?(\d+\.\d+)")
#: The measure of how close a configuration comes to the recorded decisions.
PLACED_DIFFERENTLY = "placedDifferently"
ONE_RUN = (
    "Pods and nodes come and go as recorded: run times of pods, actions of an autoscaler and replacements of "
    "evicted pods could have been different. Nodes, utilization and cost are not compared. One recording is one run: "
    "seeds only choose among equally good nodes, and another week may differ."
)
NO_ATTEMPTS = (
    "The recording followed a cluster and does not say when its scheduler tried pods. Here they are tried as soon as "
    "they can be: waits are lower than on a cluster, and compare with each other only."
)


def is_policy(path: str) -> bool:
    """Whether a file has a DeschedulerPolicy; not if it cannot be read."""
    try:
        content = first_value(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return False
    return isinstance(content, dict) and content.get("kind") == KIND


class Scheduler(PlainStruct, frozen=True):
    """One side of a comparison."""

    #: A file; None: the configuration of the scenario or recording.
    config: str | None = None
    #: The version of kube-scheduler; None: that of the scenario or recording.
    version: str | None = None
    #: The DeschedulerPolicy of the scenario's rebalancing, a file; "": there is none; None: the scenario's own.
    policy: str | None = None
    #: Whether it is REAL.
    real: bool = False

    @classmethod
    def of(cls, text: str) -> Scheduler:
        """`FILE`, `1.36` or `FILE@1.36`, where FILE may be `recorded`; a policy; REAL or NO_REBALANCE."""
        if text == REAL:
            return cls(real=True)
        if text == NO_REBALANCE or is_policy(text):
            return cls(policy="" if text == NO_REBALANCE else text)
        found = None if Path(text).exists() else _WITH_VERSION.fullmatch(text)
        config, version = (text, None) if found is None else found.groups()
        return cls(None if config == RECORDED else config, version)


class RecordingJob(PlainStruct, frozen=True):
    recording: str
    side: int
    scheduler: Scheduler
    seed: int
    #: MODULE:CLASS of plugins.
    plugins: tuple[str, ...] = ()


def check_recorded(recording: str, scheduler: Scheduler, plugins: tuple[str, ...]) -> None:
    """Raises RecordingError, VersionError, PluginLoadError, ConfigError."""
    if scheduler.policy is not None:
        raise RecordingError(f"{recording}: a recording is not rebalanced; policies are compared on a --scenario")
    known = _registry(plugins).declarations
    header = header_of(files_of_run(recording)[0]).as_version(_version_of(scheduler), known)
    source = header.configuration if scheduler.config is None else scheduler.config
    load_config(source, plugins=known, features=header.features)


def _registry(plugins: tuple[str, ...]) -> Registry:
    return registry_with_installed(dict.fromkeys(map(load_plugin, plugins)), CallGuard())


def _version_of(scheduler: Scheduler) -> KubernetesVersion | None:
    return None if scheduler.version is None else emulated_version_of(scheduler.version)


def measured_recording(job: RecordingJob) -> Run:
    """Reschedule a recording; importable, for worker processes. Raises RecordingError, ConfigError."""
    side = job.scheduler
    found = rerun(job.recording, _registry(job.plugins), side.config, _version_of(side), seed=job.seed)
    if side.real:
        nodes = {pod.key: pod.node_then for pod in found.pods.values()}
        return Run({**wait_measures(found.waits_then), PLACED_DIFFERENTLY: 0.0}, nodes, version=str(found.version))
    return Run(_values(found), {pod.key: pod.node_now for pod in found.pods.values()}, version=str(found.version))


def _values(found: RerunResult) -> dict[str, float]:
    """Measures of the pods to schedule."""
    pods = len(found.pods)
    return {
        **wait_measures(found.waits_now),
        PLACED_DIFFERENTLY: 100 * len(found.placed_differently) / pods if pods else 0.0,
    }


def notes_of(recording: str) -> tuple[str, ...]:
    """Notes on a comparison with it; raises RecordingError."""
    return (ONE_RUN,) if header_of(recording).decides else (ONE_RUN, NO_ATTEMPTS)


#: The 97.5 % quantile of Student's t by degrees of freedom, from 1 on.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
#: For more degrees of freedom, where the quantile is below that of 30.
_T_OF_MANY = 2.042
_DIGITS = 6


class Estimate(Record, frozen=True, kw_only=True):
    """A mean over seeds; low and high are None for a single value, whose spread is unknown."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def certain(self) -> bool:
        """Whether it differs from 0 significantly."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def estimate(values: Sequence[float]) -> Estimate:
    """Of at least one value."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean=round(mean, _DIGITS))
    freedom = len(values) - 1
    # Rounded up beyond the table, so that intervals are too wide rather than too narrow.
    reach = (_T[freedom - 1] if freedom <= len(_T) else _T_OF_MANY) * stdev(values) / sqrt(len(values))
    return Estimate(mean=round(mean, _DIGITS), low=round(mean - reach, _DIGITS), high=round(mean + reach, _DIGITS))


class Job(PlainStruct, frozen=True):
    scenario: str
    #: Index in the comparison.
    side: int
    scheduler: Scheduler
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
    #: The version of kube-scheduler that decided.
    version: str = ""


def measured(job: Job) -> Run:
    """Simulate; importable, for worker processes."""
    plugins = [load_plugin(path) for path in job.plugins]
    side = job.scheduler
    result = simulate_scenario(
        job.scenario,
        config=side.config,
        emulated_version=side.version,
        seed=job.seed,
        plugins=plugins,
        policy=side.policy,
    )
    summary = result.summary
    nodes = {row.pod: row.node for row in result.decisions or ()}
    values = {**values_of(summary), **gang_measures(result.decisions or (), summary.simulated)}
    return Run(values, nodes, summary.notes, version=summary.emulated_version)


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
        **{f"busiest.{name}": 100 * share for name, share in summary.busiest.items()},
        "nodes.mean": summary.nodes_mean,
        "cost": summary.cost,
    }


COMPARISON_VERSION = 1
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
    #: The version of kube-scheduler of each; empty if no seed succeeded with all of them.
    emulated_versions: tuple[str, ...] = ()
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
    schedulers: Sequence[Scheduler],
    *,
    names: Sequence[str],
    seeds: Sequence[int],
    workers: Workers,
    plugins: Sequence[str] = (),
    progress: Callable[[], object] = lambda: None,
) -> ComparisonRecord:
    """Simulate the scenario with each scheduler and each seed; raises WorkersError."""
    sides = list(enumerate(schedulers))
    jobs = [Job(scenario, side, scheduler, seed, tuple(plugins)) for seed in seeds for side, scheduler in sides]
    return _compared(scenario, names, seeds, jobs, measured, workers, progress)


def compare_recorded(
    recording: str,
    schedulers: Sequence[Scheduler],
    *,
    names: Sequence[str],
    workers: Workers,
    seeds: int = 1,
    plugins: Sequence[str] = (),
    progress: Callable[[], object] = lambda: None,
) -> ComparisonRecord:
    """Reschedule the recording with each scheduler; raises WorkersError, RecordingError.

    `seeds`: how many; the first is the recorded random state.
    """
    notes, sides = notes_of(recording), list(enumerate(schedulers))
    jobs = [
        RecordingJob(recording, side, scheduler, seed, tuple(plugins))
        for seed in range(seeds)
        for side, scheduler in sides
    ]
    found = _compared(recording, names, range(seeds), jobs, measured_recording, workers, progress)
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
        emulated_versions=tuple(run.version for run in next(iter(by_seed.values()), ())),
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
