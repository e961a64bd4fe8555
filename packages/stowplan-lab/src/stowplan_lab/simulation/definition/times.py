"""The times of an event of a scenario: an ascending sequence."""

from __future__ import annotations

from itertools import count, repeat
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from stowplan_lab.simulation.definition.schema import When


def times_of(when: When, random: Random, duration: float | None) -> Iterator[float]:
    """Seconds since the start of the simulation, up to its `duration`."""
    if when.at.listed:
        yield from when.at
        return
    gaps = _gaps(when, random)
    if gaps is None:
        yield when.at[0]
        return
    ends = [end for end in (when.until, duration) if end is not None]
    last = min(ends) if ends else None
    at = when.at[0]
    for number in count():
        if number == when.count:
            return
        # Poisson arrivals start with a gap, regular ones immediately.
        if number or when.poisson is not None:
            at = round(at + next(gaps), 6)
        if last is not None and at > last:
            return
        yield at


def _gaps(when: When, random: Random) -> Iterator[float] | None:
    """Seconds between two times; None if there is only one."""
    if when.every is not None:
        every = when.every
        return (every.draw(random) for _ in repeat(None))
    if when.rate is not None:
        return repeat(1.0 / when.rate)
    if when.poisson is not None:
        poisson = float(when.poisson)
        return (-log(1.0 - random.random()) / poisson for _ in repeat(None))
    return None


def expected_count(when: When, duration: float | None) -> int | None:
    """The approximate number of times; None if unknown."""
    if when.at.listed:
        return len(when.at)
    rate = when.rate or when.poisson or (1.0 / when.every.mean if when.every is not None else None)
    if rate is None:
        return 1
    ends = [end for end in (when.until, duration) if end is not None]
    by_time = round((min(ends) - when.at[0]) * rate) + 1 if ends else None
    found = [number for number in (when.count, by_time) if number is not None]
    return max(0, min(found)) if found else None
