"""Latency models of simulated time.

A duration in seconds is a number, or a callable that gets what it is for and may use a random source seeded by its
creator; or a table of those by type. Types that are not in a table take no time.

    Latency(requests={Bind: 0.004, Patch: Uniform(0.002, 0.01, random=chance.random)}, watches=0.001)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Seconds = float | Callable[[Any], float]
#: The same seconds for everything, or by type.
Table = Seconds | Mapping[type[Any], Seconds]


class Uniform:
    """Uniformly distributed seconds; `random` is uniform in [0, 1).

    Examples:
        >>> import random
        >>> latency = Latency(requests=Uniform(0.005, 0.02, random=random.Random(1).random))
    """

    __slots__ = ("_high", "_low", "_random")

    def __init__(self, low: float, high: float, *, random: Callable[[], float]) -> None:
        self._low, self._high = low, high
        self._random = random

    def __call__(self, about: object) -> float:
        return self._low + self._random() * (self._high - self._low)


class Latency:
    """Durations in seconds; never negative.

    Examples:
        >>> with live_cluster(a_node("n1").obj(), latency=Latency(requests=0.01, deletions=30)) as live:
        ...     live.create(a_pod("web-0").obj())
        ...     before = live.node_of("web-0")
        ...     live.advance(1)
        ...     before, live.node_of("web-0")
        ('', 'n1')
    """

    def __init__(
        self, *, requests: Table = 0.0, answers: Table = 0.0, watches: Table = 0.0, deletions: Seconds = 0.0
    ) -> None:
        """`requests` and `answers` are the two directions, by the type of the request; `watches` is by kind.

        `deletions` gets the pod: the grace period of a placed pod that is deleted. Infinity: its own grace period, and
        the caller ends it (`VirtualTime.end`).
        """
        self._requests = requests
        self._answers = answers
        self._watches = watches
        self._deletions = deletions
        #: Whether requests and their responses take no time.
        self.instant = _is_nothing(requests) and _is_nothing(answers)
        #: Whether changes are delivered at once.
        self.watches_at_once = _is_nothing(watches)

    def request(self, action: Any) -> float:
        """From the response to the previous request for the same object until this one is carried out."""
        return _seconds(self._requests, type(action), action)

    def answer(self, action: Any) -> float:
        """From then until its response."""
        return _seconds(self._answers, type(action), action)

    def watch(self, kind: type[Any]) -> float:
        """From a write until watchers of the kind are notified."""
        return _seconds(self._watches, kind, kind)

    def deletion(self, obj: Any) -> float:
        return _seconds(self._deletions, type(obj), obj)


def _is_nothing(table: Table) -> bool:
    return not table and not callable(table)


def _seconds(table: Table, kind: type[Any], about: Any) -> float:
    if isinstance(table, Mapping):
        table = table.get(kind, 0.0)
    return max(0.0, table(about)) if callable(table) else table


#: Everything takes no time.
NO_LATENCY = Latency()
