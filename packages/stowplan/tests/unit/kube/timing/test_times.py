"""Time limits for coroutines."""

import asyncio

import pytest

from stowplan.kube.timing.manual_time import ManualTime
from stowplan.kube.timing.times import within


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
