"""Reload the configuration file when it changes (`--watch-config`).

The file is checked once a second by its metadata: that detects a mounted ConfigMap whose `..data` link is swapped, a
file that is renamed over it, and one that is written in place. It is read when two successive checks are equal, so that
a file is not read while it is being written; and immediately on SIGHUP.

    swapped    it is valid, its profiles were built, and the kinds that they need have been listed
    refused    it is invalid or missing: one log line says why, and the previous configuration stays in use

Connections, leader election and ports are fixed at startup: a log line lists such settings that the file changes, which
require a restart.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.kube.config import Configuration
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import Times, within

if TYPE_CHECKING:
    from stowplan.drivers.live.scheduler import Scheduler

#: Seconds between checks of the file.
INTERVAL = 1.0

SWAPPED, REFUSED = "swapped", "refused"

#: Settings that are fixed at startup.
_LASTING = (
    "parallelism",
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
)
_NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(Configuration)}

_log = get_logger(__name__)


class WatchedFile(PlainStruct, frozen=True):
    path: str
    #: Reads the file and applies flags; raises if it is invalid. Runs in a thread.
    load: Callable[[], Configuration]


class ConfigWatch:
    def __init__(
        self,
        path: str,
        *,
        load: Callable[[], Awaitable[Configuration]],
        scheduler: Scheduler,
        count: Callable[[str], None],
        times: Times,
    ) -> None:
        """`load` raises if the file is invalid; `count` is called with SWAPPED and REFUSED."""
        self._path = path
        self._load = load
        self._scheduler = scheduler
        self._count = count
        self._times = times
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Read the file soon, even if unchanged."""
        self._requested.set()

    async def run(self) -> None:
        """Run until cancelled. The first check may find changes since the process read the file."""
        known: Any = None
        before: Any = None
        while True:
            found = _looks(self._path)
            requested = self._requested.is_set()
            self._requested.clear()
            if requested or (found != known and found == before):
                known = found
                await self._take_in()
            before = found
            with suppress(TimeoutError):
                await within(INTERVAL, self._requested.wait(), sleep=self._times.sleep)

    async def _take_in(self) -> None:
        now = self._scheduler.configuration
        try:
            wanted = await self._load()
            new, lasting = _without_lasting(wanted, now)
            if new != now:
                await self._scheduler.reconfigure(new)
        except Exception as e:
            # Any exception: a file must not end the scheduler.
            self._count(REFUSED)
            _log.error(e, "Configuration is refused, and the one before stays in force", file=self._path)
            return
        restart = {"onlyAfterRestart": lasting} if lasting else {}
        if new != now:
            self._count(SWAPPED)
            names = [profile.scheduler_name for profile in new.profiles]
            _log.info("Configuration has changed and is in force", file=self._path, profiles=names, **restart)
        elif lasting:
            _log.info("Configuration has changed in what needs a restart", file=self._path, **restart)
        else:
            _log.v(2).info("Configuration is the one in force", file=self._path)


def watching(file: WatchedFile, scheduler: Scheduler, *, count: Callable[[str], None], times: Times) -> ConfigWatch:
    """A watch that reads the file in a thread, because it may be large or slow."""

    async def load() -> Configuration:
        return await asyncio.to_thread(file.load)

    return ConfigWatch(file.path, load=load, scheduler=scheduler, count=count, times=times)


def _looks(path: str) -> tuple[int, ...]:
    """Metadata that changes with the file, or its replacement."""
    try:
        found = os.stat(path)
    except OSError as e:
        return (e.errno or -1,)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _without_lasting(wanted: Configuration, now: Configuration) -> tuple[Configuration, list[str]]:
    """The parts of a configuration that can be applied, and the names of changed settings that cannot."""
    lasting = {name: getattr(now, name) for name in _LASTING}
    differing = [_NAMES[name] for name, value in lasting.items() if getattr(wanted, name) != value]
    return msgspec.structs.replace(wanted, **lasting), differing


# -- SIGHUP -----------------------------------------------------------------------------------------------------------


def _unheard(number: int, frame: FrameType | None) -> None:
    pass


@contextmanager
def without_hangups() -> Iterator[None]:
    """Ignore SIGHUP within the context: a signal before the file is watched would end the process."""
    before = signal.signal(signal.SIGHUP, _unheard)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def on_hangup(watch: ConfigWatch) -> Iterator[None]:
    """Read the file on SIGHUP within the context; to be entered in the event loop of the main thread."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGHUP)
    loop.add_signal_handler(signal.SIGHUP, watch.request)
    try:
        yield
    finally:
        # The loop would restore the default action, which ends the process.
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)
