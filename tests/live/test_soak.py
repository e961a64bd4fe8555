"""Ten minutes of random changes, faults among them; then everything must be as if the scheduler had just been started.

What the scheduler hears meanwhile is recorded, and played again at the end: the effects must be the same.

Seeds are fixed, so a failure is the same every time; STOWPLAN_EXAMPLES=20 tries twenty times as many.
"""

from contextlib import asynccontextmanager
from random import Random

import pytest

from stowplan.live.scheduler import SchedulerSettings
from support.api.faulty_api import FaultyApi, yield_control
from support.examples import SCALE, times
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.soak.changes import CONFIG, Changes, delaying_plugin, initial_objects
from support.soak.checks import (
    Watcher,
    equals_a_rebuild,
    every_outcome_is_reported,
    every_pod_is_bound_or_rightly_pending,
    nothing_is_under_way,
)

SECONDS = 600
#: Rounds of the event loop after which whatever needs no time has happened, unless very much happens.
ROUNDS = 30
#: Nobody is woken for having slept long: a wake-up that is missed stays missed.
NEVER = SchedulerSettings(max_in_unschedulable=1e9)
#: The bounds of what is remembered, small enough to be reached.
STORIES = 200


class Soak:
    def __init__(self, cluster, faulty, random):
        self.cluster, self.faulty, self.random = cluster, faulty, random
        self.changes = Changes(cluster.api, random, cluster.scheduler.waiting_pods)
        self.watcher = Watcher(cluster.api, cluster.scheduler, faulty)
        cluster.scheduler.stories._pods = STORIES

    async def second(self):
        """Some changes at any moments of a second, whatever is under way."""
        random = self.random
        begin = self.cluster.time.now
        for moment in sorted(random.random() for _ in range(random.randrange(5))):
            await self._pass_until(begin + moment)
            for _ in range(random.choice((1, 1, 1, 2, 5))):
                self.changes.step()
            await yield_control(random.choice((0, 1, 2, 3, 5, 8)))
        await self._pass_until(begin + 1.0)
        self.changes.kubelets()
        self.watcher.measure()

    async def _pass_until(self, moment):
        time = self.cluster.time
        while time.next_alarm(moment):
            await yield_control(ROUNDS)

    async def come_to_rest(self):
        """Faults are over; let victims end, waits end, and backoffs pass."""
        self.faulty.rate = self.faulty.lag = 0.0
        for _ in range(60):
            for waiting in self.cluster.scheduler.waiting_pods:
                waiting.allow("Delaying")
            self.changes.kubelets(at_once=True)
            await self._pass_until(self.cluster.time.now + 1.0)
        await self.cluster.advance(30)


@asynccontextmanager
async def soaking(seed):
    random = Random(seed)
    ways, recorded = {}, Recorded()

    async def sleep(seconds):
        await ways["sleep"](seconds)

    def wrap(api):
        ways["faulty"] = FaultyApi(api, random, sleep)
        return ways["faulty"]

    plugin = delaying_plugin(sleep)
    options = {"config": CONFIG, "plugins": [plugin], "settings": NEVER, "wrap": wrap, "recorder": recorded.recorder}
    # The engine's chance is its own: neither changes nor faults draw on it again.
    async with live(*initial_objects(), random=Random(seed), **options) as cluster:
        ways["sleep"] = cluster.time.sleep
        yield Soak(cluster, ways["faulty"], random)
    assert len(recorded.effects) > SECONDS
    recorded.check(plugin)


def everything_holds(soak, caplog):
    api, scheduler = soak.cluster.api, soak.cluster.scheduler
    assert soak.watcher.wrong == []
    assert not [record for record in caplog.records if "stacktrace" in record.getMessage()], "nothing raised"
    nothing_is_under_way(scheduler)
    equals_a_rebuild(api, scheduler.state)
    every_pod_is_bound_or_rightly_pending(api, scheduler)
    assert len(scheduler.stories) == STORIES
    assert min(soak.changes.done[name] for name in soak.changes.kinds) > 5, "everything was really tried"
    assert len({event["regarding"]["uid"] for event in soak.cluster.events(reason="Preempted")}) > 5
    assert soak.watcher.largest["assumed"] > 3


@pytest.mark.parametrize("seed", range(SCALE))
async def test_without_faults(seed, caplog):
    async with soaking(seed) as soak:
        for _ in range(SECONDS):
            await soak.second()
        await soak.come_to_rest()
        everything_holds(soak, caplog)
        every_outcome_is_reported(soak.cluster.api, soak.watcher)


@pytest.mark.parametrize("seed", range(100, 100 + times(2)))
async def test_with_faults(seed, caplog):
    """Requests fail, come late or lose their answers; watches break, expire, and bring news late."""
    async with soaking(seed) as soak:
        for second in range(SECONDS):
            soak.faulty.rate = (0.0, 0.15, 0.0, 0.05)[second // 30 % 4]
            soak.faulty.lag = (0.0, 0.0, 2.0, 1.0)[second // 40 % 4]
            await soak.second()
        await soak.come_to_rest()
        everything_holds(soak, caplog)
        assert min(soak.faulty.fates[fate] for fate in soak.faulty.kinds) > 3
