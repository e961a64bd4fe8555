"""Clock and random source interfaces.

Code that waits, measures or draws random numbers gets a `Times`: the process's own, or a manual one (`ManualTime`).
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Times(Protocol):
    def clock(self) -> float:
        """Monotonic seconds."""

    def wall_clock(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float, /) -> Awaitable[object]: ...

    def random(self) -> float:
        """Uniform in [0, 1)."""


class RealTimes:
    """The process's own."""

    def __init__(self) -> None:
        # Direct references to the functions: the clock is read dozens of times per pod.
        self.clock = time.monotonic
        self.wall_clock = time.time
        self.sleep = asyncio.sleep
        self.random = random.random


REAL_TIMES = RealTimes()


async def within(seconds: float, work: Coroutine[Any, Any, T], *, sleep: Callable[[float], Awaitable[object]]) -> T:
    """The result or exception of the work; cancelled and TimeoutError if it takes longer."""
    task, alarm = asyncio.ensure_future(work), asyncio.ensure_future(sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


# A manual clock for tests.
#
# Sleepers wake when the time is advanced to their deadline. `advance` moves from deadline to deadline and lets all
# woken tasks run before it continues, so an hour's events happen in order, in a millisecond.

#: The default start time, in seconds since the epoch.
START = 1_800_000_000.0


async def settle(turns: int = 50) -> None:
    """Process everything that takes no time, within a number of iterations of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


class ManualTime:
    """A `Times` that only changes explicitly."""

    def __init__(self, chance: float = 0.5, *, start: float = START, random: Callable[[], float] | None = None) -> None:
        #: Seconds since the start.
        self.now = 0.0
        #: The value of every random number, unless `random` is set.
        self.chance = chance
        self._random = random
        self._start = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def clock(self) -> float:
        return self.now

    def wall_clock(self) -> float:
        return self._start + self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        await woken

    def random(self) -> float:
        return self.chance if self._random is None else self._random()

    @property
    def naps(self) -> list[float]:
        """The remaining time of each sleeper."""
        return sorted(moment - self.now for moment, _, woken in self._sleepers if not woken.done())

    def next_alarm(self, until: float) -> bool:
        """Advance to the next deadline of a sleeper, `until` at most, and wake it; return whether there was one."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers or self._sleepers[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now = max(self.now, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self.now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
        return True

    async def advance(self, seconds: float, *, settle: Callable[[], Awaitable[object]] = settle) -> None:
        """Advance the time, running each sleeper at its deadline.

        Everything that takes no time completes before the time advances further.
        """
        until = self.now + seconds
        await settle()
        while self.next_alarm(until):
            await settle()
