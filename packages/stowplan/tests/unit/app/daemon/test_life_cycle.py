"""The life cycle of the process: the order of steps, with and without leader election."""

import asyncio

import pytest

from stowplan.app.command_line.event_loop import running
from stowplan.app.daemon.life_cycle import flushing, until_stopped, while_leading
from support.live.scheduler_doubles import FakeElector, FakeScheduler


class Life:
    """A scheduler and an elector whose steps are recorded in one list."""

    def __init__(self, **options):
        self.scheduler = FakeScheduler()
        self.told = self.scheduler.told
        self.elector = FakeElector(self.told)
        self.stopped, self.lead = asyncio.Event(), asyncio.Event()
        self.ready = []
        self.delayed = options.pop("delayed", False)

    async def lived(self):
        return await while_leading(
            self.scheduler,
            self.elector,
            self.stopped,
            lead=self.lead,
            delayed=self.delayed,
            on_ready=lambda: self.ready.append(list(self.told)),
        )

    async def until(self, step):
        for _ in range(200):
            if step in self.told:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{step} does not happen: {self.told}")


@pytest.fixture
def life():
    return Life()


async def test_a_regular_life_cycle(life):
    living = asyncio.create_task(life.lived())
    await life.until("lead")
    assert life.told == ["run", "acquire", "lead"]
    assert life.ready == [["run"]]
    life.stopped.set()
    assert await living is True
    assert life.told == ["run", "acquire", "lead", "drain", "release", "stop"]


async def test_the_lease_is_held_until_binds_have_finished(life):
    held = []

    async def drain():
        life.told.append("drain")
        for _ in range(20):
            await asyncio.sleep(0)
            held.append(life.elector.is_leader and not life.elector.renewals_ended)

    life.scheduler.drain = drain
    living = asyncio.create_task(life.lived())
    await life.until("lead")
    life.stopped.set()
    await living
    assert len(held) == 20
    assert all(held)


async def test_a_standby_is_synced_and_exits_without_leading(life):
    life.elector.wins.clear()
    living = asyncio.create_task(life.lived())
    await life.until("acquire")
    assert life.ready == [["run"]]
    assert not life.lead.is_set()
    life.stopped.set()
    assert await living is True
    assert life.told == ["run", "acquire", "release", "stop"]


async def test_a_standby_may_delay_syncing_until_it_leads():
    life = Life(delayed=True)
    life.elector.wins.clear()
    living = asyncio.create_task(life.lived())
    await life.until("acquire")
    assert life.told == ["acquire"]
    life.elector.wins.set()
    await life.until("lead")
    for _ in range(20):
        await asyncio.sleep(0)
    assert life.ready == [["acquire", "run", "lead"]]
    life.stopped.set()
    assert await living is True
    assert life.told == ["acquire", "run", "lead", "drain", "release", "stop"]


async def test_a_lost_lease_stops_everything_at_once(life):
    living = asyncio.create_task(life.lived())
    await life.until("lead")
    life.elector.lost.set()
    assert await living is False
    assert life.told == ["run", "acquire", "lead", "halt", "release", "stop"]


async def test_a_lease_lost_while_waiting_for_binds(life):
    async def drain():
        life.told.append("drain")
        life.elector.lost.set()
        await asyncio.Event().wait()

    life.scheduler.drain = drain
    living = asyncio.create_task(life.lived())
    await life.until("lead")
    life.stopped.set()
    # It was asked to stop, so a lost lease is not an error.
    assert await living is True
    assert life.told == ["run", "acquire", "lead", "drain", "halt", "release", "stop"]


@pytest.mark.parametrize("delayed", [False, True], ids=["at once", "delayed"])
async def test_a_lease_lost_before_the_sync(delayed):
    life = Life(delayed=delayed)
    life.scheduler.synced = asyncio.Event()
    life.scheduler.syncs = delayed is False
    living = asyncio.create_task(life.lived())
    await life.until("acquire")
    await life.until("run")
    life.elector.lost.set()
    assert await living is False
    assert "halt" in life.told


async def test_stopped_before_the_sync(life):
    life.scheduler.syncs = False
    living = asyncio.create_task(life.lived())
    await life.until("run")
    life.stopped.set()
    assert await living is True
    assert life.told == ["run", "stop"]


@pytest.mark.parametrize("when", ["before the election", "while it leads"])
async def test_a_failing_scheduler_is_reported_and_releases_the_lease(life, when):
    async def run(*, lead=None):
        life.told.append("run")
        life.scheduler.synced.set()
        if when == "while it leads":
            await lead.wait()
        raise RuntimeError("broken")

    life.scheduler.run = run
    with pytest.raises(RuntimeError, match="broken"):
        await life.lived()
    assert life.elector.is_leader is False
    assert "drain" not in life.told


async def test_without_an_election_it_schedules_at_once():
    scheduler, stopped, ready = FakeScheduler(), asyncio.Event(), []
    living = asyncio.create_task(until_stopped(scheduler, stopped, on_ready=lambda: ready.append(1)))
    await asyncio.wait_for(scheduler.ready.wait(), 10)
    for _ in range(20):
        await asyncio.sleep(0)
    assert ready == [1]
    stopped.set()
    await living
    assert scheduler.told == ["run", "lead", "stop"]


async def test_the_log_is_flushed_periodically_despite_errors():
    flushed = []

    def flush():
        flushed.append(len(flushed))
        raise OSError("no space left on device")

    async with running(flushing(flush, 0)) as task:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
    assert len(flushed) > 2
