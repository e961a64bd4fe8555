"""Read the objects of a live cluster once, with GET requests only.

Kinds that the cluster does not serve, or does not allow us to read, are skipped with a note, except for nodes and pods,
which are required. Sources of measured data are asked once; one that does not answer soon is a note.

Imported on use: the HTTP client is slow to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import field

from stowplan.ask.loading.workloads import QUOTA_RESOURCE, WORKLOAD_RESOURCES, WorkloadName
from stowplan.drivers.live.measuring import measured_now
from stowplan.kube.api.api_errors import ApiError, Expired, Forbidden, NotFound, Unauthorized
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Api, Listing, Unreachable
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import Event, Node, Pod
from stowplan.kube.config import ClientConnection
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, ClusterVersion, version_for
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.client_errors import unreachable_message
from stowplan.net.client.connection import ClientConfigError, CredentialsError
from stowplan.net.client.http.transport import Limits
from stowplan.net.client.http_api import HttpApi
from stowplan.net.client.list_watch import Undecodable
from stowplan.scheduler.framework.explanations.formatting import listed

if TYPE_CHECKING:
    from stowplan.ask.loading.event_query import EventQuery
    from stowplan.net.client.cluster_flags import ClusterFlags
    from stowplan.scheduler.engine.watched_kind import WatchedKind

T = TypeVar("T", bound=ApiStruct)
R = TypeVar("R")

_NEEDED = (Node, Pod)
_PAGE = 1000
_ROLE = "`stowplan explain --rbac` prints a role for it"
#: Maximum number of unreadable objects that are listed.
_NAMED = 3
#: A user is waiting: fail soon if the server is unreachable.
_LIMITS = Limits(connect=5.0, silence=30.0, tries=3, connection_tries=1, trying=15.0)


class LiveClusterError(ValueError):
    """The cluster cannot be read; says why."""

    #: Whether no cluster or user is configured.
    nothing_named = False


class LiveCluster(PlainStruct):
    """The result."""

    #: The namespace of a bare pod name.
    namespace: str
    objects: list[ApiStruct] = field(default_factory=list)
    #: Notes for the user about what is missing.
    notes: list[str] = field(default_factory=list)
    #: Kinds that the cluster does not serve.
    unserved: list[WatchedKind] = field(default_factory=list)
    #: Events about the requested pods; None if not requested or not readable.
    events: list[Event] | None = None
    #: The requested workloads by kind, namespace and name, as decoded JSON; None: it does not exist.
    workloads: dict[WorkloadName, dict[str, Any] | None] = field(default_factory=dict)
    #: The ResourceQuotas, if requested and readable, as decoded JSON.
    quotas: list[dict[str, Any]] = field(default_factory=list)


async def read_live_cluster(
    kinds: Sequence[WatchedKind],
    live: ClusterFlags,
    *,
    agent: str,
    events: EventQuery | None = None,
    workloads: Collection[WorkloadName] = (),
    quotas: bool = False,
    documents: Documents | None = None,
) -> LiveCluster:
    """Raises LiveClusterError.

    `kinds` may be empty. `workloads`: to read as well; without a namespace, they are in the context's. `quotas`:
    whether to read ResourceQuotas. `documents` stores the original objects, as far as needed; `agent` is the
    User-Agent.
    """
    async with live_api(live, agent=agent, documents=documents) as (api, namespace):
        return await read_from(api, kinds, events=events, workloads=workloads, quotas=quotas, namespace=namespace)


@asynccontextmanager
async def live_api(
    live: ClusterFlags, *, agent: str, documents: Documents | None = None
) -> AsyncIterator[tuple[HttpApi, str]]:
    """The API of a live cluster for a user who waits, and the context's namespace; raises LiveClusterError."""
    try:
        connection = live.connect()
        settings = ClientConnection(qps=-1)
        async with HttpApi.open(
            connection, client_settings=settings, agent=agent, limits=_LIMITS, documents=documents
        ) as api:
            yield api, connection.namespace
    except (ClientConfigError, CredentialsError) as error:
        failed = LiveClusterError(str(error))
        failed.nothing_named = True
        raise failed from error
    except (Unreachable, ApiError) as error:
        raise LiveClusterError(unreachable_message(connection.server, error)) from error


async def version_of(api: HttpApi) -> ClusterVersion:
    """The version to answer as; not every user may ask for the server's. Raises Unauthorized, Unreachable."""
    try:
        found = await api.server_version()
    except Unauthorized:
        raise
    except ApiError as error:
        return ClusterVersion(DEFAULT_VERSION, f"as kube-scheduler {DEFAULT_VERSION}: the cluster's version: {error}")
    return version_for(found)


async def read_version(live: ClusterFlags, *, agent: str) -> ClusterVersion:
    """The same, of the cluster that is selected; raises LiveClusterError."""
    async with live_api(live, agent=agent) as (api, _):
        return await version_of(api)


def version_now(live: ClusterFlags, *, agent: str) -> ClusterVersion:
    """The same for synchronous callers, like `read_now`."""
    return _apart(read_version(live, agent=agent))


def read_now(
    kinds: Sequence[WatchedKind],
    live: ClusterFlags,
    *,
    agent: str,
    documents: Documents | None = None,
    quotas: bool = False,
) -> LiveCluster:
    """Like `read_live_cluster`, for synchronous callers: runs an event loop in another thread.

    A notebook, for example, already has a running event loop.
    """
    return _apart(read_live_cluster(kinds, live, agent=agent, quotas=quotas, documents=documents))


