"""Ten minutes of random changes, faults among them; then everything must be as if the scheduler had just been started.

Seeds are fixed, so a failure is the same every time; STOWPLAN_EXAMPLES=20 tries twenty times as many.
"""

from contextlib import asynccontextmanager
from random import Random

import pytest

from examples import SCALE
from faulty_api import FaultyApi, yields
from live_scheduler import START, live
from soak_checks import (
    Watcher,
    equals_a_rebuild,
    every_pod_is_bound_or_truthfully_pending,
    nothing_is_under_way,
)
from soaking import CONFIG, Changes, first_objects, hesitates
from stowplan.scheduler.live import LiveSettings

SECONDS = 600
#: Rounds of the event loop after which whatever needs no time has happened, unless very much happens.
ROUNDS = 30
#: Nobody is woken for having slept long: a wake-up that is missed stays missed.
NEVER = LiveSettings(max_in_unschedulable=1e9)


class Soak:
    def __init__(self, cluster, faulty, random):
        self.cluster, self.faulty, self.random = cluster, faulty, random
        self.changes = Changes(cluster.api, random, cluster.scheduler.waiting_pods)
        self.watcher = Watcher(cluster.api, cluster.scheduler, faulty)

    async def second(self, busy):
        """Some changes at any moments of a second, whatever is under way."""
        time, random = self.cluster.time, self.random
        until = time.now + 1.0
        moments = sorted(random.random() for _ in range(random.randrange(busy)))
        for moment in (*(until - 1.0 + m for m in moments), until):
            await self._pass_until(moment)
            if moment < until:
                for _ in range(random.choice((1, 1, 1, 2, 5))):
                    self.changes.step()
                await yields(random.choice((0, 1, 2, 3, 5, 8)))
        self.changes.kubelets()
        self.watcher.measure()

    async def _pass_until(self, moment):
        time = self.cluster.time
        while time.next_alarm(moment):
            self.cluster.api.clock.now = START + time.now
            await yields(ROUNDS)
        self.cluster.api.clock.now = START + time.now

    async def come_to_rest(self):
        """Faults are over; let victims end, waits end, and backoffs pass."""
        self.faulty.rate = self.faulty.lag = 0.0
        for _ in range(60):
            for waiting in self.cluster.scheduler.waiting_pods:
                waiting.allow("Hesitates")
            self.changes.kubelets(at_once=True)
            await self._pass_until(self.cluster.time.now + 1.0)
        await self.cluster.advance(30)


@asynccontextmanager
async def soaking(seed, settings):
    random = Random(seed)
    made = []

    def wrap(api):
        made.append(FaultyApi(api, random, lambda seconds: made[1](seconds)))
        return made[0]

    async def sleep(seconds):
        await made[1](seconds)

    objects = first_objects()
    async with live(*objects, config=CONFIG, plugins=[hesitates(sleep)], random=random, settings=settings, wrap=wrap) as cluster:
        made.append(cluster.time.sleep)
        yield Soak(cluster, made[0], random)


@pytest.mark.parametrize("seed", range(4 * SCALE))
async def test_everything_is_bound_or_truthfully_pending(seed, caplog):
    async with soaking(seed, NEVER) as soak:
        cluster = soak.cluster
        for second in range(SECONDS):
            # Calm, faults, and news that come late, each for a while.
            soak.faulty.rate = (0.0, 0.15, 0.0, 0.05)[second // 30 % 4]
            soak.faulty.lag = (0.0, 0.0, 2.0, 1.0)[second // 40 % 4]
            await soak.second(busy=5)
        await soak.come_to_rest()
        print(dict(soak.changes.done), dict(soak.changes.refused), dict(soak.faulty.fates), dict(soak.watcher.largest))
        assert soak.watcher.wrong == []
        assert not [record for record in caplog.records if "stacktrace" in record.getMessage()]
        nothing_is_under_way(cluster.scheduler)
        equals_a_rebuild(cluster.api, cluster.scheduler.state)
        pending = every_pod_is_bound_or_truthfully_pending(cluster.api, cluster.scheduler)
        print(pending)
