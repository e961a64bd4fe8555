"""The event loop of a command: run it, have tasks that end with it.

Whatever a command does that takes time, it does in one event loop.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine

T = TypeVar("T")


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
