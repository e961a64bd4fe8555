"""Time that passes only when a test says so: sleepers sleep until then."""

import asyncio
import heapq
from itertools import count

from stowplan.client.times import Times

#: Seconds since the epoch.
START = 1_800_000_000.0


class ManualTime:
    def __init__(self, chance=0.5):
        self.now = 0.0
        self.chance = chance
        self._sleepers = []
        self._order = count()

    def clock(self):
        return self.now

    def wall_clock(self):
        return START + self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + max(seconds, 0.0), next(self._order), woken))
        await woken

    def times(self):
        return Times(clock=self.clock, wall_clock=self.wall_clock, sleep=self.sleep, random=lambda: self.chance)

    @property
    def naps(self):
        """How much longer each sleeper sleeps."""
        return sorted(until - self.now for until, _, woken in self._sleepers if not woken.done())

    async def advance(self, seconds):
        """Wake everybody at their time, and let them do what needs no time."""
        end = self.now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            until, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self.now = max(self.now, until)
                woken.set_result(None)
                await settle()
        self.now = end


async def settle(rounds=20):
    """Let everything happen that needs no time."""
    for _ in range(rounds):
        await asyncio.sleep(0)
