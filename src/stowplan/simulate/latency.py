"""Latency models of simulated time.

Seconds are a number, or a callable that is told what it is about and may draw on chance that its maker has seeded; or
a table of those by kind. What a table does not name takes no time.

    Latency(requests={Bind: 0.004, Patch: Uniform(0.002, 0.01, random=chance.random)}, watches=0.001)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Seconds = float | Callable[[Any], float]
#: Seconds for everything alike, or by the type of what they are about.
Table = Seconds | Mapping[type[Any], Seconds]


class Uniform:
    """Any of the seconds between two numbers; `random` is uniform in [0, 1)."""

    __slots__ = ("_high", "_low", "_random")

    def __init__(self, low: float, high: float, *, random: Callable[[], float]) -> None:
        self._low, self._high = low, high
        self._random = random

    def __call__(self, about: object) -> float:
        return self._low + self._random() * (self._high - self._low)


class Latency:
    """Seconds by what they are about; never negative."""

    def __init__(
        self, *, requests: Table = 0.0, answers: Table = 0.0, watches: Table = 0.0, deletions: Seconds = 0.0
    ) -> None:
        """`requests` and `answers` are the ways there and back, by the type of the request; `watches` by kind.

        `deletions` is told the pod: the grace that one on a node has when it is deleted.
        """
        self._requests = requests
        self._answers = answers
        self._watches = watches
        self._deletions = deletions
        #: Whether requests and their answers take no time.
        self.instant = _is_nothing(requests) and _is_nothing(answers)
        #: Whether watchers are told at once.
        self.watches_at_once = _is_nothing(watches)

    def request(self, action: Any) -> float:
        """Until it is carried out, from when the one about the same object before it was answered."""
        return _seconds(self._requests, type(action), action)

    def answer(self, action: Any) -> float:
        """From then until its answer is back."""
        return _seconds(self._answers, type(action), action)

    def watch(self, kind: type[Any]) -> float:
        """From a write until watchers of the kind are told."""
        return _seconds(self._watches, kind, kind)

    def deletion(self, obj: Any) -> float:
        return _seconds(self._deletions, type(obj), obj)


def _is_nothing(table: Table) -> bool:
    return not table and not callable(table)


def _seconds(table: Table, kind: type[Any], about: Any) -> float:
    if isinstance(table, Mapping):
        table = table.get(kind, 0.0)
    return max(0.0, table(about)) if callable(table) else table


#: Everything happens at once.
NO_LATENCY = Latency()
