"""Search for a configuration on one part of a scenario, and judge it on the rest.

    found = tune_scenario("week.yaml", objective="waits=1,cost=0.5", trials=40, folder=Path("tuned"))
    found.record.verdict                     # better, not better, not judged
    found.configuration                      # of the best trial, a KubeSchedulerConfiguration v1

The time of the scenario is split. Trials are simulations of the first part, over a few seeds; the objective compares
each with the baseline, seed by seed. What the search likes best has seen that part, and some of its lead is luck: so it
is simulated once more, over the whole time and with seeds that the search has not seen, and what counts is what comes
after the split. It is better if the interval of the difference there leaves out 0, and not otherwise. Some of the front
of good compromises is judged along with it; the choice was made before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan_lab.compare.comparison import estimate
from stowplan_lab.simulation.definition.scenario_fields import Scenario
from stowplan_lab.sweeps import Processes, ReusedWorkers, Workers, run_all
from stowplan_lab.tuning.objective import TuningError, axes_of, front
from stowplan_lab.tuning.policies import policy_of
from stowplan_lab.tuning.search_records import BETTER, NOT_BETTER, JudgedRecord, TrialRecord, TuningRecord
from stowplan_lab.tuning.search_report import Results
from stowplan_lab.tuning.search_runs import Job, Measures, Part, Simulated, last_arrival, simulated
from stowplan_lab.tuning.setup import Setup, set_up
from stowplan_lab.tuning.space import Values
from stowplan_lab.tuning.study import BATCH, Study

#: (phase, finished runs, total runs)
Progress = Callable[[str, int, int], object]

#: Number of other configurations on the Pareto front that are evaluated in addition to the best trial.
_JUDGED_COMPROMISES = 4
_DIGITS = 6
_BASELINE = "baseline"


@dataclass(kw_only=True)
class TuningResult:
    """The result of a search.

    Examples:
        >>> load_config(found.configuration)  # doctest: +SKIP
        <Configuration: profile default-scheduler>
    """

    record: TuningRecord
    #: The best trial's complete configuration for kube-scheduler; None: no trial is done. `record.verdict` says whether
    #: it is better than the baseline.
    configuration: dict[str, Any] | None = field(repr=False)
    #: The DeschedulerPolicy of the best trial, if policies were tuned; written to policy.yaml.
    policy: dict[str, Any] | None = field(default=None, repr=False)
    #: Its file: tuned.yaml if it is better, otherwise candidate.yaml.
    file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The amount of simulation.

    Examples:
        >>> Effort(trials=100, judged_seeds=8).share
        0.6
    """

    trials: int = 40
    #: The share of the time that is used for the search.
    share: float = 0.6
    #: Number of seeds per trial, and per evaluated configuration.
    seeds: int = 2
    judged_seeds: int = 5

    def __post_init__(self) -> None:
        if not (isfinite(self.share) and 0 < self.share < 1):
            raise TuningError(f"share: want a number between 0 and 1, got {self.share:g}")
        for name in ("trials", "seeds", "judged_seeds"):
            if getattr(self, name) < 1:
                raise TuningError(f"{name}: want 1 or more, got {getattr(self, name)}")


def tune_scenario(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | Scenario,
    *,
    folder: Path,
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    space: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    objective: str | None = None,
    effort: Effort | None = None,
    seed: int | None = None,
    plugins: Sequence[str] = (),
    storage: str | None = None,
    resume: bool = False,
    workers: Workers | None = None,
    progress: Progress = lambda phase, done, runs: None,
) -> TuningResult:
    """Search, evaluate and write to `folder`; raises TuningError, ScenarioError, ConfigError, WorkersError.

    `config` is the baseline, instead of the scenario's own; `plugins` are MODULE:CLASS, so that workers can import
    them. Ctrl-C ends it early: finished trials are kept, and `resume` continues.

    Needs the extra `tune`. In a script, call it below `if __name__ == "__main__":`, because trials run in processes.

    Examples:
        >>> found = tune_scenario("week.yaml", objective="cost", folder=Path("tuned"))  # doctest: +SKIP
        >>> found.record.verdict, found.file  # doctest: +SKIP
        ('better', PosixPath('tuned/tuned.yaml'))
    """
    effort = effort or Effort()
    setup = set_up(scenario, config=config, space=space, objective=objective, plugins=plugins, seed=seed)
    results = Results(folder)
    made_from = {**setup.made_from, "share": effort.share, "seeds": effort.seeds}
    opened = Study(storage or str(results.journal), seed=setup.seed, made_from=made_from, resume=resume)
    with opened as study, ReusedWorkers(workers or Processes()) as kept:
        record = _Search(setup, study, effort, kept, progress).record()
    values = None if record.best is None else record.trial(record.best).values
    configuration = None if values is None else setup.candidate(values)
    policy = None if values is None or setup.space.rebalance is None else policy_of(setup.part(values).scenario)
    file = results.write(record, configuration, policy)
    return TuningResult(record=record, configuration=configuration, policy=policy, file=file)


