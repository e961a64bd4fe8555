"""Settings of an engine, and its sources of chance and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Chance(Protocol):
    """The source of randomness: a seeded `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...

    def random(self) -> float: ...


class Meter(Protocol):
    """What metrics are made with: a stopwatch, and chance for those that are sampled."""

    def clock(self) -> float: ...

    def random(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What is not in KubeSchedulerConfiguration."""

    max_in_unschedulable: float = 300.0
    #: Whether what happened to pods is remembered, and told to users.
    stories: bool = True
    events: bool = True
    #: Whether rejections that no plugin stands for are logged as errors, as the reference does.
    rejections_are_errors: bool = True
    #: Whether equal pods share results.
    reuse: bool = True
    #: Whether other pods are decided while one waits for an extender.
    overlaps: bool = False


class Stopwatch:
    """Time for metrics that is comparable with the engine's: it goes on within a step."""

    def __init__(self, meter: Meter, now: float) -> None:
        self._clock = meter.clock
        self._base = now - meter.clock()

    def now(self) -> float:
        return self._base + self._clock()
