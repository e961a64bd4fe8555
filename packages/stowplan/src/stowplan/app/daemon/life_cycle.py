"""Life cycle of a process that schedules, or runs controllers: sync, lead, work, shut down.

    informers                     from the start, unless delayCacheUntilActive
    election                      after their initial lists; a standby has the cluster's state available
    scheduling                    while this process leads
    shutdown on request           wait for sent binds while still renewing the lease; drop waiting binds;
                                  release the lease; send remaining statuses and events
    lease lost                    send nothing that changes the cluster: another process may lead by now

Upstream: Run in cmd/kube-scheduler/app/server.go, which does not wait for binds.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.app.command_line.event_loop import first_of, running
from stowplan.kube.klog import get_logger

if TYPE_CHECKING:
    from stowplan.net.client.election.leader_election import LeaderElector

_log = get_logger(__name__)


class Service(Protocol):
    """The live scheduler, or a runner of controllers."""

    @property
    def synced(self) -> asyncio.Event:
        """Set when the informers have delivered the initial lists."""
        ...

    @property
    def ready(self) -> asyncio.Event:
        """Set when it works, not only follows."""
        ...

    def run(self, *, lead: asyncio.Event | None = None) -> Coroutine[Any, Any, None]:
        """Follow the cluster until cancelled, and work once `lead` is set; None: immediately."""
        ...

    async def drain(self) -> None:
        """Finish what has begun, and begin nothing."""

    async def halt(self) -> None:
        """Send nothing any more: another process may lead."""


async def until_stopped(
    scheduler: Service,
    stopped: asyncio.Event,
    *,
    on_ready: Callable[[], None],
    lead: asyncio.Event | None = None,
) -> None:
    """Schedule until a signal arrives; exceptions that end it early propagate."""
    if lead is not None:
        lead.set()
    async with running(scheduler.run(lead=lead)) as scheduling:
        await first_of(stopped.wait(), scheduler.ready.wait(), scheduling)
        if not stopped.is_set():
            _settled(on_ready)
            await first_of(stopped.wait(), scheduling)


async def while_leading(
    scheduler: Service,
    elector: LeaderElector,
    stopped: asyncio.Event,
    *,
    lead: asyncio.Event,
    delayed: bool,
    on_ready: Callable[[], None],
) -> bool:
    """Schedule with leader election; return whether it ended on request, not because the lease was lost.

    `lead` is set when this process leads; `delayed`: informers start only then.
    """
    async with AsyncExitStack() as stack:
        scheduling: asyncio.Task[None] | None = None
        if not delayed:
            scheduling = await stack.enter_async_context(running(scheduler.run(lead=lead)))
            await first_of(stopped.wait(), scheduler.synced.wait(), scheduling)
            if stopped.is_set():
                return True
            _settled(on_ready)
        try:
            if not await _elected(elector, stopped, scheduling):
                return True
            async with running(elector.renew()) as renewing:
                if scheduling is None:
                    _log.info("Starting informers and waiting for sync...")
                    scheduling = await stack.enter_async_context(running(scheduler.run(lead=lead)))
                return await _lead(scheduler, scheduling, renewing, stopped, lead=lead, on_ready=on_ready)
        finally:
            await elector.release()


async def _elected(elector: LeaderElector, stopped: asyncio.Event, scheduling: asyncio.Task[None] | None) -> bool:
    async with running(elector.acquire()) as acquiring:
        await first_of(stopped.wait(), acquiring, *(() if scheduling is None else (scheduling,)))
    return not stopped.is_set()


async def _lead(
    scheduler: Service,
    scheduling: asyncio.Task[None],
    renewing: asyncio.Task[None],
    stopped: asyncio.Event,
    *,
    lead: asyncio.Event,
    on_ready: Callable[[], None],
) -> bool:
    """Schedule while the lease is renewed; shut down in order, or immediately if it is lost."""
    from stowplan.net.client.election.leader_election import LeadershipLost

    lead.set()
    try:
        if not scheduler.synced.is_set():
            await first_of(stopped.wait(), scheduler.synced.wait(), scheduling, renewing)
            if scheduler.synced.is_set():
                _settled(on_ready)
                _log.info("Sync completed")
        await first_of(stopped.wait(), scheduling, renewing)
        async with running(scheduler.drain()) as draining:
            await first_of(draining, renewing)
    except LeadershipLost:
        await scheduler.halt()
        return stopped.is_set()
    return True


def _settled(on_ready: Callable[[], None]) -> None:
    # Existing objects are permanent: exempt them from garbage collection.
    gc.freeze()
    on_ready()


async def flushing(flush: Callable[[], None], seconds: float) -> None:
    """Periodically flush buffered log lines."""
    while True:
        await asyncio.sleep(seconds)
        with suppress(OSError):
            flush()
