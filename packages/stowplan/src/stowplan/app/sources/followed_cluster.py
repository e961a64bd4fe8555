"""A live cluster for a server that answers questions: listed once, then followed.

The cluster is the one that questions are asked about, not a copy. They run between two changes, in transactions, so
that it stays what was read. While the API server does not answer, the last state does, and notes say how old it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import running
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.loading.event_query import EventQuery
from stowplan.ask.loading.live_cluster import (
    LiveCluster,
    LiveClusterError,
    read_live_cluster,
    read_version,
)
from stowplan.ask.loading.workloads import WorkloadName
from stowplan.ask.offline import Cluster
from stowplan.drivers.live.informers import Informers
from stowplan.drivers.live.measuring import Measuring
from stowplan.history.recordings.recording_files import moment_text
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import ClientConnection
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.engine.watched_kinds import measured_sources
from stowplan.scheduler.framework.explanations.formatting import listed
from stowplan.scheduler.framework.runtime.framework import Framework

#: Seconds for which a question waits for the first lists, and for what is stale.
_PATIENCE, _MOMENT = 30.0, 0.5
#: Seconds between attempts to reach the server.
_AGAIN = 5.0
_NEEDED = tuple(str(resource_of(kind)) for kind in (Node, Pod))

_log = get_logger(__name__)


class Reads(PlainStruct, frozen=True):
    """What a question reads of a live cluster beside what the scheduler reads."""

    events: EventQuery | None = None
    workloads: Collection[WorkloadName] = ()
    quotas: bool = False

    @property
    def any(self) -> bool:
        return bool(self.events or self.workloads or self.quotas)


class FollowedCluster:
    def __init__(
        self,
        live: ClusterFlags,
        make: Callable[[KubernetesVersion], Cluster],
        *,
        version: KubernetesVersion | None,
        agent: str,
        times: Times = REAL_TIMES,
    ) -> None:
        """`make`: an empty cluster whose scheduler decides as this version; `version` of None: the server's."""
        #: Seconds for which a question waits for the first lists; None: forever.
        self.patience: float | None = _PATIENCE
        self._live, self._make, self._version, self._agent, self._times = live, make, version, agent, times
        self.connection = live.connect()
        self._cluster: Cluster | None = None
        self._kinds: Sequence[WatchedKind] = ()
        self._informers: Informers | None = None
        #: Notes of the first read, and why there was none.
        self._notes: list[str] = []
        self._unread = ""
        #: When it began to fail.
        self._failing_since = 0.0
        #: When a question may list again what is stale.
        self._next_list = 0.0
        #: Set when there may be more to say.
        self._news = asyncio.Event()

    # -- following ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow until cancelled; what fails is tried again."""
        while True:
            try:
                await self._follow()
            except LiveClusterError as error:
                self._unread = str(error)
                self._report(self._unread)
            await self._times.sleep(_AGAIN)

    async def _follow(self) -> None:
        version, self._notes = self._version, []
        if version is None:
            version, said = await read_version(self._live, agent=self._agent)
            self._notes += [said] if said else []
        cluster = self._make(version)
        self._kinds = cluster.kinds_read(report=self._notes.append)
        async with HttpApi.open(
            self.connection,
            client_settings=ClientConnection(qps=-1),
            agent=self._agent,
            documents=cluster.documents,
        ) as api:
            informers = Informers(api, kinds=self._kinds, receiver=self, times=self._times, report=self._report)
            measuring = Measuring(api, deliver=self.handle, times=self._times, report=self._report)
            measuring.adopt(measured_sources(cluster.algorithm.frameworks.values()))
            self._cluster, self._informers = cluster, informers
            async with running(measuring.run()), running(self._tell_when_synced(informers)):
                await informers.run()

    async def _tell_when_synced(self, informers: Informers) -> None:
        await informers.synced.wait()
        self._news.set()

    def _report(self, problem: str) -> None:
        if self._informers is None or not self._informers.stale:
            self._failing_since = self._times.wall_clock()
        self._news.set()
        _log.warning(problem)

    def handle(self, kind: type[ApiStruct], changes: Sequence[Change[Any]]) -> None:
        assert self._cluster is not None, "it is set before anything is followed"
        for change in changes:
            if change.new is not None:
                self._cluster.add(change.new)
            elif change.old is not None:
                self._cluster.remove(change.old)
        self._news.set()

    def switch_off(self, plugins: frozenset[str]) -> None:
        for framework in self._frameworks():
            framework.switch_off(plugins)

    def switch_on(self, plugins: frozenset[str]) -> None:
        for framework in self._frameworks():
            framework.switch_on(plugins)

    def _frameworks(self) -> Collection[Framework]:
        return () if self._cluster is None else self._cluster.algorithm.frameworks.values()

    # -- questions ----------------------------------------------------------------------------------------------------

    async def about(self, reads: Reads) -> ClusterSource:
        """The cluster as it is now, or was last; raises InputError if it was never read."""
        informers = await self._listed()
        await self._catch_up(informers)
        assert self._cluster is not None, "what has been listed has a cluster"
        read = LiveCluster(self.connection.namespace)
        stale = next(iter(informers.stale.values()), None)
        if reads.any and stale is None:
            try:
                read = await read_live_cluster(
                    (),
                    self._live,
                    agent=self._agent,
                    events=reads.events,
                    workloads=reads.workloads,
                    quotas=reads.quotas,
                )
            except LiveClusterError as error:
                read.notes.append(f"not read for this answer: Events, workloads and quotas: {error}")
        read.unserved = [watched for watched in self._kinds if watched.kind in informers.missing]
        read.notes[:0] = [*self._notes, *_never_listed(informers)]
        if stale is not None:
            since = self._failing_since
            age = f"{self._times.wall_clock() - since:.0f} s ago"
            read.notes.insert(0, f"as of {moment_text(since)}, {age}: since then, {stale}; it is tried again")
        return ClusterSource.of_read(self._cluster, read)

    async def _catch_up(self, informers: Informers) -> None:
        """List what is stale, now and then: a question does not wait for the growing delays between attempts."""
        if not informers.stale or self._times.clock() < self._next_list:
            return
        self._next_list = self._times.clock() + _AGAIN
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOMENT):
                await informers.relist([*informers.stale])

    async def _listed(self) -> Informers:
        """Wait until everything has been listed, or cannot be; raises InputError without nodes and pods."""
        try:
            async with asyncio.timeout(self.patience):
                while not self._is_settled():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        informers = self._informers
        if informers is None:
            raise InputError(self._unread or f"the cluster {self.connection.server} has not answered yet; ask again")
        unread = {resource: why for resource, why in informers.awaited.items() if resource in _NEEDED}
        if unread:
            why = next(iter(unread.values()))
            told = (
                f"cannot be listed: {why}; `stowplan mcp --rbac` prints a role for it"
                if why
                else "are still being listed; ask again"
            )
            raise InputError(f"{listed(list(unread))} {told}")
        return informers

    def _is_settled(self) -> bool:
        if self._informers is None:
            return bool(self._unread)
        return all(self._informers.awaited.values())


def _never_listed(informers: Informers) -> list[str]:
    unread = informers.awaited
    if not unread:
        return []
    why = next(filter(None, unread.values()), "it is being listed")
    return [f"not read, judged as if there were none: {listed(list(unread), 20)}: {why}"]
