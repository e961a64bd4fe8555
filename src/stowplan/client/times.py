"""Where a client's time and chance come from, so that tests need not wait and can repeat themselves."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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
