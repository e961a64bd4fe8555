"""Run plugins' coroutines without an event loop.

A coroutine that awaits the API of `virtual_api` yields its request and is resumed when that has been carried out.
Anything else that it may await (a sleep, a future, a lock) would require an event loop and real time, which simulated
time does not have: it ends the call with an Error that says so.
"""

from __future__ import annotations

from collections.abc import Coroutine
from math import inf
from typing import Any

from stowplan.drivers.virtual_time.virtual_api import PendingCall
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.requests import Done, Outcome
from stowplan.scheduler.framework.status import Status, error, raised

FOREIGN_AWAIT = (
    'plugin "{plugin}" awaited {what} in {point}: in simulated time a plugin may await only the handle\'s api; '
    "one that is written as steps (a generator) can wait for time, too"
)

RESTLESS = (
    'plugin "{plugin}" asked for {times} things at one moment in {point}: simulated time does not pass while a plugin '
    "asks again and again; one that is written as steps (a generator) can wait for time, or until an object changes"
)
#: Maximum number of requests of one call without time passing.
MAX_REQUESTS_AT_A_MOMENT = 10_000

#: The error of event loops when none is running, and the library that raises it.
_NO_LOOP, _LOOPS = "no running event loop", "asyncio"


class PluginRun:
    """One run of a plugin's coroutine."""

    __slots__ = ("_action", "_at", "_coroutine", "_requests_now", "ended", "number", "outcome", "stopped_for")

    def __init__(self, number: int, action: RunPlugin, coroutine: Coroutine[Any, Any, Status | None]) -> None:
        #: Of the effect.
        self.number = number
        self._action = action
        self._coroutine = coroutine
        #: The value to resume it with; None at first.
        self.outcome: Outcome | None = None
        #: Why it has to be stopped, if it has.
        self.stopped_for: str | None = None
        self.ended = False
        #: Number of requests at the current time.
        self._requests_now = 0
        self._at = -inf

    def resume(self, now: float) -> PendingCall | Done:
        """Run until the next request, or the end."""
        pending = resume(self._coroutine, self.outcome)
        if isinstance(pending, Ended):
            self.ended = True
            return Done(self._explained(pending.value))
        if isinstance(pending, Raised):
            self.ended = True
            return Done(raised(pending.cause))
        if type(pending) is not PendingCall:
            self._close()
            return Done(self._foreign(f"a {type(pending).__name__}"))
        if self._asks_for_ever(now):
            self._close()
            return Done(self._failed(RESTLESS, times=MAX_REQUESTS_AT_A_MOMENT))
        return pending

    def _asks_for_ever(self, now: float) -> bool:
        if now != self._at:
            self._at, self._requests_now = now, 0
        self._requests_now += 1
        return self._requests_now > MAX_REQUESTS_AT_A_MOMENT

    def stop(self) -> Done:
        """Stop it where it waits."""
        self._close()
        return Done(error(self.stopped_for or ""))

    def _close(self) -> None:
        self.ended = True
        # If it awaits something although it is closed, or raises: its result is no longer needed.
        close(self._coroutine)

    def _explained(self, answer: Status | None) -> Status | None:
        """The result; if an awaitable found no event loop, an Error that explains it."""
        failed = None if answer is None else answer.error
        if failed is None:
            return answer
        # A user's exception is wrapped in one with its location.
        cause = failed.__cause__
        failed = cause if isinstance(cause, Exception) else failed
        if not _wants_loop(failed):
            return answer
        explained = self._foreign("something that needs an event loop")
        assert explained.error is not None
        explained.error.__cause__ = failed
        return explained

    def _foreign(self, what: str) -> Status:
        return self._failed(FOREIGN_AWAIT, what=what)

    def _failed(self, text: str, **about: object) -> Status:
        return error(text.format(plugin=self._action.plugin, point=self._action.point, **about))


def _wants_loop(failed: Exception) -> bool:
    """Whether it was raised because there is no event loop."""
    if isinstance(failed, RuntimeError) and str(failed) == _NO_LOOP:
        return True
    if not isinstance(failed, RuntimeError | AttributeError):
        return False
    frames = failed.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return frames is not None and frames.tb_frame.f_globals.get("__name__", "").partition(".")[0] == _LOOPS
