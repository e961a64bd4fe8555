"""Interrupt a plugin call that does not return, failing only that pod's attempt.

One event loop does all the work, so a plugin that loops for ever, sleeps or waits for a lock would be the end of all of
it: no pod scheduled, no lease renewed, no health check answered. A thread watches how long the call goes on that is
under way, and when a plugin has taken more than its share of a turn of the event loop, sends the main thread a signal.
Signals interrupt what blocks (sleeping, locks, sockets), and their handler runs in the main thread, on top of whatever
it is doing; there it raises an exception that ends the call. To the framework it is a plugin that raised.

The handler raises only while everything above the guarded call is the plugin's own code, or a library's. Where the
plugin has called back into the scheduler, whose state must not be left half changed, it waits for a better moment.
In one turn of the event loop a plugin may be asked about hundreds of pods, and all its calls at an extension point
share the limit: once that is used up, a call gets no more than a moment, and where many had to be broken off the
plugin is not asked any more until the loop has turned. So pods that it does not hang for have their answer, and the
loop does turn.

What waits in an asynchronous way (PreBind, Bind, PostBind) keeps nobody else waiting, but its pod: it has a limit of
its own, which is generous. Between two waits it is guarded like any other call.

Where no event loop turns (`Cluster`, `explain`, `live_testing`), `CallGuard` does the same for each call by itself: the
thread is there only while calls are made. A plugin that hung gets less time for a while, so that thousands of pods
that it hangs for do not cost thousands of limits.

Somebody who debugs a plugin is not broken off: the limit begins anew as long as the debugger has the floor.

What cannot be interrupted is code in C that neither returns nor looks for signals. The log says so, if that code lets
other threads run; health checks fail then, and whoever looks after the process restarts it.

It costs nothing but where it is needed: only plugins that are not in-tree are wrapped, and without any there is no
thread. A guarded call costs a microsecond.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
import traceback
import types
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stowplan.api.durations import Duration
from stowplan.engine.input_log.recording import BrokenOff
from stowplan.framework.status import place_of
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
    from types import FrameType

#: Seconds: less than a leader has to renew its lease, so that a plugin does not cost the lead.
PLUGIN_TIMEOUT = 5.0
#: Volumes may take ten minutes to be provisioned, and that is in-tree.
BINDING_TIMEOUT = 15 * 60.0

#: Does nothing where nobody handles it; Go's runtime uses it to the same end.
_SIGNAL = signal.SIGURG
#: What a call has where the others of its turn have used up the limit: this part of it, or that many seconds.
_MOMENT, _LEAST_MOMENT = 0.01, 0.02
#: Calls that are broken off in a turn before the plugin is not asked any more.
_MAX_TIMEOUTS_PER_TURN = 16
#: Seconds between two looks while something is overdue; and before, the most and the least of them.
_AGAIN, _MOST, _LEAST = 0.01, 0.25, 0.01
#: Frames that a complaint names, the innermost ones.
_SHOWN = 5
#: Code that must not be broken off half-way, nor can be: what the collector's callbacks raise is swallowed. What is
#: pure loops around plugins' own code is none of it.
_OURS = frozenset(("stowplan", "stowplan_cluster", "asyncio", "uvloop", "aiohttp", "weakref", "_weakrefset"))
_HARMLESS = frozenset(("stowplan.framework.interface",))
#: Whoever is in one of these looks at a plugin, which is to wait for that.
_DEBUGGERS = frozenset(("bdb", "pdb", "pydevd", "_pydevd_bundle", "_pydevd_sys_monitoring", "debugpy"))
#: Without an event loop: the share of the limit that a plugin gets after it hung, and for how many limits.
_SHORTENED, _SHORTENED_FOR = 0.1, 10
#: Looks without any call after which the thread of a `CallGuard` ends.
_IDLE_LOOKS = 4

_log = get_logger(__name__)


class PluginTimeoutError(Exception):
    """A plugin took too long; says which, where and how long."""


class _BrokenOff(BaseException):
    """What ends a plugin's call. Not an Exception: plugins catch those, and go on."""


#: Plugin and extension point.
_Where = tuple[str, str]


@dataclass(slots=True, eq=False)
class _Call:
    where: _Where
    began: float
    #: When it is to be broken off.
    due: float
    complained: bool = False