class _Search:
    def __init__(self, setup: Setup, study: Study, effort: Effort, workers: Workers, progress: Progress) -> None:
        self._setup, self._study, self._effort = setup, study, effort
        self._workers, self._progress = workers, progress
        self._notes = setup.notes
        first = setup.seed
        self._seeds = tuple(range(first, first + effort.seeds))
        self._judged_seeds = tuple(range(first + effort.seeds, first + effort.seeds + effort.judged_seeds))

    def record(self) -> TuningRecord:
        horizon = self._horizon()
        split = round(self._effort.share * horizon, 3)
        if not 0 < split < horizon:
            raise TuningError("no time passes in the scenario, so there is nothing to split: give it a duration")
        simulated = self._baseline(split)
        self._notes, baseline = (*simulated.notes, *self._setup.notes), simulated.measures
        interrupted = False
        try:
            self._search(split, baseline)
        except KeyboardInterrupt:
            interrupted = True
        found = self._found(split, horizon, baseline, interrupted)
        if interrupted or found.best is None:
            return found
        try:
            return self._judged(found)
        except KeyboardInterrupt:
            return msgspec.structs.replace(found, interrupted=True)

    def _simulated(
        self, phase: str, wanted: Mapping[str, tuple[Part, dict[str, Any]]], seeds: Sequence[int], done: int, of: int
    ) -> Iterator[Simulated]:
        """`done` runs of this phase were finished before, of `of`."""
        runs = count(done + 1)
        return simulated(self._workers, wanted, seeds, lambda: self._progress(phase, next(runs), of))

    # -- the search ---------------------------------------------------------------------------------------------------

    def _horizon(self) -> float:
        """The end time: the scenario's, or the last arrival."""
        own = self._setup.as_it_is
        if own.scenario.duration is not None:
            return float(own.scenario.duration)
        job = Job(part=own, config=self._setup.base, seed=self._setup.seed)
        (outcome,) = run_all(self._workers, last_arrival, [job])
        if outcome.result is None:
            raise TuningError(f"the baseline cannot be simulated: {outcome.error}")
        return outcome.result

    def _baseline(self, split: float) -> Simulated:
        wanted = {_BASELINE: (replace(self._setup.as_it_is, until=split), self._setup.base)}
        (found,) = self._simulated(_BASELINE, wanted, self._seeds, 0, len(self._seeds))
        if found.error:
            raise TuningError(f"the baseline cannot be simulated: {found.error}")
        return found

    def _search(self, split: float, baseline: Measures) -> None:
        setup, study, last = self._setup, self._study, self._effort.trials
        #: Configuration and rebalancing -> the result, because the search may try one twice.
        known = {_key(setup, one.values): one.measures for one in study.done() if one.score is not None}
        for first in range(0, last, BATCH):
            trials: dict[str, list[int]] = {}
            wanted = {}
            for number, values in study.batch(setup.space, first, min(first + BATCH, last)).items():
                key = _key(setup, values)
                trials.setdefault(key, []).append(number)
                if key not in known:
                    wanted[key] = replace(setup.part(values), until=split), setup.candidate(values)
            for key in trials.keys() & known.keys():
                self._report(trials[key], known[key], baseline)
            done, of = first * len(self._seeds), last * len(self._seeds)
            for found in self._simulated("trials", wanted, self._seeds, done, of):
                if found.error:
                    for number in trials[found.key]:
                        study.fail(number, found.error)
                    continue
                known[found.key] = found.measures
                self._report(trials[found.key], found.measures, baseline)

    def _report(self, trials: Sequence[int], measures: Measures, baseline: Measures) -> None:
        score = fmean(self._setup.objective.scores(measures, baseline))
        for number in trials:
            self._study.tell(number, round(score, _DIGITS), measures)

    def _found(self, split: float, horizon: float, baseline: Measures, interrupted: bool) -> TuningRecord:
        setup = self._setup
        done = [one for one in self._study.done() if one.number < self._effort.trials]
        means = {one.number: _means(one.measures) for one in done if one.score is not None}
        axes = axes_of(setup.objective.terms, [_means(baseline), *means.values()])
        compromises = frozenset(front(axes, means))
        return TuningRecord(
            scenario=setup.name,
            objective=setup.objective.text,
            seed=setup.seed,
            split=split,
            horizon=horizon,
            seeds=self._seeds,
            judged_seeds=self._judged_seeds,
            baseline=_means(baseline),
            baseline_score=round(fmean(setup.objective.scores(baseline, baseline)), _DIGITS),
            trials=tuple(
                TrialRecord(
                    number=one.number,
                    values=one.values,
                    score=one.score,
                    measures=means.get(one.number, {}),
                    compromise=one.number in compromises,
                    error=one.error,
                )
                for one in done
            ),
            axes=axes,
            best=min((one.score, one.number) for one in done if one.score is not None)[1] if means else None,
            interrupted=interrupted,
            notes=self._notes,
        )

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def _judged(self, found: TuningRecord) -> TuningRecord:
        setup = self._setup
        wanted = {_BASELINE: (_held_out(setup.as_it_is, found), setup.base)}
        numbers = _to_judge(found)
        for number in numbers:
            values = found.trial(number).values
            wanted[str(number)] = _held_out(setup.part(values), found), setup.candidate(values)
        of = len(wanted) * len(self._judged_seeds)
        measures = {}
        for one in self._simulated("held-out part", wanted, self._judged_seeds, 0, of):
            if one.error:
                who = "the baseline" if one.key == _BASELINE else f"trial {one.key}"
                raise TuningError(f"{who} cannot be simulated on the held-out part: {one.error}")
            measures[one.key] = one.measures
        baseline = measures[_BASELINE]
        judged = [self._judgement(None, baseline, baseline)]
        judged += [self._judgement(number, measures[str(number)], baseline) for number in numbers]
        best = next(one for one in judged if one.trial == found.best)
        verdict = BETTER if best.score.certain and best.score.mean < 0 else NOT_BETTER
        return msgspec.structs.replace(found, judged=tuple(judged), verdict=verdict)

    def _judgement(self, trial: int | None, found: Measures, baseline: Measures) -> JudgedRecord:
        objective = self._setup.objective
        scores = zip(objective.scores(found, baseline), objective.scores(baseline, baseline), strict=True)
        names = [name for name in found[0] if any(one.get(name) for one in (*found, *baseline))]
        return JudgedRecord(
            trial=trial,
            score=estimate([one - first for one, first in scores]),
            measures={name: estimate([one.get(name, 0.0) for one in found]) for name in names},
            differences={
                name: estimate(
                    [one.get(name, 0.0) - first.get(name, 0.0) for one, first in zip(found, baseline, strict=True)]
                )
                for name in names
            },
        )


def _held_out(part: Part, found: TuningRecord) -> Part:
    return replace(part, since=found.split, until=found.horizon)


def _to_judge(found: TuningRecord) -> list[int]:
    """The best trial, and those on the Pareto front with the lowest scores."""
    assert found.best is not None
    others = sorted(
        (one.score or 0.0, one.number) for one in found.trials if one.compromise and one.number != found.best
    )
    return [found.best, *(number for _, number in others[:_JUDGED_COMPROMISES])]


def _means(found: Measures) -> dict[str, float]:
    names = dict.fromkeys(name for one in found for name in one)
    return {name: round(fmean(one.get(name, 0.0) for one in found), _DIGITS) for name in names}


def _key(setup: Setup, values: Values) -> str:
    rebalancing = {name: value for name, value in values.items() if name.startswith("rebalance/")}
    return msgspec.json.encode((setup.candidate(values), rebalancing), order="deterministic").decode()
