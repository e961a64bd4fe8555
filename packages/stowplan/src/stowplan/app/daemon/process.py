"""A scheduler process: configuration, API client, scheduler and leader election.

The common part of `kube-scheduler` and `stowplan run`, which differ in their options and output. `life_cycle` starts
and stops the parts.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import field

from stowplan import __version__
from stowplan.app.command_line.event_loop import run_in_background
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.kube.api.port import Api
from stowplan.kube.config import Configuration, FeatureGates
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    import asyncio

    from stowplan.app.daemon.config_watch import WatchedFile
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.kube.config import ClientConnection, LeaderElection
    from stowplan.kube.metrics.client_metrics import ClientMetrics
    from stowplan.kube.metrics.component import ComponentMetrics
    from stowplan.net.client.connection import Connection
    from stowplan.net.client.election.leader_election import LeaderElector
    from stowplan.net.client.http.lanes import Lanes
    from stowplan.scheduler.engine.input_log.input_recorder import Recorder
    from stowplan.scheduler.engine.schedule_one import AttemptTracer
    from stowplan.scheduler.framework.runtime.registry import Registry

#: Timeout in seconds for events of the election after everything else has ended.
_EVENTS_FLUSH_TIMEOUT = 1.0

_log = get_logger(__name__)


class Job(PlainStruct, frozen=True, kw_only=True):
    """What to schedule, and how."""

    connection: Connection
    config: Configuration
    registry: Registry
    features: FeatureGates
    #: Seconds.
    max_in_unschedulable: float
    #: For the User-Agent.
    command: str
    #: None: no metrics.
    metrics: ComponentMetrics | None = None
    #: As in "1.36.0", for coordinated election: the binary version and the emulated one.
    binary_version: str = "1.36.0"
    emulated_version: str = "1.36.0"
    #: The guard of the registry's user plugins.
    guard: HangGuard = field(default_factory=HangGuard)
    #: None: no traces.
    tracer: AttemptTracer | None = None
    #: None: no recording.
    recorder: Recorder | None = None
    #: Whether other pods are tried while one waits for an extender.
    overlaps: bool = False
    #: None: the configuration does not change.
    watched: WatchedFile | None = None
    #: For debugging: exit with an error if an invariant of the engine is violated.
    validate: bool = False


class Election(NamedTuple):
    elector: LeaderElector
    #: Set once the server knows this process as a candidate; None without coordinated election.
    candidate_synced: asyncio.Event | None
    #: See `HttpApi`.
    give_up_waiting: Callable[[], None]


class ConnectedCluster(NamedTuple):
    """A connected cluster, and the parts that will work on it."""

    api: Api
    new_scheduler: Callable[[], Scheduler]
    #: None without leader election.
    election: Election | None = None
    #: The client-side rate limiter.
    lanes: Lanes | None = None


#: Connects to the cluster of a job. Replaced in tests.
ClusterConnector: TypeAlias = Callable[[Job], AbstractAsyncContextManager[ConnectedCluster]]


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[ConnectedCluster]:
    """Connect over HTTP; no requests are sent yet, except for an election's candidate."""
    # The HTTP client is slow to import, and not needed for an invalid command line.
    from stowplan.drivers.live.scheduler import Scheduler, SchedulerSettings
    from stowplan.kube.api.documents import Documents
    from stowplan.net.client.http_api import HttpApi
    from stowplan.scheduler.extenders.calls import kinds_wanted

    async with AsyncExitStack() as stack:
        stack.enter_context(job.guard.watching())
        election = None
        if job.config.leader_election.leader_elect:
            coordinated = job.features.enabled("CoordinatedLeaderElection")
            election = await stack.enter_async_context(
                opened_election(
                    job.connection,
                    job.config.leader_election,
                    client_settings=job.config.client_connection,
                    agent=_agent(job, "leader-election"),
                    source=job.config.profiles[0].scheduler_name,
                    metrics=None if job.metrics is None else job.metrics.client,
                    versions=(job.binary_version, job.emulated_version) if coordinated else None,
                )
            )
        elector = None if election is None else election.elector
        may_change = None if elector is None else lambda: elector.is_leader
        documents = Documents(kinds_wanted(job.config))
        api = await stack.enter_async_context(
            HttpApi.open(
                job.connection,
                client_settings=job.config.client_connection,
                agent=_agent(job, "scheduler"),
                metrics=None if job.metrics is None else job.metrics.client,
                may_change=may_change,
                documents=documents,
            )
        )
        settings = SchedulerSettings(
            max_in_unschedulable=job.max_in_unschedulable,
            hostname=socket.gethostname(),
            overlaps=job.overlaps,
            agent=_agent(job, "extender"),
            validate=job.validate,
        )

        def give_up_waiting() -> None:
            api.give_up_waiting()
            if election is not None:
                election.give_up_waiting()

        yield ConnectedCluster(
            api,
            lambda: Scheduler(
                api,
                job.config,
                registry=job.registry,
                settings=settings,
                features=job.features,
                give_up_waiting=give_up_waiting,
                metrics=None if job.metrics is None else job.metrics.scheduler,
                recorder=job.recorder,
                tracer=job.tracer,
                documents=documents,
                may_change=may_change,
            ),
            election,
            api.lanes,
        )


def _agent(job: Job, purpose: str) -> str:
    from stowplan.net.client.http.user_agent import user_agent

    return user_agent(command=job.command, version=__version__, purpose=purpose)


@asynccontextmanager
async def opened_election(
    connection: Connection,
    settings: LeaderElection,
    *,
    client_settings: ClientConnection,
    agent: str,
    source: str,
    metrics: ClientMetrics | None = None,
    versions: tuple[str, str] | None = None,
) -> AsyncIterator[Election]:
    """An elector with a client of its own, so that its requests do not queue behind others and time out early.

    `source` is the reporter of its events; `versions` are the binary's and the emulated one, for coordinated election.
    """
    from stowplan.kube.timing.times import REAL_TIMES
    from stowplan.net.client.election.leader_election import LeaderElector, request_timeout
    from stowplan.net.client.election.lease_candidate import LeaseCandidates
    from stowplan.net.client.events.event_forms import CoreV1
    from stowplan.net.client.events.event_recorder import EventBroadcaster
    from stowplan.net.client.http.transport import Limits
    from stowplan.net.client.http_api import HttpApi

    hostname = socket.gethostname()
    identity = f"{hostname}_{uuid.uuid4()}"
    seconds = request_timeout(settings)
    limits = Limits(connect=seconds, silence=seconds, total=seconds, trying=seconds)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(
            HttpApi.open(connection, client_settings=client_settings, agent=agent, limits=limits, metrics=metrics)
        )
        # Upstream's events of elections use the old API version on every cluster.
        events = EventBroadcaster(api, hostname=hostname, times=REAL_TIMES, report=_log.warning, form=CoreV1())
        stack.push_async_callback(events.flush, _EVENTS_FLUSH_TIMEOUT)
        await stack.enter_async_context(run_in_background(events.run()))
        elector = LeaderElector(
            api,
            settings,
            identity=identity,
            times=REAL_TIMES,
            recorder=events.recorder(source),
            metrics=metrics,
            coordinated=versions is not None,
        )
        candidates = None
        if versions is not None:
            candidates = LeaseCandidates(
                api, identity=identity, binary_version=versions[0], emulation_version=versions[1], times=REAL_TIMES
            )
            await stack.enter_async_context(run_in_background(candidates.run()))
        yield Election(elector, None if candidates is None else candidates.synced, api.give_up_waiting)
