"""A work queue with a bounded number of workers, started on demand.

One worker starts. Another is added whenever all of them wait for a response and more items are waiting; so an
in-process API, whose responses are immediate, gets one worker, and a remote one up to `limit`. After each item a worker
yields, so that a long queue does not block the event loop. A worker ends when the queue is empty.

The work function handles expected failures. Any exception is a bug, possibly with a single item: `failed` reports it,
and the worker continues with the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    def __init__(
        self, work: Callable[[T], Awaitable[None]], *, limit: int, failed: Callable[[T, Exception], None]
    ) -> None:
        self._work = work
        self._failed = failed
        self._limit = limit
        self.waiting: deque[T] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Number of busy workers, and of those that are sleeping within an item.
        self._working = 0
        self._resting = 0
        self._started = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do before time passes."""
        return self._working == self._resting and (not self.waiting or self._resting == self._limit)

    def put(self, thing: T) -> None:
        self.waiting.append(thing)
        self._start_worker()

    async def rest(self, until: Awaitable[object]) -> None:
        """Sleep within an item."""
        self._resting += 1
        try:
            await until
        finally:
            self._resting -= 1

    def start(self) -> None:
        """Start processing, including items added earlier."""
        self._started = True
        self._start_worker()

    async def halt(self) -> None:
        """Stop immediately; unfinished items are queued again."""
        self._started = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that never ran has not removed itself from the list.
        self._tasks.clear()

    async def finish(self, time_limit: Awaitable[object]) -> None:
        """Process the queue until it is empty, at most until `time_limit`; then halt. Sleeping items start again."""
        timer = asyncio.ensure_future(time_limit)
        await self.halt()
        self.start()
        try:
            while self._tasks and not timer.done():
                await asyncio.wait({*self._tasks, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
            await self.halt()

    def _start_worker(self) -> None:
        if self._started and self.waiting and self._working == len(self._tasks) < self._limit:
            self._tasks.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        try:
            while self.waiting:
                thing = self.waiting.popleft()
                self._working += 1
                if self.waiting:
                    loop.call_soon(self._start_worker)
                try:
                    await self._work(thing)
                except asyncio.CancelledError:
                    self.waiting.appendleft(thing)
                    raise
                except Exception as error:
                    self._failed(thing, error)
                finally:
                    self._working -= 1
                await asyncio.sleep(0)
        finally:
            if me is not None:
                self._tasks.discard(me)
