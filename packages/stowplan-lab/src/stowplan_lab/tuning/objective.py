"""The objective of a search, which is minimized: a blend of measures, or a user's function.

A blend is the weighted sum of how much each measure is worse than the baseline's, in percent of that. So measures of
different units can be combined, the baseline itself has 0, and lower is better. Measures for which higher is better,
such as utilization, count with the opposite sign.
"""

from __future__ import annotations

from importlib import import_module
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from stowplan.kube.config.errors import did_you_mean
from stowplan.scheduler.framework.status import RAISED
from stowplan_lab.tuning.errors import TuningError
from stowplan_lab.tuning.measures import MEASURES, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    UserFunction = Callable[[Mapping[str, float]], float]

#: Short names.
_SHORT = {"waits": "waits.mean", "nodes": "nodes.mean"}
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
        if measure not in MEASURES and not (dot and kind in ("utilization", "fragmentation")):
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
