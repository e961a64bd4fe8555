"""Durations, rates and distributions, as scenarios write them.

    5m, 1h30m, 7d, 90              a duration; a number is seconds
    100/h, 2/s, 5/10m              a rate
    {exponential: 10m}             a distribution of durations, by its mean
    {uniform: [1m, 5m]}
    {lognormal: {median: 3m, p95: 40m}}
    {pareto: {least: 1m, shape: 1.5}}
    {choice: [30s, 5m, 1h], weights: [5, 3, 1]}

Each value is drawn with one uniform number, by the inverse of the distribution function, and rounded to microseconds,
so that a simulation is the same on machines whose C libraries differ in the last bit of a logarithm.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from math import exp, inf, isfinite, log
from random import Random
from statistics import NormalDist
from typing import Any, Self

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.config.config_errors import did_you_mean
from stowplan_cluster.reconcile.usage import Curve, read_curve

_LONG_UNITS = {"d": 86_400.0, "w": 604_800.0}
_LONG = re.compile(r"(\d+(?:\.\d+)?)([dw])")
_WANT_SPAN = "want a time span such as 90s, 5m, 1h30m or 7d, or a number of seconds"
_WANT_RATE = "want a rate such as 2/s, 100/h or 5/10m"
_WANT_DISTRIBUTION = "want a time span, or one of exponential, uniform, lognormal, pareto, choice"
_NORMAL = NormalDist()
_P95 = _NORMAL.inv_cdf(0.95)
#: The maximum of `Random.random`.
_LARGEST_DRAW = 1.0 - 2.0**-53


def seconds(value: object) -> float:
    """A duration in seconds; ValueError if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{_WANT_SPAN}, got {_shown(value)}")
    if isinstance(value, str):
        return _parsed(value)
    if not isfinite(value) or value < 0:
        raise ValueError(f"{_WANT_SPAN}, got {value}")
    return float(value)


def _parsed(text: str) -> float:
    total, rest = 0.0, text.strip()
    while found := _LONG.match(rest):
        total += float(found[1]) * _LONG_UNITS[found[2]]
        rest = rest[found.end() :]
    try:
        total += parse_duration(rest).seconds if rest or not total else 0.0
    except ValueError:
        raise ValueError(f"{_WANT_SPAN}, got {text!r}") from None
    if total < 0:
        raise ValueError(f"{_WANT_SPAN}, got {text!r}")
    return total


def _shown(value: object) -> str:
    return {dict: "an object", list: "a list", bool: str(value).lower(), type(None): "null"}.get(
        type(value), str(value)
    )


class Span(float):
    """A duration in seconds."""

    @classmethod
    def read(cls, value: object) -> Self:
        return cls(seconds(value))


class Times(tuple[float, ...]):
    """One time, or a list of them, in seconds since the start."""

    #: Whether the scenario has a list.
    listed: bool

    @classmethod
    def read(cls, value: object) -> Self:
        found = cls(sorted(map(seconds, value if isinstance(value, list) else [value])))
        found.listed = isinstance(value, list)
        return found

    def __reduce__(self) -> Any:
        return Times.read, (list(self) if self.listed else self[0],)


class Rate(float):
    """A number per second."""

    @classmethod
    def read(cls, value: object) -> Self:
        number, slash, per = str(value).partition("/")
        try:
            if not slash:
                raise ValueError
            every = seconds(per if per[:1].isdigit() else f"1{per}")
            found = float(number) / every
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{_WANT_RATE}, got {value!r}") from None
        if not isfinite(found) or found <= 0:
            raise ValueError(f"{_WANT_RATE}, got {value!r}")
        return cls(found)


