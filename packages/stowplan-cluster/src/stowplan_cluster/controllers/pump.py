"""Drive the controllers on an event loop; sleeps until a change or a timer, never polls.

Reconciles are synchronous, so they run in slices of a few milliseconds; between slices other tasks on the event loop
(above all the HTTP front) run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_cluster.controllers.loop import Loop

SLICE_SECONDS = 0.004


async def wait_for_change(changed: asyncio.Event, seconds: float | None) -> None:
    """Wait until the event is set, at most for some seconds."""
    handle = None if seconds is None else asyncio.get_running_loop().call_later(seconds, changed.set)
    try:
        await changed.wait()
    finally:
        if handle is not None:
            handle.cancel()


async def run(
    loop: Loop,
    *,
    wait: Callable[[asyncio.Event, float | None], Awaitable[None]] = wait_for_change,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> None:
    """Reconcile until cancelled; cancellation takes effect between two reconciles."""
    changed = asyncio.Event()
    unsubscribe = loop.store.on_change(lambda event: changed.set())
    try:
        while True:
            if _work_for_a_slice(loop, stopwatch):
                await asyncio.sleep(0)
                continue
            changed.clear()
            due = loop.next_due()
            await wait(changed, None if due is None else max(due - loop.clock(), 0.0))
    finally:
        unsubscribe()


def _work_for_a_slice(loop: Loop, stopwatch: Callable[[], float]) -> bool:
    """Reconcile for one slice; return whether there may be more to do."""
    end = stopwatch() + SLICE_SECONDS
    while loop.step():
        if stopwatch() >= end:
            return True
    return False
