"""Records of a search: plain data, the same for the same search."""

from __future__ import annotations

from msgspec import field

from stowplan.scheduler.inspection.records import Record
from stowplan_lab.compare.comparison import Estimate

TUNING_VERSION = 1
#: The verdict of the held-out part on the best trial.
BETTER, NOT_BETTER, NOT_JUDGED = "better", "not better", "not judged"


class TrialRecord(Record, frozen=True, kw_only=True):
    """One configuration on the search part; means over the seeds."""

    number: int
    values: dict[str, int | str] = field(default_factory=dict)
    #: Lower is better; None: it failed.
    score: float | None = None
    measures: dict[str, float] = field(default_factory=dict)
    #: Whether it is on the Pareto front of the two measures of the chart.
    compromise: bool = False
    error: str = ""


class JudgedRecord(Record, frozen=True, kw_only=True):
    """One configuration on the held-out part."""

    #: None: the baseline.
    trial: int | None = None
    #: Minus the baseline's, paired by seed.
    score: Estimate
    measures: dict[str, Estimate] = field(default_factory=dict)
    differences: dict[str, Estimate] = field(default_factory=dict)


class TuningRecord(Record, frozen=True, kw_only=True):
    version: int = TUNING_VERSION
    scenario: str
    objective: str
    seed: int
    #: Seconds since the start: end of the search part and start of the held-out part; and the latter's end.
    split: float
    horizon: float
    seeds: tuple[int, ...]
    judged_seeds: tuple[int, ...]
    #: On the search part.
    baseline: dict[str, float]
    baseline_score: float
    trials: tuple[TrialRecord, ...] = ()
    #: The two measures of the Pareto front, if any.
    axes: tuple[str, ...] = ()
    #: The number of the trial with the lowest score.
    best: int | None = None
    judged: tuple[JudgedRecord, ...] = ()
    verdict: str = NOT_JUDGED
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def trial(self, number: int) -> TrialRecord:
        return next(one for one in self.trials if one.number == number)
