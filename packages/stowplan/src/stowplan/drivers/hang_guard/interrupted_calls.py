"""Replay interrupted plugin calls: the recorded calls are interrupted immediately.

    calls = InterruptedCalls()
    registry = registry_with(plugins, guard=calls)
    for entry, effects in Replay(lines, registry, interrupted=calls, ...).steps(): ...

A call that hung in the recorded run is not made at all, so nothing hangs, and no clock is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stowplan.drivers.hang_guard.hang_guard import PluginTimeoutError
from stowplan.scheduler.engine.input_log.recording import InterruptedCall


class InterruptedCalls:
    """Counts the calls of a step like `HangGuard`."""

    def __init__(self) -> None:
        self.guarded: set[tuple[str, str]] = set()
        self.in_use = False
        self._calls_in_step = 0
        #: Index of an interrupted call in the step -> its error message.
        self._expected: dict[int, str] = {}

    def expect(self, calls: Sequence[InterruptedCall]) -> None:
        """Start a step in which these calls were interrupted."""
        self._calls_in_step = 0
        self._expected = dict(calls)

    def call(self, plugin: str, point: str, function: Callable[..., Any], /, *args: Any) -> Any:
        self._calls_in_step += 1
        why = self._expected.get(self._calls_in_step)
        if why is not None:
            raise PluginTimeoutError(why)
        return function(*args)

    def limited(self, plugin: str, point: str, running: Awaitable[Any], /) -> Awaitable[Any]:
        """Not used in a replay, which has the coroutines' results."""
        return running
