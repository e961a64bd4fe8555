"""Run a command on an event loop, with background tasks that end with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stowplan.kube.klog import get_logger
from stowplan.kube.timing.process_tuning import collect_garbage_less_often

T = TypeVar("T")

#: Timeout in seconds for cancelled tasks after everything else has ended.
PATIENCE = 1.0

_log = get_logger(__name__)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on an event loop; uvloop if it is installed."""
    collect_garbage_less_often()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_to_the_end(main))
    return uvloop.run(_to_the_end(main))


async def _to_the_end(main: Coroutine[Any, Any, T]) -> T:
    """Leave no task behind that would block the loop, which waits for all tasks before it closes."""
    try:
        return await main
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=PATIENCE)
        for task in left:
            _log.error(None, "a cancelled task does not stop, and is abandoned", task=task.get_name())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Official API for custom tasks: asyncio now considers this one done.
            asyncio.tasks._unregister_task(task)


@asynccontextmanager
async def running(main: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """A task that is cancelled and awaited at the end."""
    task = asyncio.create_task(main)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def run_in_background(main: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Like `running`, for a task that is not awaited: a failure is a bug and is reported at once."""
    async with running(main) as task:
        task.add_done_callback(_report_failure)
        yield


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error(error, "a background task has failed", trace=True)


async def first_of(*awaited: Awaitable[object]) -> None:
    """Wait until one of them is done; exceptions propagate. Tasks continue, coroutines are cancelled."""
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
    """Wait until the other end of standard input, a pipe, is closed, for example because the parent process died."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    try:
        while await reader.read(1 << 16):
            pass
    finally:
        transport.close()
