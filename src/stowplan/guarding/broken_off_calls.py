"""Replay interrupted plugin calls: the recorded calls are interrupted immediately.

    calls = BrokenOffCalls()
    registry = registry_with(plugins, guard=calls)
    for entry, effects in Replay(lines, registry, broken_off=calls, ...).steps(): ...

A call that hung then is not made at all, so nothing hangs now, and no clock is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.guarding.hang_guard import PluginTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stowplan.engine.input_log.recording import BrokenOff


class BrokenOffCalls:
    """Counts the calls of a step as `HangGuard` does."""

    def __init__(self) -> None:
        self.guarded: set[tuple[str, str]] = set()
        self.in_use = False
        self._calls_in_step = 0
        #: Which calls of the step are broken off -> what is said of it.
        self._expected: dict[int, str] = {}

    def expect(self, calls: Sequence[BrokenOff]) -> None:
        """A step begins, in which these calls were broken off."""
        self._calls_in_step = 0
        self._expected = dict(calls)

    def call(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        self._calls_in_step += 1
        why = self._expected.get(self._calls_in_step)
        if why is not None:
            raise PluginTimeoutError(why)
        return function(*args, **keys)

    async def wait(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """Not used in a replay, which has the coroutines' answers."""
        return await function(*args, **keys)
