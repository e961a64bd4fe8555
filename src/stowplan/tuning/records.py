"""Records of a search: plain data, the same for the same search."""

from __future__ import annotations

from msgspec import field

from stowplan.compare.statistics import Estimate  # noqa: TC001 - msgspec reads annotations
from stowplan.inspection.records import Record

TUNING_VERSION = 1
#: What the held-out part says of the best trial.
BETTER, NOT_BETTER, NOT_JUDGED = "better", "not better", "not judged"


class TrialRecord(Record, frozen=True, kw_only=True):
    """One configuration, on the part that was searched; means over the seeds."""

    number: int
    values: dict[str, int | str] = field(default_factory=dict)
    #: Less is better; None: it failed.
    score: float | None = None
    measures: dict[str, float] = field(default_factory=dict)
    #: Whether no other trial is as good in both measures of the picture, and better in one.
    compromise: bool = False
    error: str = ""


class JudgedRecord(Record, frozen=True, kw_only=True):
    """One configuration on the held-out part."""

    #: None: the baseline.
    trial: int | None = None
    #: Less the baseline's, seed by seed.
    score: Estimate
    measures: dict[str, Estimate] = field(default_factory=dict)
    differences: dict[str, Estimate] = field(default_factory=dict)


class TuningRecord(Record, frozen=True, kw_only=True):
    version: int = TUNING_VERSION
    scenario: str
    objective: str
    seed: int
    #: Seconds since the beginning: the search ends and what is judged begins here; and where that ends.
    split: float
    horizon: float
    seeds: tuple[int, ...]
    judged_seeds: tuple[int, ...]
    #: On the part that was searched.
    baseline: dict[str, float]
    baseline_score: float
    trials: tuple[TrialRecord, ...] = ()
    #: The two measures between which there are compromises, if any.
    axes: tuple[str, ...] = ()
    #: The number of the trial with the lowest score.
    best: int | None = None
    judged: tuple[JudgedRecord, ...] = ()
    verdict: str = NOT_JUDGED
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def trial(self, number: int) -> TrialRecord:
        return next(one for one in self.trials if one.number == number)
