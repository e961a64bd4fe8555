"""Means of small samples with 95 % confidence intervals (Student's t)."""

from __future__ import annotations

from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from stowplan.scheduler.inspection.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

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