class _Interrupting(ABC):
    """The call that is under way, and its end by a signal."""

    def __init__(self, *, seconds: float, clock: Callable[[], float]) -> None:
        #: 0: as long as it takes.
        self.seconds = seconds
        #: (plugin, point) of what is called through it, be it broken off or not.
        self.guarded: set[_Where] = set()
        #: Set by whoever wraps plugins: without any there is nothing to watch.
        self.in_use = False
        self._clock = clock
        self._current: _Call | None = None
        #: The call that the thread wants to have broken off.
        self._condemned: _Call | None = None

    @abstractmethod
    def call(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """Call a plugin; raise PluginTimeoutError if it is broken off."""

    @types.coroutine
    def _awaited(self, plugin: str, point: str, awaited: Awaitable[Any]) -> Generator[Any, Any, Any]:
        return (yield from stepwise(self.call, plugin, point, awaited.__await__()))

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        call = self._condemned
        if call is None or call is not self._current:
            return
        if _is_debugged(frame):
            call.due = self._clock() + self.seconds
        elif _is_plugins_own(frame):
            raise _BrokenOff


class HangGuard(_Interrupting):
    """Calls plugins; `watching` breaks off calls that take too long. All but `_watch` runs in the main thread.

    For an event loop, whose turns limit what a plugin may take; `CallGuard` is for what has none.
    """

    def __init__(
        self,
        *,
        seconds: float = PLUGIN_TIMEOUT,
        binding_seconds: float = BINDING_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: of each plugin in a turn of the event loop."""
        super().__init__(seconds=seconds, clock=clock)
        #: Of each PreBind, Bind and PostBind of a plugin; 0: as long as it takes.
        self.binding_seconds = binding_seconds
        #: (plugin, point) -> calls that were broken off.
        self.broken_off: Counter[_Where] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main = 0
        #: Seconds in this turn, and calls that were broken off in it.
        self._spent: dict[_Where, float] = {}
        self._broken_off_now: Counter[_Where] = Counter()
        self._turn_noted = False
        #: Calls in the present step of the engine, and those of them that were broken off.
        self._calls_in_step = 0
        self.broken_off_in_step: list[BrokenOff] = []
        self._stopped = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Break off what hangs, while this lasts; to be entered in the event loop of the main thread."""
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

    def call(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """Call a plugin; raise PluginTimeoutError when it was broken off, or was in this turn already."""
        if self._loop is None or threading.get_ident() != self._main:
            return function(*args, **keys)
        where = plugin, point
        self._calls_in_step += 1
        number = self._calls_in_step
        if self._broken_off_now and self._broken_off_now[where] >= _MAX_TIMEOUTS_PER_TURN:
            raise self._broken_off_in_step(where, number)
        outer, started, spent = self._current, self._clock(), self._spent.get(where, 0.0)
        self._note_turn()
        moment = max(self.seconds * _MOMENT, _LEAST_MOMENT)
        self._current = _Call(where, started, started + max(self.seconds - spent, moment))
        try:
            return function(*args, **keys)
        except _BrokenOff as broken_off:
            self._broken_off_now[where] += 1
            self.broken_off[where] += 1
            # With its traceback: that is where the plugin hung.
            raise self._broken_off_in_step(where, number, place_of(broken_off)) from broken_off
        finally:
            self._current = outer
            took = self._clock() - started
            self._spent[where] = spent + took
            if outer is not None:
                outer.due += took

    def begin_step(self) -> None:
        """Reset the call counter at the start of an engine step."""
        self._calls_in_step = 0
        self.broken_off_in_step = []

    async def wait(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """The same for what is asynchronous: bounded as a whole, and guarded between its waits."""
        limit = self.binding_seconds or None
        awaited = self.call(plugin, point, function, args, keys)
        try:
            async with asyncio.timeout(limit) as bound:
                return await self._awaited(plugin, point, awaited)
        except TimeoutError:
            if not bound.expired():
                raise
            self.broken_off[plugin, point] += 1
            text = f'plugin "{plugin}" did not finish {point} within {Duration.of_seconds(limit or 0.0)}'
            raise PluginTimeoutError(text) from None

    def _broken_off_in_step(self, where: _Where, number: int, place: str = "") -> PluginTimeoutError:
        """What the framework is told of a call, and a recording; calls within that one are as good as never made."""
        why = _too_long(where, self.seconds, place)
        self._calls_in_step = number
        self.broken_off_in_step = [call for call in self.broken_off_in_step if call.number < number]
        self.broken_off_in_step.append(BrokenOff(number, why))
        return PluginTimeoutError(why)

    def _note_turn(self) -> None:
        """Reset all plugins' time when the event loop has turned."""
        if not self._turn_noted and self._loop is not None:
            self._turn_noted = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self._turn_noted = False
        self._spent.clear()
        self._broken_off_now.clear()

    # -- the thread, and what it brings about -------------------------------------------------------------------------

    def _watch(self) -> None:
        usual = min(_MOST, max(_LEAST, self.seconds / 10))
        while not self._stopped.wait(_AGAIN if self._condemned or self._broken_off_now else usual):
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
        """Say that signals do not help."""
        frames = traceback.extract_stack(sys._current_frames().get(self._main), limit=_SHOWN)
        _log.error(
            None,
            "a plugin hangs and cannot be interrupted; nothing else happens meanwhile",
            plugin=call.where[0],
            extensionPoint=call.where[1],
            where=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)],
        )


class CallGuard(_Interrupting):
    """The same for calls that are made outside of any event loop, in the main thread: each is limited by itself.

    In other threads, which signals do not reach, plugins are called as they are.
    """

    def __init__(self, *, seconds: float = PLUGIN_TIMEOUT, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: of each call."""
        super().__init__(seconds=seconds, clock=clock)
        #: Whether a thread watches the calls.
        self._watched = False
        #: Whether the handler stays in from one call to the next.
        self._stays = False
        #: When a plugin hung for the whole limit, and how often it hung since.
        self._hung_at: dict[_Where, float] = {}
        self._hung: Counter[_Where] = Counter()

    def call(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """Call a plugin; raise PluginTimeoutError when it was broken off, or was too often already."""
        if not self.seconds or threading.get_ident() != threading.main_thread().ident:
            return function(*args, **keys)
        where = plugin, point
        limit = self._limit(where)
        if not limit:
            raise PluginTimeoutError(f"{_too_long(where, self.seconds)} for other pods, and is left alone for now")
        outer, started = self._current, self._clock()
        # Nobody else's handler is taken away for longer than a call, or than what a `series` is for.
        takes_over = outer is None and not self._stays
        previous = signal.signal(_SIGNAL, self._interrupted) if takes_over else None
        self._current = _Call(where, started, started + limit)
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, name="plugin calls", daemon=True).start()
        try:
            return function(*args, **keys)
        except _BrokenOff as broken_off:
            self._note(where, limit)
            raise PluginTimeoutError(_too_long(where, limit, place_of(broken_off))) from broken_off
        finally:
            self._current = outer
            if outer is not None:
                outer.due += self._clock() - started
            if takes_over:
                signal.signal(_SIGNAL, previous)

    @contextmanager
    def series(self) -> Iterator[None]:
        """Let the calls within share one handler: to put it in and out costs more than most calls do."""
        main = threading.get_ident() == threading.main_thread().ident
        if self._stays or not (self.in_use and self.seconds and main):
            yield
            return
        previous = signal.signal(_SIGNAL, self._interrupted)
        self._stays = True
        try:
            yield
        finally:
            self._stays = False
            signal.signal(_SIGNAL, previous)

    async def wait(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any]
    ) -> Any:
        """The same for what is asynchronous, between its waits: in simulated time these take none."""
        return await self._awaited(plugin, point, self.call(plugin, point, function, args, keys))

    def _limit(self, where: _Where) -> float:
        """Seconds for a call; 0.0 for none at all."""
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
        """Until nothing has been called for a while. Should two threads watch for a moment, both see the same."""
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
                # A call that began before that has seen a thread, and started none.
                self._watched = self._current is not None


def _too_long(where: _Where, seconds: float, place: str = "") -> str:
    plugin, point = where
    text = f'plugin "{plugin}" did not return from {point} within {Duration.of_seconds(seconds)}'
    return f"{text} ({place})" if place else text


def stepwise(
    call: Callable[..., Any], plugin: str, point: str, steps: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """As `yield from` does it, each step a guarded call."""
    resume: Any
    value: Any
    resume, value = steps.send, None
    while True:
        try:
            waits_for = call(plugin, point, resume, (value,), {})
        except StopIteration as end:
            return end.value
        try:
            resume, value = steps.send, (yield waits_for)
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as thrown:
            resume, value = steps.throw, thrown


def _is_plugins_own(frame: FrameType | None) -> bool:
    """Whether nothing of ours runs above the innermost guarded call."""
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
    """Whether a debugger runs above the innermost guarded call."""
    while frame is not None and frame.f_code not in _GUARDED:
        if (frame.f_globals.get("__name__") or "").partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


_GUARDED = frozenset((HangGuard.call.__code__, CallGuard.call.__code__))
