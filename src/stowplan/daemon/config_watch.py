"""Reload the configuration file when it changes (`--watch-config`).

The file is looked at once a second, by what the kernel says of it: that sees a mounted ConfigMap whose `..data` link is
swapped, a file that is renamed over it, and one that is written in place. It is read when two looks in a row found the
same, so a file that somebody is still writing is left alone; and at once on SIGHUP.

    swapped    it is valid, its profiles could be built, and what they need to know of the cluster is there
    refused    it is not, or it is gone: one line in the log says why, and the one before stays in force

What a process is begun with (its connections, its election, its port) stays as it was: a line names what of it the file
has otherwise, and only a restart changes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stowplan.config import Configuration
from stowplan.klog import get_logger
from stowplan.timing.times import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

    from stowplan.timing.times import Times

#: Seconds between two looks at the file.
INTERVAL = 1.0

SWAPPED, REFUSED = "swapped", "refused"

#: What the process was begun with.
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


@dataclass(frozen=True)
class WatchedFile:
    path: str
    #: Reads it, and has flags change what they may; raises for what is wrong with it. Runs in a thread.
    load: Callable[[], Configuration]


class Reconfigurable(Protocol):
    """`live.scheduler.Scheduler`."""

    @property
    def configuration(self) -> Configuration:
        """The one in force."""

    async def reconfigure(self, configuration: Configuration, /) -> None:
        """Bring another one into force; raise, and change nothing, if that cannot be done."""


class ConfigWatch:
    def __init__(
        self,
        path: str,
        *,
        load: Callable[[], Awaitable[Configuration]],
        scheduler: Reconfigurable,
        count: Callable[[str], None],
        times: Times,
    ) -> None:
        """`load` raises what is wrong with the file; `count` hears SWAPPED and REFUSED."""
        self._path = path
        self._load = load
        self._scheduler = scheduler
        self._count = count
        self._times = times
        self._asked = asyncio.Event()

    def request(self) -> None:
        """Read the file soon, changed or not."""
        self._asked.set()

    async def run(self) -> None:
        """Until cancelled. The first look may find what has changed since the process read the file."""
        known: Any = None
        before: Any = None
        while True:
            found = _looks(self._path)
            asked = self._asked.is_set()
            self._asked.clear()
            if asked or (found != known and found == before):
                known = found
                await self._take_in()
            before = found
            with suppress(TimeoutError):
                await within(INTERVAL, self._asked.wait(), sleep=self._times.sleep)

    async def _take_in(self) -> None:
        now = self._scheduler.configuration
        try:
            wanted = await self._load()
            new, lasting = _without_lasting(wanted, now)
            if new != now:
                await self._scheduler.reconfigure(new)
        except Exception as e:
            # Whatever it is: a file must not end the scheduler.
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


def watching(
    file: WatchedFile, scheduler: Reconfigurable, *, count: Callable[[str], None], times: Times
) -> ConfigWatch:
    """A watch that reads the file in a thread: it may be long, or slow to come."""

    async def load() -> Configuration:
        return await asyncio.to_thread(file.load)

    return ConfigWatch(file.path, load=load, scheduler=scheduler, count=count, times=times)


def _looks(path: str) -> tuple[int, ...]:
    """What changes when the file does, or another one is there."""
    try:
        found = os.stat(path)
    except OSError as e:
        return (e.errno or -1,)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _without_lasting(wanted: Configuration, now: Configuration) -> tuple[Configuration, list[str]]:
    """What of a configuration can come into force, and the names of what it has otherwise and cannot."""
    lasting = {name: getattr(now, name) for name in _LASTING}
    differing = [_NAMES[name] for name, value in lasting.items() if getattr(wanted, name) != value]
    return msgspec.structs.replace(wanted, **lasting), differing


# -- SIGHUP -----------------------------------------------------------------------------------------------------------


def _unheard(number: int, frame: FrameType | None) -> None:
    pass


@contextmanager
def without_hangups() -> Iterator[None]:
    """SIGHUP does nothing while this lasts: who asks for a file to be read before it is watched is early, no more."""
    before = signal.signal(signal.SIGHUP, _unheard)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def on_hangup(watch: ConfigWatch) -> Iterator[None]:
    """SIGHUP has the file read while this lasts; to be entered in the event loop of the main thread."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGHUP)
    loop.add_signal_handler(signal.SIGHUP, watch.request)
    try:
        yield
    finally:
        # The loop would leave it to the kernel, which ends the process.
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)
