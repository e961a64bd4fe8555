"""The event loop of a command: run it, have tasks that end with it, hear of signals.

Whatever a command does that takes time, it does in one event loop. Signals are taken before there is one: until then,
and whenever the loop hangs, they have to count as well.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
    from types import FrameType

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run an event loop for it, the faster one where it installs."""
    # Objects of a cluster are many and no cycles: looking for those less often is a tenth of a create.
    gc.set_threshold(50_000, 20, 100)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


@asynccontextmanager
async def running(main: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """A task, cancelled and waited for at the end."""
    task = asyncio.create_task(main)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def first_of(*awaited: Awaitable[object]) -> None:
    """Until one of them is done; what failed, a bug to be seen, is raised. Tasks go on, coroutines do not."""
    futures = [asyncio.ensure_future(one) for one in awaited]
    try:
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            future.result()
    finally:
        for future, one in zip(futures, awaited, strict=True):
            if future is not one:
                future.cancel()


async def end_of_input() -> None:
    """Until whoever holds the other end of our standard input, a pipe, lets go of it, be it by dying."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    try:
        while await reader.read(1 << 16):
            pass
    finally:
        transport.close()


@contextmanager
def stop_signals(before_the_end: Callable[[], None] = lambda: None) -> Iterator[StopSignals]:
    """Signals ask for an orderly end while this lasts, a second one for the end; `before_the_end` is called then."""
    stop = StopSignals(before_the_end)
    try:
        yield stop
    finally:
        stop.restore()


class StopSignals:
    """SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process.

    They count from the moment this is made, before there is an event loop: a process that is the first in its
    container dies of no signal that it does not handle.
    """

    def __init__(self, before_the_end: Callable[[], None]) -> None:
        self._before_the_end = before_the_end
        self._requested = False
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._previous = {number: signal.signal(number, self._received) for number in _SIGNALS}

    def restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def event(self) -> asyncio.Event:
        """Set by the first signal; to be called within the event loop."""
        self._loop = asyncio.get_running_loop()
        if self._requested:
            self._event.set()
        return self._event

    def _received(self, number: int, frame: FrameType | None) -> None:
        # Not one of the event loop's handlers: the loop may be what does not come to an end. It is woken all the same,
        # by the interrupted wait in the kernel or by the descriptor that it gave the interpreter.
        if self._requested:
            self._before_the_end()
            os._exit(1)
        self._requested = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._event.set)
