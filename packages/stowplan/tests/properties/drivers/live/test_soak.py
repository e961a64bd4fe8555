"""Seven minutes of random changes and faults; afterwards the state must equal that of a newly started scheduler.

The engine is validated each second, as each validation reads the whole cluster.
Inputs are recorded and replayed at the end, which must have the same effects. Seeds are fixed, so failures are
reproducible; STOWPLAN_EXAMPLES=20 runs twenty times as many.
"""

from contextlib import asynccontextmanager
from random import Random

import pytest

from stowplan.drivers.live.scheduler import SchedulerSettings
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

SECONDS = 400
#: Turns of the event loop after which everything that needs no time is done, unless there is very much of it.
ROUNDS = 30
#: No pod is flushed, so a missed wake-up stays missed.
NEVER = SchedulerSettings(max_in_unschedulable=1e9)
#: Small bounds of what is remembered, so that they are reached.
STORIES = 200


class Soak:
    def __init__(self, cluster, faulty, random):
        self.cluster, self.faulty, self.random = cluster, faulty, random
        self.changes = Changes(cluster.api, random, cluster.scheduler.waiting_pods)
        self.watcher = Watcher(cluster.api, cluster.scheduler, faulty)
        cluster.scheduler.stories._pods = STORIES

    async def second(self):
        """Some changes at random moments of a second, whatever is in progress."""
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
        self.cluster.scheduler.engine.validate()

    async def _pass_until(self, moment):
        time = self.cluster.time
        while time.next_alarm(moment):
            await yield_control(ROUNDS)

    async def come_to_rest(self):
        """After the faults: let victims terminate, waits end, and backoffs elapse."""
        self.faulty.rate = self.faulty.lag = 0.0
        # Off the whole seconds: a pod whose wait of one second ends just then would never be allowed.
        await self._pass_until(self.cluster.time.now + 0.37)
        for _ in range(60):
            for waiting in self.cluster.scheduler.waiting_pods:
                waiting.allow("Delaying")
            self.changes.kubelets(at_once=True)
            await self._pass_until(self.cluster.time.now + 1.0)
        await self.cluster.advance(30)
        self.cluster.scheduler.engine.validate()


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
    options["validate"] = False
    # The engine has its own random source: changes and faults do not draw from it.
    async with live(*initial_objects(), random=Random(seed), **options) as cluster:
        ways["sleep"] = cluster.time.sleep
        yield Soak(cluster, ways["faulty"], random)
    assert len(recorded.effects) > SECONDS
    recorded.check(plugin)


def check_everything(soak, caplog):
    api, scheduler = soak.cluster.api, soak.cluster.scheduler
    assert soak.watcher.wrong == []
    assert not [record for record in caplog.records if "stacktrace" in record.getMessage()], "exceptions were logged"
    nothing_is_under_way(scheduler)
    equals_a_rebuild(api, scheduler.state)
    every_pod_is_bound_or_rightly_pending(api, scheduler)
    assert len(scheduler.stories) == STORIES
    assert min(soak.changes.done[name] for name in soak.changes.kinds) > 5, "some kind of change never happened"
    assert len({event["regarding"]["uid"] for event in soak.cluster.events(reason="Preempted")}) > 5
    assert soak.watcher.largest["assumed"] > 3


@pytest.mark.parametrize("seed", range(SCALE))
async def test_without_faults(seed, caplog):
    async with soaking(seed) as soak:
        for _ in range(SECONDS):
            await soak.second()
        await soak.come_to_rest()
        check_everything(soak, caplog)
        every_outcome_is_reported(soak.cluster.api, soak.watcher)


@pytest.mark.parametrize("seed", range(100, 100 + times(2)))
async def test_with_faults(seed, caplog):
    """Requests fail, are delayed or lose their responses; watches break, expire, and deliver late."""
    async with soaking(seed) as soak:
        for second in range(SECONDS):
            soak.faulty.rate = (0.0, 0.15, 0.0, 0.05)[second // 30 % 4]
            soak.faulty.lag = (0.0, 0.0, 2.0, 1.0)[second // 40 % 4]
            await soak.second()
        await soak.come_to_rest()
        check_everything(soak, caplog)
        assert min(soak.faulty.fates[fate] for fate in soak.faulty.kinds) > 3
