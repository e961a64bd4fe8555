"""SIGINT and SIGTERM: the first requests an orderly shutdown, the second exits at once.

SIGQUIT ends the process immediately with a stack dump, as in Go: the stacks of all threads and of the event loop's
tasks are written to stderr, and the exit code is 2. Threads are dumped by the signal handler in C, even if the
interpreter hangs; the rest requires a running interpreter.

Handlers are installed before any slow import, and long before there is an event loop: PID 1 of a container ignores
signals that it does not handle, and Ctrl-C during an import should not print a traceback.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
#: A Go process ignores these, while the default action would end the process; some get a meaning later.
_WITHOUT_EFFECT = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def _nothing() -> None:
    pass


def _unheard(number: int, frame: FrameType | None) -> None:
    pass


@contextmanager
def stop_signals(before_the_end: Callable[[], None] = _nothing) -> Iterator[StopSignals]:
    """Within the context, a signal requests an orderly shutdown, and a second one exits.

    `before_the_end` is called before that exit.
    """
    stop = StopSignals(before_the_end)
    try:
        yield stop
    finally:
        stop.restore()


class StopSignals:
    """Counts signals from its creation on, and forwards them to an event loop once there is one."""

    def __init__(self, before_the_end: Callable[[], None] = _nothing) -> None:
        #: Called before the exit on the second signal.
        self.before_the_end = before_the_end
        self.requested = False
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._previous = {number: signal.signal(number, self._received) for number in _SIGNALS}
        # Not SIG_IGN, which child processes would inherit.
        self._previous |= {number: signal.signal(number, _unheard) for number in _WITHOUT_EFFECT}
        self._previous[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, self._quit)
        # Before our handler, which it calls.
        faulthandler.register(signal.SIGQUIT, file=_STDERR, all_threads=True, chain=True)

    def restore(self) -> None:
        faulthandler.unregister(signal.SIGQUIT)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def event(self) -> asyncio.Event:
        """Set by the first signal; to be called within the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._event is None or self._loop is not loop:
            self._loop, self._event = loop, asyncio.Event()
        if self.requested:
            self._event.set()
        return self._event

    def _received(self, number: int, frame: FrameType | None) -> None:
        # Not an event loop handler, because the loop itself may hang. The loop is woken nevertheless, by the
        # interrupted system call or by the wakeup descriptor.
        if self.requested:
            self.before_the_end()
            os._exit(1)
        self.requested = True
        if self._loop is not None and self._event is not None:
            self._loop.call_soon_threadsafe(self._event.set)

    def _quit(self, number: int, frame: FrameType | None) -> None:
        try:
            self.before_the_end()
            if self._loop is not None:
                os.write(_STDERR, _tasks_of(self._loop).encode(errors="replace"))
        finally:
            os._exit(2)


def _tasks_of(loop: asyncio.AbstractEventLoop) -> str:
    from stowplan.net.serving.profiling.stacks import single_text, tasks

    return f"\n{single_text(tasks(loop), ())}"
