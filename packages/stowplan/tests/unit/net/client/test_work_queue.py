"""WorkQueue that process a queue: as many as needed up to a limit, in order, without blocking others."""

import asyncio

import pytest

from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.client.events.event_recorder import WorkQueue


class Work:
    """Work items that finish when the test says so; `now` finish at once, `bad` raise."""

    def __init__(self, *, limit=3, now=False, bad=()):
        self.bad = bad
        self.workers = WorkQueue(self.do, limit=limit, failed=self.fail)
        self.begun, self.done, self.failed = [], [], []
        self.gate = asyncio.Event()
        if now:
            self.gate.set()

    async def do(self, thing):
        self.begun.append(thing)
        await self.gate.wait()
        if thing in self.bad:
            raise RuntimeError(thing)
        self.done.append(thing)

    def fail(self, thing, error):
        self.failed.append((thing, str(error)))


async def test_items_wait_until_the_workers_start():
    work = Work(now=True)
    work.workers.put("a")
    await settle()
    assert work.begun == []
    assert not work.workers.idle
    work.workers.start()
    await settle()
    assert work.done == ["a"]
    assert work.workers.idle


async def test_there_are_as_many_workers_as_items_up_to_the_limit():
    work = Work(limit=3)
    work.workers.start()
    for thing in "abcde":
        work.workers.put(thing)
    await settle()
    assert work.begun == ["a", "b", "c"]
    work.gate.set()
    await settle()
    assert work.done == list("abcde")
    work.workers.put("f")
    await settle()
    assert work.done[-1] == "f"


async def test_one_worker_suffices_when_items_finish_at_once():
    work = Work(limit=16, now=True)
    work.workers.start()
    for thing in range(10):
        work.workers.put(thing)
    done = []
    for _ in range(5):
        await asyncio.sleep(0)
        done.append(len(work.done))
    # All other tasks get a turn after each item.
    assert done == [1, 2, 3, 4, 5]
    await work.workers.halt()


async def test_a_worker_is_added_while_the_others_wait():
    work = Work(limit=3)
    work.workers.start()
    for thing in "ab":
        work.workers.put(thing)
        await settle()
    assert work.begun == ["a", "b"]
    await work.workers.halt()


async def test_unfinished_items_are_queued_again_after_a_halt():
    work = Work(limit=2)
    work.workers.start()
    for thing in "abc":
        work.workers.put(thing)
    await settle()
    await work.workers.halt()
    assert sorted(work.workers.waiting) == ["a", "b", "c"]
    work.gate.set()
    work.workers.start()
    await settle()
    assert sorted(work.done) == ["a", "b", "c"]


@pytest.mark.parametrize(("in_time", "left"), [(True, 0), (False, 3)])
async def test_finishing_takes_no_longer_than_allowed(in_time, left):
    work, time = Work(limit=2, now=in_time), ManualTime()
    for thing in "abc":
        work.workers.put(thing)
    finishing = asyncio.create_task(work.workers.finish(time.sleep(5.0)))
    await time.advance(4.9)
    assert finishing.done() is in_time
    await time.advance(0.2)
    await finishing
    assert len(work.workers.waiting) == left
    work.workers.put("late")
    await settle()
    assert "late" not in work.begun


async def test_resting_workers_do_not_count_as_busy():
    time = ManualTime()
    workers = WorkQueue(lambda _: workers.rest(time.sleep(1.0)), limit=2, failed=pytest.fail)
    workers.start()
    workers.put("a")
    assert not workers.idle
    await settle()
    assert workers.idle
    for thing in "bc":
        workers.put(thing)
    await settle()
    assert workers.idle
    assert list(workers.waiting) == ["c"]
    await time.advance(2.0)
    assert workers.idle
    assert not workers.waiting


@pytest.mark.parametrize("limit", [1, 3])
async def test_an_item_that_raises_is_reported_and_blocks_no_other(limit):
    work = Work(limit=limit, bad="ace")
    work.workers.start()
    for thing in "abcdef":
        work.workers.put(thing)
    await settle()
    work.gate.set()
    await settle()
    assert sorted(work.failed) == [(thing, thing) for thing in "ace"]
    assert sorted(work.done) == ["b", "d", "f"]
    assert work.workers.idle
    work.workers.put("g")
    await settle()
    assert work.done[-1] == "g"
