"""The time of an engine on an event loop: seconds since the epoch by a monotonic clock."""

from __future__ import annotations

from stowplan.kube.timing.times import Times

#: Difference in seconds from which the wall clock counts as set.
WALL_CLOCK_TOLERANCE = 0.5


class EngineClock:
    def __init__(self, times: Times) -> None:
        self._times = times
        self._started_at = times.wall_clock() - times.clock()
        #: The offset of the wall clock, as of the last `was_set`.
        self.ahead = 0.0

    def now(self) -> float:
        """The wall clock at the start plus the elapsed time."""
        return self._started_at + self._times.clock()

    def was_set(self) -> bool:
        """Whether the wall clock was set since the last time."""
        ahead = self._times.wall_clock() - self.now()
        if abs(ahead - self.ahead) <= WALL_CLOCK_TOLERANCE:
            return False
        self.ahead = ahead
        return True

    async def sleep_until(self, at: float) -> None:
        await self._times.sleep(max(0.0, at - self.now()))
