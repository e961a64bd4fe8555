"""Cancel tasks reliably, even if they suppress the cancellation.

A plugin that catches every exception also catches CancelledError. Such a task is waited for a while, then abandoned, so
that it cannot keep alive a process that has lost its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any


async def cancel_all(
    tasks: Iterable[asyncio.Task[Any]], *, seconds: float, sleep: Callable[[float], Awaitable[object]]
) -> set[asyncio.Task[Any]]:
    """Cancel the tasks and wait until they have ended; return those that have not after this many seconds."""
    ending = {task for task in tasks if not task.done()}
    for task in ending:
        task.cancel()
    if not ending:
        return ending
    left, alarm = set(ending), asyncio.ensure_future(sleep(seconds))
    try:
        while left and not alarm.done():
            await asyncio.wait((*left, alarm), return_when=asyncio.FIRST_COMPLETED)
            left = {task for task in left if not task.done()}
    finally:
        alarm.cancel()
        await asyncio.gather(alarm, return_exceptions=True)
    for task in ending - left:
        # Otherwise asyncio logs that the exception was never retrieved.
        if not task.cancelled():
            task.exception()
    return left
