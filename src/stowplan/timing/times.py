"""Where a client's time and chance come from, so that tests need not wait and can repeat themselves."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Times:
    #: Seconds that only grow.
    clock: Callable[[], float]
    #: Seconds since the epoch.
    wall_clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    #: Uniform in [0, 1).
    random: Callable[[], float]


REAL_TIMES = Times(clock=time.monotonic, wall_clock=time.time, sleep=asyncio.sleep, random=random.random)


async def within(seconds: float, work: Coroutine[Any, Any, T], *, sleep: Callable[[float], Awaitable[object]]) -> T:
    """What the work returns or raises; TimeoutError if it takes longer, and then it is given up."""
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
