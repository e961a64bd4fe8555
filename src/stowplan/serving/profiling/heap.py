"""Heap profiles.

Python does not record where an object was allocated unless it traces allocations, which slows everything down. So there
are two kinds of profiles. Immediately: objects by type, of those that the garbage collector tracks, with their own
sizes. Over some seconds (`?seconds=N`): allocations are traced, and those that are still alive at the end are
attributed to the lines that made them, like `heap` of a Go program. If tracing is already on (PYTHONTRACEMALLOC), its
data is used. Aggregating hundreds of thousands of allocations takes seconds, during which the lease has to be renewed:
it is done in a thread, after tracing has ended.

Upstream: runtime/pprof's profiles `heap` and `allocs`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from typing import TYPE_CHECKING

from stowplan.serving.profiling.pprof import Frame, Profile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Recorded frames per allocation.
_FRAMES = 16
#: Objects counted between two pauses: a few milliseconds' worth.
_AT_A_TIME = 10_000

_TYPES = (("inuse_objects", "count"), ("inuse_space", "bytes"))


async def objects_by_type(*, pause: Callable[[], Awaitable[object]]) -> Profile:
    """Containers and instances; the collector does not track objects without references (numbers, strings, arrays)."""
    profile = Profile(*_TYPES, period=("space", "bytes", 1))
    numbers: dict[type, list[int]] = {}
    known = gc.get_objects()
    for begin in range(0, len(known), _AT_A_TIME):
        for obj in known[begin : begin + _AT_A_TIME]:
            # Not `obj.__class__`, which may run user code.
            of_type = numbers.setdefault(type(obj), [0, 0])
            of_type[0] += 1
            of_type[1] += sys.getsizeof(obj, 0)
        await pause()
    del known
    for kind, (count, size) in numbers.items():
        profile.add((Frame(f"{kind.__module__}.{kind.__qualname__}"),), count, size)
    profile.comments.append("objects by type, without referenced ones; ?seconds=N shows where memory is allocated")
    if frozen := gc.get_freeze_count():
        profile.comments.append(f"{frozen} objects that were there at the start are not among them")
    return profile


def tracing() -> bool:
    return tracemalloc.is_tracing()


async def traced_for(seconds: float, *, sleep: Callable[[float], Awaitable[object]]) -> Profile:
    """Allocations from now on that are still alive at the end."""
    tracemalloc.start(_FRAMES)
    try:
        await sleep(seconds)
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    profile = await asyncio.to_thread(_summed, snapshot)
    profile.lasted = seconds
    return profile


async def traced() -> Profile:
    """Allocations since tracing began that are still alive."""
    return await asyncio.to_thread(_summed, tracemalloc.take_snapshot())


def _summed(snapshot: tracemalloc.Snapshot) -> Profile:
    profile = Profile(*_TYPES, period=("space", "bytes", 1))
    for statistic in snapshot.statistics("traceback"):
        # There the oldest frame is first, here the innermost; only lines are recorded, not functions.
        frames = tuple(
            Frame(_name(one.filename, one.lineno), one.filename, 0, one.lineno) for one in reversed(statistic.traceback)
        )
        profile.add(frames, statistic.count, statistic.size)
    return profile


def _name(file: str, line: int) -> str:
    return f"{file.rpartition('/')[2].removesuffix('.py')}:{line}"
