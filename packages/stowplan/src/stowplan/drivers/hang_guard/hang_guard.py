"""Interrupt a plugin call that does not return, failing only that pod's attempt.

One event loop does all the work, so a plugin that loops forever, sleeps or waits for a lock would block everything: no
pod is scheduled, no lease renewed, no health check answered. A thread measures the duration of the current call, and
when a plugin exceeds its share of an iteration of the event loop, sends the main thread a signal. Signals interrupt
blocking calls (sleep, locks, sockets), and their handler runs in the main thread on top of the current stack, where it
raises an exception that ends the call. To the framework it looks like a plugin that raised.

The handler only raises while everything above the guarded call is the plugin's own code, or a library's. If the plugin
has called back into the scheduler, whose state must not be left inconsistent, it is retried later. In one iteration of
the event loop a plugin may be called for hundreds of pods, and all its calls at an extension point share the limit:
once it is used up, further calls get a small fraction, and after many interrupted calls the plugin is not called until
the next iteration. So pods for which it does not hang get their result, and the event loop continues.

Asynchronous points (PreBind, Bind, PostBind) only block their pod: they have a separate, generous limit. Between two
waits they are guarded like any other call.

Without an event loop (`Cluster`, `explain`, `live_testing`), `CallGuard` limits each call separately: its thread only
exists while calls are made. A plugin that hung gets less time for a while, so that thousands of pods for which it hangs
do not each take the full limit.

With a debugger attached, calls are not interrupted: the limit restarts as long as the debugger is active.

C code that neither returns nor checks for signals cannot be interrupted. If it releases the interpreter lock, this is
logged; health checks then fail, and the process supervisor restarts the process.

The cost is limited to user plugins: only these are called through it (`framework/boundary.py`), and without any there
is no thread. A guarded call costs a microsecond.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

from stowplan.kube.api.durations import Duration
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.input_log.recording import InterruptedCall
from stowplan.scheduler.framework.boundary import Raised
from stowplan.scheduler.framework.status import place_of

#: Seconds: less than a leader's renew deadline, so that a plugin does not lose the lease.
PLUGIN_TIMEOUT = 5.0
#: In-tree provisioning of volumes may take ten minutes.
BINDING_TIMEOUT = 15 * 60.0

#: Ignored by default; Go's runtime uses it for the same purpose.
_SIGNAL = signal.SIGURG
#: The limit of a call after the limit of the iteration is used up: a fraction of it, or this many seconds.
_MOMENT, _LEAST_MOMENT = 0.01, 0.02
#: Interrupted calls per iteration after which the plugin is no longer called.
_MAX_TIMEOUTS_PER_TURN = 16
#: Seconds between checks while a call is overdue; otherwise their maximum and minimum.
_AGAIN, _MOST, _LEAST = 0.01, 0.25, 0.01
_NOTHING = nullcontext()
#: Frames listed in a message, the innermost ones.
_SHOWN = 5
#: Code that must not, or cannot, be interrupted: exceptions in garbage collector callbacks are swallowed. Pure loops
#: around plugin code are not included.
_OURS = frozenset(
    ("stowplan", "stowplan_cluster", "stowplan_lab", "asyncio", "uvloop", "aiohttp", "weakref", "_weakrefset")
)
_HARMLESS = frozenset(f"stowplan.scheduler.framework.{module}" for module in ("boundary", "interface", "answers"))
#: If one of these is on the stack, a plugin is being debugged and must not be interrupted.
_DEBUGGERS = frozenset(("bdb", "pdb", "pydevd", "_pydevd_bundle", "_pydevd_sys_monitoring", "debugpy"))
#: Without an event loop: the share of the limit for a plugin that hung, and for how many limits it applies.
_SHORTENED, _SHORTENED_FOR = 0.1, 10
#: Checks without any call after which the thread of a `CallGuard` ends.
_IDLE_LOOKS = 4

_log = get_logger(__name__)


class PluginTimeoutError(Exception):
    """A plugin call took too long; says which, where and how long."""


class _Interrupted(BaseException):
    """Ends a plugin's call. Not an Exception, which plugins may catch."""


#: (plugin, extension point).
_Where = tuple[str, str]


class _Call(PlainStruct, eq=False):
    where: _Where
    began: float
    #: When to interrupt it.
    due: float
    complained: bool = False


