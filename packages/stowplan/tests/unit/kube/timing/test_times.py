"""Time limits for coroutines."""

import asyncio
from random import Random

import pytest

from stowplan.kube.timing.times import START, ManualTime, settle, within


class Work:
    """Runs until told to end."""

    def __init__(self):
        self.end = asyncio.get_running_loop().create_future()
        self.given_up = False

    async def run(self):
        try:
            return await self.end
        except asyncio.CancelledError:
            self.given_up = True
            raise


@pytest.fixture
async def time():
    return ManualTime()


@pytest.fixture
async def work(time):
    work = Work()
    work.outcome = asyncio.ensure_future(within(5, work.run(), sleep=time.sleep))
    await time.advance(4.9)
    return work


async def test_its_result_is_returned(work):
    work.end.set_result("done")
    assert await work.outcome == "done"


async def test_its_exception_is_raised(work):
    work.end.set_exception(KeyError("why"))
    with pytest.raises(KeyError, match="why"):
        await work.outcome


async def test_it_is_cancelled_after_the_limit(time, work):
    assert not work.outcome.done()
    await time.advance(0.2)
    with pytest.raises(TimeoutError):
        await work.outcome
    assert work.given_up


async def test_it_is_cancelled_with_its_waiter(time, work):
    work.outcome.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work.outcome
    assert work.given_up
    assert not time.naps


class Sleepers:
    """Each sleeps for some seconds; records when they woke, and in which order."""

    def __init__(self, time, *naps):
        self.time = time
        self.woke = []
        self.tasks = [asyncio.create_task(self.sleep(seconds)) for seconds in naps]

    async def sleep(self, seconds):
        await self.time.sleep(seconds)
        self.woke.append((seconds, self.time.now))


async def test_sleepers_wake_exactly_on_time():
    time = ManualTime()
    sleepers = Sleepers(time, 3.0, 1.0, 2.5, 7.0)
    await settle()
    assert sleepers.woke == []
    await time.advance(3.0)
    assert sleepers.woke == [(1.0, 1.0), (2.5, 2.5), (3.0, 3.0)]
    await time.advance(3.9)
    assert len(sleepers.woke) == 3
    await time.advance(0.1)
    assert sleepers.woke[3:] == [(7.0, 7.0)]
    assert (time.clock(), time.wall_clock()) == (7.0, START + 7.0)


async def test_sleepers_of_one_moment_wake_in_order():
    time = ManualTime()
    sleepers = Sleepers(time, 1.0, 2.0, 1.0)
    await settle()
    assert time.next_alarm(5.0)
    await settle()
    assert sleepers.woke == [(1.0, 1.0)] * 2
    assert time.next_alarm(5.0)
    assert not time.next_alarm(5.0)
    assert time.now == 5.0


async def test_sleeping_repeatedly():
    time, woke = ManualTime(), []

    async def tick():
        while True:
            await time.sleep(1.0)
            woke.append(time.now)

    ticking = asyncio.create_task(tick())
    await time.advance(3.5)
    assert woke == [1.0, 2.0, 3.0]
    ticking.cancel()
    await settle()
    assert time.naps == []


async def test_cancelled_sleepers_are_ignored():
    time = ManualTime()
    sleepers = Sleepers(time, 1.0, 4.0)
    await settle()
    assert time.naps == [1.0, 4.0]
    sleepers.tasks[0].cancel()
    await settle()
    assert time.naps == [4.0]
    assert time.next_alarm(10.0)
    assert time.now == 4.0
    await settle()
    assert sleepers.woke == [(4.0, 4.0)]


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_zero_and_negative_sleeps(seconds):
    time = ManualTime()
    sleepers = Sleepers(time, seconds)
    await time.advance(0.0)
    assert sleepers.woke == [(seconds, 0.0)]


async def test_time_cannot_go_back():
    time = ManualTime()
    await time.advance(5.0)
    assert not time.next_alarm(3.0)
    assert time.now == 5.0


async def test_each_moment_settles_before_the_next():
    time, order = ManualTime(), []
    sleepers = Sleepers(time, 1.0, 2.0)

    async def slowly():
        await settle()
        order.append((time.now, len(sleepers.woke)))

    await time.advance(5.0, settle=slowly)
    assert order == [(0.0, 0), (1.0, 1), (2.0, 2)]


def test_clocks_and_randomness():
    time = ManualTime(0.25, start=100.0)
    assert (time.clock(), time.wall_clock(), time.random()) == (0.0, 100.0, 0.25)
    time.now, time.chance = 2.0, 0.75
    assert (time.clock(), time.wall_clock(), time.random()) == (2.0, 102.0, 0.75)
    assert ManualTime(random=Random(1).random).random() == Random(1).random()
