"""Ending tasks that may not want to end.

A task that is cancelled gets an exception, and whoever wrote it may have caught that one with all others. It is waited
for a while, then left behind: a process that has lost its lease must not stay because of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


async def cancelled(
    tasks: Iterable[asyncio.Task[Any]], *, within: float, sleep: Callable[[float], Awaitable[object]]
) -> set[asyncio.Task[Any]]:
    """Cancel them and wait until they have ended, at most so many seconds; those that have not."""
    ending = {task for task in tasks if not task.done()}
    for task in ending:
        task.cancel()
    if not ending:
        return ending
    left, alarm = set(ending), asyncio.ensure_future(sleep(within))
    try:
        while left and not alarm.done():
            await asyncio.wait((*left, alarm), return_when=asyncio.FIRST_COMPLETED)
            left = {task for task in left if not task.done()}
    finally:
        alarm.cancel()
        await asyncio.gather(alarm, return_exceptions=True)
    for task in ending - left:
        # Or asyncio complains that nobody looked at what it failed with.
        if not task.cancelled():
            task.exception()
    return left
