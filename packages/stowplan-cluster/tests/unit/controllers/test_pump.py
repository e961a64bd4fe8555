import asyncio
from contextlib import suppress
from itertools import count

import pytest

from stowplan_cluster.controllers.pump import run, wait_for_change
from support.live.controller_cluster import LiveCluster, workload


class Waiting:
    """Replaces sleeping: reports the delay, and lets the test decide what happens."""

    def __init__(self):
        self.asked = asyncio.Queue()
        self.over = asyncio.Event()

    async def __call__(self, changed, seconds):
        await self.asked.put(seconds)
        waits = [asyncio.create_task(changed.wait()), asyncio.create_task(self.over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
        self.over.clear()


@pytest.fixture
async def pumped():
    cluster, waiting = LiveCluster(), Waiting()
    task = asyncio.create_task(run(cluster.loop, wait=waiting))
    yield cluster, waiting
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_change_wakes_the_controllers(pumped):
    cluster, waiting = pumped
    assert await waiting.asked.get() is None
    cluster.create(workload("ReplicaSet", replicas=3))
    assert await waiting.asked.get() is None
    assert len(cluster.pods()) == 3


async def test_it_waits_for_timers(pumped):
    cluster, waiting = pumped
    await waiting.asked.get()
    cluster.create(workload("Job", activeDeadlineSeconds=60))
    assert await waiting.asked.get() == 60.0
    cluster.now += 60
    waiting.over.set()
    await waiting.asked.get()
    types = [one["type"] for one in cluster.get("Job", "web")["status"]["conditions"]]
    assert "FailureTarget" in types


async def test_the_event_loop_runs_during_long_work():
    cluster, waiting = LiveCluster(), Waiting()
    for number in range(20):
        cluster.create(workload("ReplicaSet", f"web-{number}", replicas=1))
    # Each reading of the stopwatch is a time slice later, so each reconcile takes a whole slice.
    ticks = count()
    task = asyncio.create_task(run(cluster.loop, wait=waiting, stopwatch=lambda: next(ticks)))
    turns = 0
    while waiting.asked.empty():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20
    assert len(cluster.pods()) == 20
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waiting_ends_with_a_change():
    changed = asyncio.Event()
    task = asyncio.create_task(wait_for_change(changed, 1e6))
    await asyncio.sleep(0)
    assert not task.done()
    changed.set()
    await task


async def test_waiting_ends_with_time():
    assert await asyncio.wait_for(wait_for_change(asyncio.Event(), 0.0), 60) is None
