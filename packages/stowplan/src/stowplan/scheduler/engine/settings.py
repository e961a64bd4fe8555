"""Settings of an engine, and its sources of randomness and time."""

from __future__ import annotations

from typing import Protocol

from stowplan.kube.structs import PlainStruct


class RandomSource(Protocol):
    """The source of randomness: a seeded `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...

    def random(self) -> float: ...


class Meter(Protocol):
    """For metrics: a stopwatch, and random numbers for sampling."""

    def clock(self) -> float: ...

    def random(self) -> float: ...


class EngineSettings(PlainStruct, frozen=True, kw_only=True):
    """Settings that are not in KubeSchedulerConfiguration."""

    max_in_unschedulable: float = 300.0
    #: Whether stories of pods are kept and Events recorded.
    stories: bool = True
    events: bool = True
    #: Whether equal pods share results.
    reuse: bool = True
    #: Whether other pods are tried while one waits for an extender.
    overlaps: bool = False


class Stopwatch:
    """Time for metrics, comparable with the engine's, but advancing within a step."""

    def __init__(self, meter: Meter, now: float) -> None:
        self._clock = meter.clock
        self._base = now - meter.clock()

    def now(self) -> float:
        return self._base + self._clock()