class _Interrupting(ABC):
    """The current call, and its interruption by a signal."""

    def __init__(self, *, seconds: float, clock: Callable[[], float]) -> None:
        #: 0: unlimited.
        self.seconds = seconds
        #: (plugin, point) of everything that is called through it, interrupted or not.
        self.guarded: set[_Where] = set()
        #: Set when plugins are wrapped: without any there is nothing to watch.
        self.in_use = False
        self._clock = clock
        self._current: _Call | None = None
        #: The call that the thread wants to interrupt.
        self._condemned: _Call | None = None

    @abstractmethod
    def call(self, plugin: str, point: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call a plugin; raises PluginTimeoutError if the call is interrupted."""

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        call = self._condemned
        if call is None or call is not self._current:
            return
        if _is_debugged(frame):
            call.due = self._clock() + self.seconds
        elif _is_plugins_own(frame):
            raise _Interrupted


class HangGuard(_Interrupting):
    """Calls plugins; `watching` interrupts calls that take too long.

    Everything except `_watch` runs in the main thread.

    For an event loop, whose iterations limit a plugin's time; otherwise use `CallGuard`.
    """

    def __init__(
        self,
        *,
        seconds: float = PLUGIN_TIMEOUT,
        binding_seconds: float = BINDING_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: of each plugin per iteration of the event loop."""
        super().__init__(seconds=seconds, clock=clock)
        #: Of each PreBind, Bind and PostBind of a plugin; 0: unlimited.
        self.binding_seconds = binding_seconds
        #: (plugin, point) -> number of interrupted calls.
        self.interrupted: Counter[_Where] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main = 0
        #: Seconds used, and calls interrupted, in this iteration.
        self._spent: dict[_Where, float] = {}
        self._interrupted_in_turn: Counter[_Where] = Counter()
        self._turn_noted = False
        #: Number of calls in the current step of the engine, and of those that were interrupted.
        self._calls_in_step = 0
        self.interrupted_in_step: list[InterruptedCall] = []
        self._stopped = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Interrupt hanging calls within the context; to be entered in the event loop of the main thread."""
        if not self.in_use or not self.seconds:
            yield
            return
        self._loop, self._main = asyncio.get_running_loop(), threading.get_ident()
        previous = signal.signal(_SIGNAL, self._interrupted)
        thread = threading.Thread(target=self._watch, name="plugin watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
            self._loop = None
            signal.signal(_SIGNAL, previous)

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, plugin: str, point: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call a plugin; raises PluginTimeoutError if the call is interrupted, or others were in this iteration."""
        if self._loop is None or threading.get_ident() != self._main:
            return function(*args)
        where = plugin, point
        self._calls_in_step += 1
        number = self._calls_in_step
        if self._interrupted_in_turn and self._interrupted_in_turn[where] >= _MAX_TIMEOUTS_PER_TURN:
            raise self._interruption(where, number)
        outer, started, spent = self._current, self._clock(), self._spent.get(where, 0.0)
        self._note_turn()
        moment = max(self.seconds * _MOMENT, _LEAST_MOMENT)
        self._current = _Call(where, started, started + max(self.seconds - spent, moment))
        try:
            return function(*args)
        except _Interrupted as interrupted:
            self._interrupted_in_turn[where] += 1
            self.interrupted[where] += 1
            # With its traceback, which shows where the plugin hung.
            raise self._interruption(where, number, place_of(interrupted)) from interrupted
        finally:
            self._current = outer
            took = self._clock() - started
            self._spent[where] = spent + took
            if outer is not None:
                outer.due += took

    def begin_step(self) -> None:
        """Reset the call counter at the start of an engine step."""
        self._calls_in_step = 0
        self.interrupted_in_step = []

    async def limited(self, plugin: str, point: str, running: Awaitable[Any]) -> Any:
        """Await a coroutine of a plugin, which is limited as a whole."""
        limit = self.binding_seconds or None
        try:
            async with asyncio.timeout(limit):
                return await running
        except TimeoutError:
            # Not the plugin's own, which would be a result here.
            self.interrupted[plugin, point] += 1
            text = f'plugin "{plugin}" did not finish {point} within {Duration.of_seconds(limit or 0.0)}'
            return Raised(PluginTimeoutError(text), self.limited)

    def _interruption(self, where: _Where, number: int, place: str = "") -> PluginTimeoutError:
        """The error for the framework and the recording; calls nested in that one do not count."""
        why = _too_long(where, self.seconds, place)
        self._calls_in_step = number
        self.interrupted_in_step = [call for call in self.interrupted_in_step if call.number < number]
        self.interrupted_in_step.append(InterruptedCall(number, why))
        return PluginTimeoutError(why)

    def _note_turn(self) -> None:
        """Reset all plugins' time when the event loop has iterated."""
        if not self._turn_noted and self._loop is not None:
            self._turn_noted = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self._turn_noted = False
        self._spent.clear()
        self._interrupted_in_turn.clear()

    # -- watching thread and signal handler ----------------------------------------------------------------------------

    def _watch(self) -> None:
        usual = min(_MOST, max(_LEAST, self.seconds / 10))
        while not self._stopped.wait(_AGAIN if self._condemned or self._interrupted_in_turn else usual):
            call = self._current
            overdue = 0.0 if call is None else self._clock() - call.due
            if call is None or overdue <= 0:
                self._condemned = None
                continue
            self._condemned = call
            signal.pthread_kill(self._main, _SIGNAL)
            if overdue > self.seconds and not call.complained:
                call.complained = True
                self._complain(call)

    def _complain(self, call: _Call) -> None:
        """Log that signals have no effect."""
        frames = traceback.extract_stack(sys._current_frames().get(self._main), limit=_SHOWN)
        _log.error(
            None,
            "a plugin hangs and cannot be interrupted; the scheduler is blocked",
            plugin=call.where[0],
            extensionPoint=call.where[1],
            where=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)],
        )


