"""An endless stream of changes, built from lists and watches that end.

A list returns the current objects in pages; a watch from the list's version returns later changes. When the watch ends,
the next one resumes after the last event or bookmark. Only if the server no longer has that version (Expired)
everything is listed again, and the difference to the delivered objects is delivered. Failures are retried while `run`
runs, with growing delays; a problem is reported once until it changes or is resolved. Lists are consistent reads, never
from a cache that may be older than the known objects.

    pods = ListWatch(api, Pod, times=..., report=...)
    await pods.run(lambda changes: ...)        # elsewhere: await pods.synced.wait()

`deliver` is called in the event loop with everything that was read without waiting: a burst of events is one call.

Upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from stowplan.kube.api.api_errors import ApiError, Expired, Gone, TooManyRequests
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.port import Api, BadObject, Change, Unreachable, WatchEvent
from stowplan.kube.api.resources import ApiResource, resource_of
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.backoff import WATCHING, Backoff
from stowplan.kube.timing.times import Times
from stowplan.net.client.client_errors import StreamSilent

# The delivered objects of a watcher, to turn lists and events into changes.
#
# A change consists of the last delivered object and the current one. An object that was deleted and recreated under
# its name is two changes: receivers that track UIDs must not mistake the second for the first.
#
# `Known` is plain state: it holds references to objects that their receiver holds as well.
#
# Upstream: staging/src/k8s.io/client-go/tools/cache/delta_fifo.go (Replace), shared_informer.go.

T = TypeVar("T", bound=ApiStruct)

Key = tuple[str, str]


def metadata_of(obj: ApiStruct) -> ObjectMeta:
    return cast("ObjectMeta", cast("Any", obj).metadata)


class Known(Generic[T]):
    def __init__(self) -> None:
        #: By namespace and name.
        self._objects: dict[Key, T] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def objects(self) -> list[T]:
        return list(self._objects.values())

    def put(self, obj: T) -> list[Change[T]]:
        """Store the current version of an object."""
        meta = metadata_of(obj)
        key = (meta.namespace, meta.name)
        old = self._objects.get(key)
        if old is None:
            self._objects[key] = obj
            return [Change(None, obj)]
        before = metadata_of(old)
        if before.uid == meta.uid and before.resource_version == meta.resource_version:
            # The delivered object is kept, or there would be two versions after a list.
            return []
        self._objects[key] = obj
        return [Change(old, obj)] if before.uid == meta.uid else [Change(old, None), Change(None, obj)]

    def remove(self, key: Key) -> list[Change[T]]:
        old = self._objects.pop(key, None)
        return [] if old is None else [Change(old, None)]


class Relist(Generic[T]):
    """The difference between the known objects and a paginated list."""

    def __init__(self, known: Known[T]) -> None:
        self._known = known
        self._unseen = set(known)

    def page(self, items: Iterable[T]) -> list[Change[T]]:
        changes: list[Change[T]] = []
        unseen = self._unseen
        for obj in items:
            changes += self._known.put(obj)
            if unseen:
                meta = metadata_of(obj)
                unseen.discard((meta.namespace, meta.name))
        return changes

    def keep(self, key: Key) -> None:
        """Keep an object that exists but could not be decoded in its known version."""
        self._unseen.discard(key)

    def end(self) -> list[Change[T]]:
        """After the last page: everything that was not listed is deleted."""
        gone = [key for key in self._known if key in self._unseen]
        return [change for key in gone for change in self._known.remove(key)]


_log = get_logger(__name__)

#: Objects per page. Larger pages save little time and block the event loop longer.
PAGE = 1000
#: Range of the requested duration of a watch in seconds, chosen at random.
WATCH_TIMEOUTS = (300.0, 600.0)
#: A watch that ends sooner without an event counts as failed.
_TOO_SHORT = 1.0
#: A watch that lasts this long counts as successful, however it ends.
_LONG = 30.0


class Failing(PlainStruct, frozen=True):
    """Lists or watches of a resource fail and are being retried."""

    resource: str
    doing: str
    why: Exception

    def __str__(self) -> str:
        return f"{self.doing} {self.resource}: {self.why}"


class Working(PlainStruct, frozen=True):
    """They work again."""

    resource: str

    def __str__(self) -> str:
        return f"listing and watching {self.resource} works again"


class Undecodable(PlainStruct, frozen=True):
    """An object that was not updated, or left out, because it cannot be decoded."""

    resource: str
    bad: BadObject

    def __str__(self) -> str:
        name = f"{self.bad.namespace}/{self.bad.name}" if self.bad.namespace else self.bad.name
        return f"{self.resource} {name} is left out, it cannot be read: {self.bad.why}"


Report = Failing | Working | Undecodable


class _Progress(PlainStruct):
    """The progress of one watch."""

    since: float
    events: int = 0


class ListWatch(Generic[T]):
    def __init__(
        self,
        api: Api,
        kind: type[T],
        *,
        times: Times,
        report: Callable[[Report], None],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page: int = PAGE,
        on_synced: Callable[[], None] | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        resource = resource_of(kind)
        self._resource = str(resource)
        #: Keys of log lines. Upstream names reflectors after lines of its source.
        self._keys = {"type": _type_of(resource), "reflector": self._resource}
        self._times = times
        self._report = report
        self._selection = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._page = page
        self._on_synced = on_synced
        self._known: Known[T] = Known()
        #: Where to resume; None before the first list and after Expired.
        self._version: str | None = None
        self._backoff = Backoff(WATCHING, clock=times.clock, random=times.random)
        self._trouble: Failing | None = None
        #: Objects that cannot be decoded -> why.
        self._bad: dict[tuple[str, str], str] = {}
        self._changes: list[Change[T]] = []
        self._news = asyncio.Event()
        #: Set once the initial list has been delivered.
        self.synced = asyncio.Event()
        self._listed = False
        self._deliver: Callable[[Sequence[Change[T]]], None] | None = None
        #: Set while a relist is requested, until it has been delivered.
        self._relisted: asyncio.Event | None = None
        self._relists = False

    @property
    def known(self) -> list[T]:
        """The objects as of the last list or watch event."""
        return self._known.objects()

    @property
    def trouble(self) -> Failing | None:
        """What is failing and being retried."""
        return self._trouble

    @property
    def undelivered(self) -> bool:
        """Whether some known changes have not been delivered yet."""
        return bool(self._changes)

    async def run(self, deliver: Callable[[Sequence[Change[T]]], None]) -> None:
        """Deliver changes until cancelled; an exception of a callback ends it."""
        self._log_reflector("Starting")
        self._deliver = deliver
        follower = self._following()
        try:
            while not follower.done():
                await self._news.wait()
                self._news.clear()
                if self._relists:
                    follower.cancel()
                    await asyncio.gather(follower, return_exceptions=True)
                    self._relists, self._listed, self._version = False, False, None
                    follower = self._following()
                listed = self._listed
                self.deliver_now()
                if listed:
                    self._delivered_list()
            follower.result()
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
            self._log_reflector("Stopping")

    def _following(self) -> asyncio.Task[None]:
        follower = asyncio.create_task(self._follow())
        follower.add_done_callback(lambda _: self._news.set())
        return follower

    def deliver_now(self) -> None:
        """Deliver all known changes now."""
        changes, self._changes = self._changes, []
        if changes and self._deliver is not None:
            self._deliver(changes)

    def _delivered_list(self) -> None:
        if self._relisted is not None:
            self._relisted.set()
            self._relisted = None
        if not self.synced.is_set():
            self.synced.set()
            if self._on_synced is not None:
                self._on_synced()

    async def relist(self) -> None:
        """List everything again, and wait until the difference has been delivered; requires a running `run`."""
        if self._relisted is None:
            self._relisted = asyncio.Event()
        self._relists = True
        self._news.set()
        await self._relisted.wait()

    async def _follow(self) -> None:
        while True:
            wait = await self._list_and_watch()
            if wait:
                await self._times.sleep(wait)

    async def _list_and_watch(self) -> float:
        """Run until something ends; return how long to wait then."""
        doing = "listing"
        progress = _Progress(since=self._times.clock())
        try:
            if self._version is None:
                _log.v(3).info("Listing and watching", **self._keys)
                await self._list()
                _log.v(2).info("Caches populated", **self._keys)
            doing, progress = "watching", _Progress(since=self._times.clock())
            await self._watch(progress)
        except (Expired, Gone) as expired:
            self._version = None
            if doing == "watching":
                _log.v(4).info("Watch closed", **self._keys, err=expired)
            if self._trouble is not None:
                # The server responds again, without our version: the long delays were for an unresponsive one.
                self._works()
                self._backoff.reset()
        except StreamSilent as error:
            if self._worked(progress):
                self._log_end(progress)
                return 0.0
            self._fails(doing, error)
        except (ApiError, Unreachable) as error:
            if progress.events:
                self._log_end(progress)
                return 0.0  # the connection broke: resume
            if doing == "watching" and isinstance(error, Unreachable | TooManyRequests):
                _log.v(4).info("Watch failed - backing off", **self._keys, err=error)
            self._fails(doing, error)
        else:
            if self._worked(progress):
                self._log_end(progress)
                return 0.0
            self._fails(doing, Unreachable("the server ends watches as soon as they begin"))
        return self._backoff.next()

    def _log_reflector(self, doing: str) -> None:
        # Parity: there is no periodic redelivery.
        keys = {"type": self._keys["type"], "resyncPeriod": "0s", "reflector": self._keys["reflector"]}
        _log.v(3).info(f"{doing} reflector", **keys)

    def _log_end(self, progress: _Progress) -> None:
        _log.v(4).info("Watch close", **self._keys, totalItems=progress.events)

    async def _list(self) -> None:
        relist = Relist(self._known)
        limit, continue_ = self._page, ""
        while True:
            try:
                listing = await self._api.list(self._kind, limit=limit, continue_=continue_, **self._selection)
            except (Expired, Gone):
                if not continue_:
                    raise
                # The remaining pages are gone. A list without pages cannot expire halfway.
                relist, limit, continue_ = Relist(self._known), 0, ""
                continue
            self._add(relist.page(listing.items))
            for bad in listing.bad:
                relist.keep((bad.namespace, bad.name))
                self._complain(bad)
            continue_ = listing.continue_
            if not continue_:
                break
        self._add(relist.end())
        self._version = listing.resource_version
        self._listed = True
        self._news.set()
        if self._trouble is not None and (self._trouble.doing == "listing" or self._relisted is not None):
            # A watch shows that it works with its first event, for which a relist does not wait.
            self._works()

    async def _watch(self, progress: _Progress) -> None:
        low, high = WATCH_TIMEOUTS
        stream = self._api.watch(
            self._kind,
            resource_version=self._version or "",
            timeout_seconds=int(low + self._times.random() * (high - low)),
            **self._selection,
        )
        try:
            async for event in stream:
                progress.events += 1
                if progress.events == 1:
                    # Parity: upstream's delays keep growing until there were two minutes without a failure, which
                    # leaves a scheduler blind for a minute after two failures.
                    self._backoff.reset()
                self._take(event)
                if self._trouble is not None:
                    self._works()
        finally:
            if self._times.clock() - progress.since >= _LONG:
                self._backoff.reset()
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _worked(self, progress: _Progress) -> bool:
        return progress.events > 0 or self._times.clock() - progress.since >= _TOO_SHORT

    def _take(self, event: WatchEvent[T]) -> None:
        self._version = event.resource_version or self._version
        if event.bad is not None and event.type != "DELETED":
            self._complain(event.bad)
        elif event.type == "DELETED":
            key = _key(event)
            self._bad.pop(key, None)
            self._add(self._known.remove(key))
        elif event.object is not None and event.type != "BOOKMARK":
            self._add(self._known.put(event.object))
            if self._bad:
                self._bad.pop(_key(event), None)

    def _add(self, changes: list[Change[T]]) -> None:
        if changes:
            self._changes += changes
            self._news.set()

    def _complain(self, bad: BadObject) -> None:
        key = (bad.namespace, bad.name)
        if self._bad.get(key) != bad.why:
            self._bad[key] = bad.why
            self._report(Undecodable(self._resource, bad))

    def _fails(self, doing: str, why: ApiError | Unreachable) -> None:
        trouble = Failing(self._resource, doing, why)
        if self._trouble is None or str(self._trouble) != str(trouble):
            self._report(trouble)
        self._trouble = trouble

    def _works(self) -> None:
        self._trouble = None
        self._report(Working(self._resource))


def _type_of(resource: ApiResource) -> str:
    """The Go type name of a kind in upstream; for a custom one only the resource is known."""
    return f"*{resource.versions[0]}.{resource.kind}" if resource.kind else str(resource)


def _key(event: WatchEvent[Any]) -> Key:
    if event.object is not None:
        meta = metadata_of(event.object)
        return meta.namespace, meta.name
    return (event.bad.namespace, event.bad.name) if event.bad is not None else ("", "")