class Usage:
    """The usage of a resource over time; see `reconcile/usage.py`."""

    __slots__ = ("curve", "source")

    def __init__(self, source: Any, curve: Curve) -> None:
        #: As in the scenario.
        self.source = source
        self.curve = curve

    @classmethod
    def read(cls, value: object) -> Usage:
        return cls(value, read_curve(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self.source == other.source

    def __hash__(self) -> int:
        return hash(repr(self.source))

    def __reduce__(self) -> Any:
        return Usage.read, (self.source,)


class Distribution:
    """Durations, each drawn with one uniform number of [0, 1)."""

    __slots__ = ("_inverse", "always", "mean", "source")

    def __init__(
        self, source: Any, inverse: Callable[[float], float], mean: float, *, always: float | None = None
    ) -> None:
        #: As in the scenario.
        self.source = source
        self._inverse = inverse
        #: Infinity for a distribution without a mean.
        self.mean = mean
        #: The value of a constant distribution.
        self.always = always

    def draw(self, random: Random) -> float:
        return round(self._inverse(random.random()), 6)

    @classmethod
    def read(cls, value: object) -> Distribution:
        if not isinstance(value, dict):
            span = seconds(value)
            return cls(value, lambda u: span, span, always=round(span, 6))
        names = [name for name in value if name != "weights"]
        if len(names) != 1 or not isinstance(names[0], str):
            raise ValueError(f"{_WANT_DISTRIBUTION}; got {', '.join(map(str, value)) or 'nothing'}")
        if names[0] not in _KINDS:
            hint = next(did_you_mean(names[0], _KINDS), _WANT_DISTRIBUTION)
            raise ValueError(f"there is no distribution {names[0]!r}; {hint}")
        try:
            found = _KINDS[names[0]](value)
            is_countable = isfinite(found._inverse(_LARGEST_DRAW))
        except OverflowError:
            is_countable = False
        if not is_countable:
            raise ValueError(f"{names[0]}: its longest time spans are too long to count")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and self.source == other.source

    def __hash__(self) -> int:
        return hash(repr(self.source))

    def __reduce__(self) -> Any:
        return Distribution.read, (self.source,)


def _exponential(value: Mapping[str, Any]) -> Distribution:
    mean = _positive(value["exponential"], "exponential")
    return Distribution(value, lambda u: -mean * log(1.0 - u), mean)


def _uniform(value: Mapping[str, Any]) -> Distribution:
    given = value["uniform"]
    if not isinstance(given, list) or len(given) != 2:
        raise ValueError(f"uniform: want two time spans, as [1m, 5m], got {_shown(given)}")
    low, high = map(seconds, given)
    if high < low:
        raise ValueError(f"uniform: the second time span is shorter than the first: {given}")
    return Distribution(value, lambda u: low + u * (high - low), (low + high) / 2)


def _lognormal(value: Mapping[str, Any]) -> Distribution:
    given = _fields(value["lognormal"], "lognormal", ("median", "p95"))
    median, p95 = _positive(given["median"], "lognormal.median"), _positive(given["p95"], "lognormal.p95")
    if p95 <= median:
        raise ValueError("lognormal: p95 must be longer than the median")
    mu, sigma = log(median), (log(p95) - log(median)) / _P95

    def inverse(u: float) -> float:
        return exp(mu + sigma * _NORMAL.inv_cdf(u)) if u else 0.0

    return Distribution(value, inverse, exp(mu + sigma * sigma / 2))


def _pareto(value: Mapping[str, Any]) -> Distribution:
    given = _fields(value["pareto"], "pareto", ("least", "shape"))
    least, shape = _positive(given["least"], "pareto.least"), given["shape"]
    if isinstance(shape, bool) or not isinstance(shape, (int, float)) or not 0 < shape < inf:
        raise ValueError(f"pareto.shape: want a number above 0, got {_shown(shape)}")
    mean = least * shape / (shape - 1) if shape > 1 else inf
    return Distribution(value, lambda u: least * float((1.0 - u) ** (-1.0 / shape)), mean)


def _choice(value: Mapping[str, Any]) -> Distribution:
    given = value["choice"]
    if not isinstance(given, list) or not given:
        raise ValueError(f"choice: want a list of time spans, got {_shown(given)}")
    spans = [seconds(one) for one in given]
    weights = value.get("weights", [1] * len(spans))
    if not isinstance(weights, list) or len(weights) != len(spans) or not all(_is_weight(one) for one in weights):
        raise ValueError(f"weights: want as many numbers of 0 or more as there are choices ({len(spans)})")
    total = float(sum(weights))
    if not total:
        raise ValueError("weights: all of them are 0")
    bounds = [bound / total for bound in accumulate(weights)]
    mean = sum(span * weight for span, weight in zip(spans, weights, strict=True)) / total
    return Distribution(value, lambda u: spans[min(bisect_right(bounds, u), len(spans) - 1)], mean)


def _is_weight(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < inf


def _positive(value: object, name: str) -> float:
    try:
        found = seconds(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not found:
        raise ValueError(f"{name}: must be longer than 0")
    return found


def _fields(value: object, name: str, wanted: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(wanted):
        raise ValueError(f"{name}: want {' and '.join(wanted)}, got {_shown(value)}")
    return value


_KINDS: dict[str, Callable[[Mapping[str, Any]], Distribution]] = {
    "exponential": _exponential,
    "uniform": _uniform,
    "lognormal": _lognormal,
    "pareto": _pareto,
    "choice": _choice,
}
