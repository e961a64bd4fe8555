"""Clock and random source interfaces.

Code that waits, measures or draws random numbers gets a `Times`: the process's own, or a manual one (`manual_time`).
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

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