def _apart(reading: Coroutine[Any, Any, R]) -> R:
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, reading).result()


async def read_from(
    api: Api,
    kinds: Sequence[WatchedKind],
    *,
    events: EventQuery | None = None,
    workloads: Collection[WorkloadName] = (),
    quotas: bool = False,
    namespace: str = "default",
) -> LiveCluster:
    """`namespace`: of a bare pod name."""
    found = LiveCluster(namespace)
    reading = _Reading(api, found)
    await reading.everything(kinds, quotas=quotas)
    if events is not None and events.pod:
        pod = events.pod
        await reading.about(pod if "/" in pod else f"{namespace}/{pod}")
    elif events is not None:
        within = namespace if events.namespace == "" else events.namespace or ""
        found.events = await reading.events(within, events.field_selector)
    for kind, within, name in workloads:
        await reading.workload((kind, within or namespace, name))
    return found


class _Reading(PlainStruct):
    api: Api
    found: LiveCluster
    #: Resources that the user may not list.
    forbidden: list[str] = field(default_factory=list)

    async def everything(self, kinds: Sequence[WatchedKind], *, quotas: bool) -> None:
        # Starts with a single request, so that an unreachable server, or failed authentication, is reported once.
        listed_kinds = [watched for watched in kinds if not watched.measured]
        for first in listed_kinds[:1]:
            await self._kind(first)
        reads = [*map(self._kind, listed_kinds[1:]), *([self._quotas()] if quotas else [])]
        results = await asyncio.gather(*reads, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if sources := [source for watched in kinds for source in watched.sources]:
            self.found.objects += await measured_now(
                self.api, sources, times=REAL_TIMES, report=self.found.notes.append
            )
        if self.found.unserved:
            names = listed(sorted(str(resource_of(watched.kind)) for watched in self.found.unserved), 20)
            self.found.notes.append(f"this cluster does not serve {names}")
        if self.forbidden:
            missing = missing_permission(listed(sorted(self.forbidden), 20))
            self.found.notes.append(f"{missing}: judged as if there were none; {_ROLE}")

    async def _kind(self, watched: WatchedKind) -> None:
        kind, resource = watched.kind, str(resource_of(watched.kind))
        try:
            listings = await list_all(self.api, kind, field_selector=watched.field_selector)
        except NotFound:
            if kind in _NEEDED:
                raise
            self.found.unserved.append(watched)
        except Forbidden as error:
            if kind in _NEEDED:
                raise LiveClusterError(f"{missing_permission(resource)} ({error}); {_ROLE}") from error
            self.forbidden.append(resource)
        else:
            self._take(resource, listings)

    async def _quotas(self) -> None:
        resource = custom_resource(QUOTA_RESOURCE)
        try:
            listings = await list_all(self.api, resource)
        except NotFound:
            return
        except Forbidden:
            self.forbidden.append(str(resource_of(resource)))
        else:
            self.found.quotas = [obj.content for listing in listings for obj in listing.items]

    def _take(self, resource: str, listings: Sequence[Listing[Any]]) -> None:
        for listing in listings:
            self.found.objects += listing.items
        bad = [str(Undecodable(resource, bad)) for listing in listings for bad in listing.bad]
        self.found.notes += bad[:_NAMED]
        if len(bad) > _NAMED:
            self.found.notes.append(f"{resource}: {len(bad) - _NAMED} more are left out likewise")

    async def about(self, key: str) -> None:
        """The Events of a pod; and the pod itself if it has finished."""
        pods = (obj for obj in self.found.objects if isinstance(obj, Pod))
        pod = next((pod for pod in pods if f"{pod.metadata.namespace}/{pod.metadata.name}" == key), None)
        if pod is not None:
            self.found.events = await self.events(pod.metadata.namespace, f"regarding.uid={pod.metadata.uid}")
            return
        namespace, _, name = key.partition("/")
        if not namespace or not name or "/" in name:
            return
        try:
            self.found.objects.append(await self.api.get(Pod, name, namespace=namespace))
        except (NotFound, Forbidden, DecodeError):
            # The lookup among the objects will report that it does not exist.
            return

    async def workload(self, wanted: WorkloadName) -> None:
        kind, namespace, name = wanted
        resource = custom_resource(WORKLOAD_RESOURCES[kind])
        try:
            self.found.workloads[wanted] = (await self.api.get(resource, name, namespace=namespace)).content
        except NotFound:
            self.found.workloads[wanted] = None
        except Forbidden as error:
            self.found.notes.append(f"{kind} {namespace}/{name} cannot be read, so only its pods are known: {error}")

    async def events(self, namespace: str, selector: str) -> list[Event] | None:
        """`namespace` "": all. None if events.k8s.io is not served or not readable."""
        try:
            listings = await list_all(self.api, Event, namespace=namespace, field_selector=selector)
        except NotFound:
            return None
        except Forbidden as error:
            self.found.notes.append(f"Events of pods cannot be read: {error}")
            return None
        return [event for listing in listings for event in listing.items]


def missing_permission(resources: str) -> str:
    return f"the permission to list {resources} in all namespaces is missing"


async def list_all(api: Api, kind: type[T], **selection: Any) -> list[Listing[T]]:
    """All pages; if the continue token expires, the list is read again in one piece."""
    pages: list[Listing[T]] = []
    continue_ = ""
    while not pages or continue_:
        try:
            page = await api.list(kind, limit=_PAGE, continue_=continue_, **selection)
        except Expired:
            return [await api.list(kind, **selection)]
        pages.append(page)
        continue_ = page.continue_
    return pages
