"""A scheduler as a process: from a configuration to pods on nodes, until a signal comes.

`kube-scheduler` and `stowplan run` differ in how they are told what to do and in what they tell; this is the rest.
"""

from __future__ import annotations

import gc
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stowplan import __version__
from stowplan.cli.event_loop import first_of, running

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from stowplan.api.types import Pod
    from stowplan.client.api import Api
    from stowplan.client.connection import Connection
    from stowplan.cluster.state import ClusterState
    from stowplan.config import Configuration, FeatureGates
    from stowplan.framework.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be scheduled, and how."""

    connection: Connection
    config: Configuration
    registry: Registry
    features: FeatureGates
    #: Seconds.
    max_in_unschedulable: float
    #: As requests name it.
    command: str


class Queue(Protocol):
    def counts(self) -> Mapping[str, int]: ...


class AtWork(Protocol):
    """What a command needs of a scheduler: `scheduler.live.LiveScheduler`."""

    ready: asyncio.Event
    #: "namespace/name" -> each pod of its own without a node.
    unassigned: dict[str, Pod]

    @property
    def state(self) -> ClusterState: ...

    @property
    def queue(self) -> Queue: ...

    @property
    def frameworks(self) -> Collection[str]: ...

    def run(self) -> Coroutine[Any, Any, None]: ...


class Opener(Protocol):
    """Reaches the cluster of a job: its API, and how to make the scheduler. Tests have their own."""

    def __call__(self, job: Job, /) -> AbstractAsyncContextManager[tuple[Api, Callable[[], AtWork]]]: ...


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[tuple[Api, Callable[[], AtWork]]]:
    """Over HTTP; nothing is asked of the server yet."""
    # What talks HTTP takes a while to import, and is of no use to a command line that is wrong.
    from stowplan.client.http_api import HttpApi
    from stowplan.client.user_agent import user_agent
    from stowplan.scheduler.live import LiveScheduler, LiveSettings

    agent = user_agent(command=job.command, version=__version__, purpose="scheduler")
    settings = LiveSettings(max_in_unschedulable=job.max_in_unschedulable, hostname=socket.gethostname())
    async with HttpApi.open(job.connection, client_settings=job.config.client_connection, agent=agent) as api:
        yield (
            api,
            lambda: LiveScheduler(api, job.config, registry=job.registry, settings=settings, features=job.features),
        )


async def until_stopped(scheduler: AtWork, stopped: asyncio.Event, *, on_ready: Callable[[], None]) -> None:
    """Let it schedule until a signal comes; what makes it end by itself is raised."""
    async with running(scheduler.run()) as scheduling:
        await first_of(stopped.wait(), scheduler.ready.wait(), scheduling)
        if not stopped.is_set():
            # What there is now will stay: the collector need not look at it again.
            gc.freeze()
            on_ready()
            await first_of(stopped.wait(), scheduling)
