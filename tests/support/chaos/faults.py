"""An `Api` wrapper that injects one kind of fault at a time, for as long as a test says.

Requests may be refused before they are carried out, or lose their responses afterwards; watches may be cut, go silent,
expire, or deliver garbage. Faults are random but seeded, and time is virtual.
"""

import asyncio
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass

from stowplan.kube.api.api_errors import Conflict, Expired, InternalError, NotFound, TooManyRequests
from stowplan.kube.api.port import BadObject, Listing, Unreachable, WatchEvent
from stowplan.net.client.client_errors import OutcomeUnknown, StreamSilent

WRITES = ("bind", "create", "patch", "delete")
EVERYTHING = (*WRITES, "get", "list", "watch")

REFUSALS = {
    "409": lambda: Conflict("the test says that it is in conflict"),
    "404": lambda: NotFound("the test does not find it"),
    "410": lambda: Expired("the test forgot what was before"),
    "429": lambda: TooManyRequests("the test is asked too much"),
    "500": lambda: InternalError("the test broke"),
    "unreachable": lambda: Unreachable("the test cut the line"),
    "nonsense": lambda: Unreachable("the line is not a watch event: the test said nonsense"),
    "silent": lambda: StreamSilent("nothing came for so long"),
    #: The client cannot tell whether the request arrived; it did not.
    "lost": lambda: OutcomeUnknown("the test lost the request"),
}


@dataclass(frozen=True, kw_only=True)
class Faults:
    """The faults to inject; everything else works."""

    #: Verb -> (share of requests, names of REFUSALS).
    refuses: dict
    #: Share of writes that are carried out while their response is lost; for these verbs.
    loses: float = 0.0
    losing: tuple = WRITES
    #: Seconds that each request takes.
    slow: float = 0.0
    #: All watches end at this interval, in one of these ways.
    cuts_every: float = 0.0
    cuts: tuple = ()
    #: Watches stay open and deliver nothing until they are cut.
    silent: bool = False
    #: Share of objects in events and lists that cannot be decoded.
    unreadable: float = 0.0
    #: Maximum number of objects per page.
    page: int = 0
    #: Seconds by which wall clocks jump, back and forth, each time that watches are cut.
    jumps: float = 0.0


def refusing(share, *ways, verbs=EVERYTHING):
    return dict.fromkeys(verbs, (share, ways))


NO_FAULTS = Faults(refuses={})


class FaultInjectingApi:
    def __init__(self, api, random, time):
        self._api = api
        self._random = random
        self._time = time
        self._cut = asyncio.Event()
        self._cut_by = ""
        self.faults = NO_FAULTS
        self.fates = Counter()
        #: UIDs of pods whose binding had an unknown outcome.
        self.in_doubt = set()
        #: The UID of the pod that is being bound right now; "" between bindings.
        self.binding = ""
        #: (kind, namespace, name) of objects whose last event could not be decoded.
        self.unread = set()

    def __getattr__(self, name):
        return getattr(self._api, name)

    # -- called by tests

    def cut(self, how):
        """End all watches."""
        self.fates[f"cut: {how}"] += 1
        self._cut_by = how
        self._cut.set()
        self._cut = asyncio.Event()

    # -- requests

    async def _request(self, verb, call):
        faults, random = self.faults, self._random
        if faults.slow:
            await self._time.sleep(faults.slow / 2)
        self._refuse(faults, verb)
        answer = await call()
        if faults.slow:
            await self._time.sleep(faults.slow / 2)
        if verb in faults.losing and faults.loses and random.random() < faults.loses:
            self.fates[f"{verb}: answer lost"] += 1
            raise OutcomeUnknown("the test lost the answer")
        return answer

    def _refuse(self, faults, verb):
        share, ways = faults.refuses.get(verb, (0.0, ()))
        if share and self._random.random() < share:
            way = self._random.choice(ways)
            self.fates[f"{verb}: {way}"] += 1
            raise REFUSALS[way]()

    async def bind(self, *, uid, **options):
        try:
            await self._request("bind", lambda: self._bind(uid, options))
        except OutcomeUnknown:
            self.in_doubt.add(uid)
            raise

    async def _bind(self, uid, options):
        self.binding = uid
        try:
            await self._api.bind(uid=uid, **options)
        finally:
            self.binding = ""

    async def create(self, *args, **options):
        return await self._request("create", lambda: self._api.create(*args, **options))

    async def patch(self, *args, **options):
        return await self._request("patch", lambda: self._api.patch(*args, **options))

    async def delete(self, *args, **options):
        return await self._request("delete", lambda: self._api.delete(*args, **options))

    async def get(self, *args, **options):
        return await self._request("get", lambda: self._api.get(*args, **options))

    async def list(self, kind, *, limit=0, **options):
        limit = min(limit or self.faults.page, self.faults.page or limit)
        listing = await self._request("list", lambda: self._api.list(kind, limit=limit, **options))
        if not options.get("continue_"):
            self.unread = {key for key in self.unread if key[0] is not kind}
        items, bad = [], []
        for obj in listing.items:
            if self._unreadable(kind, obj):
                bad.append(_bad(obj))
            else:
                items.append(obj)
        return Listing(items, listing.resource_version, listing.continue_, bad)

    # -- watches

    async def watch(self, kind, **options):
        if self.faults.slow:
            await self._time.sleep(self.faults.slow)
        self._refuse(self.faults, "watch")
        async with aclosing(self._api.watch(kind, **options)) as stream:
            while True:
                while self.faults.silent:
                    await self._until_cut()
                event = await self._next(stream)
                if event is None:
                    return
                if self.faults.silent:
                    # The event was already on its way.
                    await self._until_cut()
                yield self._filtered(kind, event)

    async def _until_cut(self):
        await self._cut.wait()
        raise REFUSALS[self._cut_by]()

    async def _next(self, stream):
        """The next event; None at the end of the stream."""
        news = asyncio.ensure_future(anext(stream, None))
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait((news, cut), return_when=asyncio.FIRST_COMPLETED)
            if news.done():
                return news.result()
        finally:
            cut.cancel()
            if not news.done():
                news.cancel()
                with suppress(asyncio.CancelledError):
                    await news
        raise REFUSALS[self._cut_by]()

    def _filtered(self, kind, event):
        if event.object is None:
            return event
        key = _key(kind, event.object)
        self.unread.discard(key)
        if not self._unreadable(kind, event.object):
            return event
        if event.type == "DELETED":
            self.unread.discard(key)
            return WatchEvent("DELETED", event.resource_version, bad=_bad(event.object))
        return WatchEvent("BAD", event.resource_version, bad=_bad(event.object))

    def _unreadable(self, kind, obj):
        share = self.faults.unreadable
        if not share or self._random.random() >= share:
            return False
        self.fates["unreadable"] += 1
        self.unread.add(_key(kind, obj))
        return True


def _key(kind, obj):
    return kind, obj.metadata.namespace, obj.metadata.name


def _bad(obj):
    return BadObject(obj.metadata.namespace, obj.metadata.name, "spec: expected an object, got a string")
