"""Informers: list and watch each kind.

The initial lists are read concurrently; `synced` is set when all of them have been delivered. A kind that the cluster
does not serve, because the cluster is older or a CustomResourceDefinition is missing, does not delay that: plugins that
need it are disabled, which is logged once, and the kind is checked for periodically. Once it is served and its initial
list has been delivered, the plugins are enabled. Any other problem, such as missing permissions, is logged once and
retried indefinitely.

Upstream: staging/src/k8s.io/client-go/informers and WaitForHandlersSync in pkg/scheduler/scheduler.go, which waits for
a missing group forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.kube.api.api_errors import ApiError, Forbidden, NotFound
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import Pod
from stowplan.net.client.list_watch import Failing, ListWatch
from stowplan.scheduler.engine.watched_kind import WatchedKind

if TYPE_CHECKING:
    from stowplan.kube.api.meta import ApiStruct
    from stowplan.kube.api.port import Api, Change
    from stowplan.kube.timing.times import Times
    from stowplan.net.client.list_watch import Report

#: Seconds after which missing initial lists are logged.
FIRST_LISTS_WARNING_DELAY = 5.0


class _NotServedError(Exception):
    """The cluster does not serve the kind."""


class _PerhapsNotServedError(Exception):
    """Listing is forbidden, which is also the response of older clusters for unknown kinds."""


class Receiver(Protocol):
    """Receives changes from informers: `Scheduler`, which makes inputs of the engine of them."""

    def handle(self, kind: type[ApiStruct], changes: Sequence[Change[Any]], /) -> None: ...

    def switch_off(self, plugins: frozenset[str], /) -> None:
        """The kinds that these plugins need are not served."""

    def switch_on(self, plugins: frozenset[str], /) -> None:
        """The kinds that these plugins need are served now, and their initial lists have been delivered."""


class Informers:
    def __init__(
        self,
        api: Api,
        *,
        kinds: Sequence[WatchedKind],
        receiver: Receiver,
        times: Times,
        report: Callable[[str], None],
        unserved_kinds_interval: float = 60.0,
    ) -> None:
        self._api = api
        self._kinds = {watched.kind: watched for watched in kinds if not watched.measured}
        self._receiver = receiver
        self._times = times
        self._report = report
        self._unserved_kinds_interval = unserved_kinds_interval
        #: Kinds without an initial list -> why.
        self._awaited: dict[type[ApiStruct], str] = dict.fromkeys(self._kinds, "")
        #: Kinds that the cluster does not serve, as far as is known.
        self._missing: set[type[ApiStruct]] = set()
        self._watches: dict[type[ApiStruct], ListWatch[Any]] = {}
        #: Set once the initial list of each served kind has been delivered.
        self.synced = asyncio.Event()
        #: Runs the watches of all kinds; None before `run` and after it.
        self._tasks: asyncio.TaskGroup | None = None
        #: Kinds that were added to the watches -> set once they were listed or found missing.
        self._tried: dict[type[ApiStruct], asyncio.Event] = {}
        #: By kind.
        self._keeping: dict[type[ApiStruct], asyncio.Task[None]] = {}

    @property
    def missing(self) -> frozenset[type[ApiStruct]]:
        """Kinds that the cluster does not serve; they are checked for again."""
        return frozenset(self._missing)

    @property
    def awaited(self) -> dict[str, str]:
        """Resources whose initial list has not arrived yet -> why; "" if it is in progress."""
        return {str(resource_of(kind)): why for kind, why in self._awaited.items()}

    @property
    def stale(self) -> dict[type[ApiStruct], Failing]:
        """Kinds that were listed and whose changes cannot be read now -> why; it is tried again."""
        known = ((kind, watch.trouble) for kind, watch in self._watches.items() if kind not in self._awaited)
        return {kind: why for kind, why in known if why is not None and kind not in self._missing}

    def known(self, kind: type[ApiStruct]) -> list[Any]:
        """The last known objects of a kind."""
        watch = self._watches.get(kind)
        return [] if watch is None else watch.known

    @property
    def undelivered(self) -> bool:
        """Whether changes from the API server have not been delivered yet."""
        return any(watch.undelivered for watch in self._watches.values())

    async def run(self) -> None:
        """List and watch until cancelled; an exception of a callback ends it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for kind in tuple(self._kinds):
                    self._begin(tasks, kind)
                tasks.create_task(self._log_missing_lists())
        finally:
            self._tasks = None

    def _begin(self, tasks: asyncio.TaskGroup, kind: type[ApiStruct]) -> None:
        self._keeping[kind] = tasks.create_task(self._keep(kind))

    async def _keep(self, kind: type[ApiStruct]) -> None:
        trusting = self._kinds[kind].core
        while True:
            try:
                await self._list_and_watch(kind, trusting=trusting)
            except _PerhapsNotServedError:
                if await self._is_served(kind):
                    trusting = True
                    continue
            except _NotServedError:
                pass
            self._is_missing(kind)
            await self._times.sleep(self._unserved_kinds_interval)

    async def _list_and_watch(self, kind: type[ApiStruct], *, trusting: bool) -> None:
        """List and watch until the kind turns out not to be served; `trusting`: Forbidden does not imply that."""
        watch = self._watches[kind] = ListWatch(
            self._api,
            kind,
            times=self._times,
            report=partial(self._reported, kind, trusting),
            field_selector=self._kinds[kind].field_selector,
            on_synced=partial(self._is_synced, kind),
        )
        await watch.run(partial(self._delivered, kind))

    def _delivered(self, kind: type[ApiStruct], changes: Sequence[Change[Any]]) -> None:
        if kind is Pod:
            # What was read with it comes first: otherwise a pod is tried before the claims that were made for it.
            self.deliver_now()
        self._receiver.handle(kind, changes)

    async def _is_served(self, kind: type[ApiStruct]) -> bool:
        try:
            return await self._api.serves(kind)
        except (ApiError, Unreachable):
            return True  # presumably; the next list reports the problem

    # -- adding kinds --------------------------------------------------------------------------------------------------

    async def try_out(self, kinds: Sequence[WatchedKind]) -> None:
        """Start watching those of these kinds that are not watched yet; return once each has been listed.

        Kinds that the cluster does not serve are not reported here, but by `adopt`.
        """
        added = [watched for watched in kinds if watched.kind not in self._kinds and not watched.measured]
        for watched in added:
            self._kinds[watched.kind] = watched
        if self._tasks is None:
            # They are listed with the others when `run` starts.
            self._awaited |= {watched.kind: "" for watched in added}
            return
        for watched in added:
            self._tried[watched.kind] = asyncio.Event()
            self._begin(self._tasks, watched.kind)
        for tried in tuple(self._tried.values()):
            await tried.wait()

    def give_up(self) -> list[str]:
        """Stop watching kinds that were tried out and have not been listed; return these.

        The others are watched on, for no plugin.
        """
        dropped = [kind for kind, tried in self._tried.items() if not tried.is_set()]
        self._kinds |= {kind: WatchedKind(kind) for kind in self._tried}
        for kind in dropped:
            self._keeping.pop(kind).cancel()
            self._watches.pop(kind, None)
            del self._kinds[kind]
        self._tried.clear()
        return [str(resource_of(kind)) for kind in dropped]

    def adopt(self, kinds: Sequence[WatchedKind]) -> frozenset[str]:
        """Use these kinds for the plugins from now on; return the plugins that lack a kind.

        Other watches continue: otherwise objects deleted in the meantime could reappear later.
        """
        self._tried.clear()
        wanted = {watched.kind: watched for watched in kinds}
        for kind in self._kinds:
            self._kinds[kind] = wanted.get(kind) or WatchedKind(kind)
        return self._off()

    def deliver_now(self) -> None:
        """Deliver everything that is known and was not delivered yet."""
        for watch in tuple(self._watches.values()):
            watch.deliver_now()

    async def relist(self, kinds: Collection[type[ApiStruct]]) -> None:
        """List these kinds again, because more of their objects is kept than before."""
        if self._tasks is None:
            return
        for watch in [watch for kind in kinds if (watch := self._watches.get(kind)) is not None]:
            await watch.relist()

    def _reported(self, kind: type[ApiStruct], trusting: bool, report: Report) -> None:
        if isinstance(report, Failing) and report.doing == "listing":
            new = kind in self._awaited or kind in self._missing or self._is_tried_out(kind)
            if new and not self._kinds[kind].core:
                _raise_if_not_served(report.why, trusting=trusting)
            if kind in self._awaited:
                self._awaited[kind] = str(report.why)
        self._report(str(report))

    # -- served and missing kinds --------------------------------------------------------------------------------------

    def _is_tried_out(self, kind: type[ApiStruct]) -> bool:
        """Whether its plugins are enabled only after it is adopted."""
        return kind in self._tried

    def _is_synced(self, kind: type[ApiStruct]) -> None:
        if kind in self._missing:
            self._missing.discard(kind)
            back = self._kinds[kind].needed_by - self._off()
            self._report(f"{resource_of(kind)} is served by the cluster now{_and(back, 'switched on')}")
            if back and not self._is_tried_out(kind):
                self._receiver.switch_on(back)
        self._decided(kind)

    def _is_missing(self, kind: type[ApiStruct]) -> None:
        if kind not in self._missing:
            watched = self._kinds[kind]
            off = watched.needed_by - self._off()
            self._missing.add(kind)
            if off or not watched.needed_by:
                consequence = _and(off, "switched off") or _and(watched.read_by, "going on without")
                again = f"looked for again every {self._unserved_kinds_interval:g} s"
                self._report(f"{resource_of(kind)} is not served by the cluster{consequence}; {again}")
            if off and not self._is_tried_out(kind):
                self._receiver.switch_off(off)
        self._decided(kind)

    def _off(self) -> frozenset[str]:
        """Plugins that lack some kind."""
        return frozenset().union(*(self._kinds[kind].needed_by for kind in self._missing))

    def _decided(self, kind: type[ApiStruct]) -> None:
        if kind in self._tried:
            self._tried[kind].set()
        self._awaited.pop(kind, None)
        if not self._awaited:
            self.synced.set()

    async def _log_missing_lists(self) -> None:
        await self._times.sleep(FIRST_LISTS_WARNING_DELAY)
        # Usually all have the same reason.
        alike: dict[str, list[str]] = {}
        for resource, why in self.awaited.items():
            alike.setdefault(why, []).append(resource)
        for why, resources in alike.items():
            self._report(f"waiting for the first list of {', '.join(resources)}{f': {why}' if why else ''}")


def _raise_if_not_served(why: Exception, *, trusting: bool) -> None:
    """Raise if a kind seems not to be served. That ends the ListWatch, which would otherwise retry forever."""
    if isinstance(why, NotFound):
        raise _NotServedError
    if isinstance(why, Forbidden) and not trusting:
        raise _PerhapsNotServedError


def _and(plugins: Collection[str], what: str) -> str:
    """The consequence for plugins, as text; empty if there are none."""
    return f", {', '.join(sorted(plugins))} {'is' if len(plugins) == 1 else 'are'} {what}" if plugins else ""