class CallGuard(_Interrupting):
    """A guard for calls outside of any event loop, in the main thread: each call is limited separately.

    In other threads, which signals do not reach, plugins are called directly.
    """

    def __init__(self, *, seconds: float = PLUGIN_TIMEOUT, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: of each call."""
        super().__init__(seconds=seconds, clock=clock)
        #: Whether a thread is watching.
        self._watched = False
        #: Whether the handler stays installed between calls.
        self._stays = False
        #: When a plugin last hung for the whole limit, and how often it hung since.
        self._hung_at: dict[_Where, float] = {}
        self._hung: Counter[_Where] = Counter()

    def call(self, plugin: str, point: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call a plugin; raises PluginTimeoutError if the call is interrupted, or too many were before."""
        if not self.seconds or threading.get_ident() != threading.main_thread().ident:
            return function(*args)
        where = plugin, point
        limit = self._limit(where)
        if not limit:
            raise PluginTimeoutError(f"{_too_long(where, self.seconds)} for other pods, and is left alone for now")
        outer, started = self._current, self._clock()
        # Another handler is only replaced for the duration of a call, or of a `series`.
        takes_over = outer is None and not self._stays
        previous = signal.signal(_SIGNAL, self._interrupted) if takes_over else None
        self._current = _Call(where, started, started + limit)
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, name="plugin calls", daemon=True).start()
        try:
            return function(*args)
        except _Interrupted as interrupted:
            self._note(where, limit)
            raise PluginTimeoutError(_too_long(where, limit, place_of(interrupted))) from interrupted
        finally:
            self._current = outer
            if outer is not None:
                outer.due += self._clock() - started
            if takes_over:
                signal.signal(_SIGNAL, previous)

    def series(self) -> AbstractContextManager[None]:
        """Share one handler between the calls within: installing and removing it costs more than most calls."""
        unused = not self.in_use or not self.seconds or self._stays
        if unused or threading.get_ident() != threading.main_thread().ident:
            return _NOTHING
        return self._kept_handler()

    @contextmanager
    def _kept_handler(self) -> Iterator[None]:
        previous = signal.signal(_SIGNAL, self._interrupted)
        self._stays = True
        try:
            yield
        finally:
            self._stays = False
            signal.signal(_SIGNAL, previous)

    def limited(self, plugin: str, point: str, running: Awaitable[Any]) -> Awaitable[Any]:
        """Waits take no time in simulated time."""
        return running

    def _limit(self, where: _Where) -> float:
        """The limit of a call in seconds; 0.0: not called at all."""
        hung_at = self._hung_at.get(where)
        if hung_at is None or self._clock() - hung_at > _SHORTENED_FOR * self.seconds:
            self._hung_at.pop(where, None)
            return self.seconds
        return 0.0 if self._hung[where] > _MAX_TIMEOUTS_PER_TURN else self.seconds * _SHORTENED

    def _note(self, where: _Where, limit: float) -> None:
        if limit == self.seconds:
            self._hung_at[where], self._hung[where] = self._clock(), 0
        self._hung[where] += 1

    def _watch(self) -> None:
        """Watch until there were no calls for a while. Two concurrent threads do no harm."""
        usual = min(_MOST, max(_LEAST, self.seconds * _SHORTENED / 10))
        idle, main = 0, threading.main_thread().ident or 0
        while self._watched:
            time.sleep(_AGAIN if self._condemned else usual)
            call = self._current
            idle = idle + 1 if call is None else 0
            self._condemned = call if call is not None and self._clock() > call.due else None
            if self._condemned is not None:
                signal.pthread_kill(main, _SIGNAL)
            if idle >= _IDLE_LOOKS:
                self._watched = False
                # A call that started before this saw a thread, and started none.
                self._watched = self._current is not None


def _too_long(where: _Where, seconds: float, place: str = "") -> str:
    plugin, point = where
    text = f'plugin "{plugin}" did not return from {point} within {Duration.of_seconds(seconds)}'
    return f"{text} ({place})" if place else text


def _is_plugins_own(frame: FrameType | None) -> bool:
    """Whether none of our frames is above the innermost guarded call."""
    innermost = frame
    while frame is not None:
        if frame.f_code in _GUARDED:
            return frame is not innermost
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in _OURS and module not in _HARMLESS:
            return False
        frame = frame.f_back
    return False


def _is_debugged(frame: FrameType | None) -> bool:
    """Whether a debugger is above the innermost guarded call."""
    while frame is not None and frame.f_code not in _GUARDED:
        if (frame.f_globals.get("__name__") or "").partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


_GUARDED = frozenset((HangGuard.call.__code__, CallGuard.call.__code__))


class InterruptedCalls:
    """The guard of a replay: calls that hung in the recorded run fail at once, are not made, and need no clock.

    Calls of a step are counted as `HangGuard` counts them.
    """

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
