"""An `Api` wrapper in which requests sometimes fail, are delayed, or succeed while their response is lost."""

import asyncio
from collections import Counter
from contextlib import aclosing

from stowplan.kube.api.api_errors import Conflict, Expired, InternalError, ServiceUnavailable
from stowplan.kube.api.port import Unreachable
from stowplan.net.client.client_errors import OutcomeUnknown

REFUSALS = (InternalError, ServiceUnavailable, Conflict)
READING = ("refused", "unreachable", "late")
WRITING = (*READING, "lost answer", "never arrived")
WATCHING = ("expired", "ends", "cut off")


class FaultyApi:
    """Transparent while `rate` and `lag` are 0."""

    kinds = (*WRITING, *WATCHING)

    def __init__(self, api, random, sleep):
        self._api = api
        self._random = random
        self._sleep = sleep
        #: The share of requests that fail.
        self.rate = 0.0
        #: Maximum delay of watch events, in seconds.
        self.lag = 0.0
        self.fates = Counter()
        #: UIDs of pods whose binding had an unknown outcome.
        self.in_doubt = set()
        #: The UID of the pod that is being bound right now; "" between bindings.
        self.binding = ""

    def __getattr__(self, name):
        return getattr(self._api, name)

    def _fate(self, *fates):
        if self._random.random() >= self.rate:
            return ""
        fate = self._random.choice(fates)
        self.fates[fate] += 1
        return fate

    async def _request(self, call, fates=WRITING):
        fate = self._fate(*fates)
        if fate == "refused":
            raise self._random.choice(REFUSALS)("the test says no")
        if fate == "unreachable":
            raise Unreachable("the test cut the line")
        if fate == "never arrived":
            raise OutcomeUnknown("the test lost the request")
        if fate == "late":
            await self._sleep(self._random.random() * 3)
        answer = await call()
        if fate == "lost answer":
            raise OutcomeUnknown("the test lost the answer")
        return answer

    async def bind(self, *, uid, **options):
        try:
            await self._request(lambda: self._bind(uid, options))
        except OutcomeUnknown:
            self.in_doubt.add(uid)
            raise

    async def _bind(self, uid, options):
        self.binding = uid
        try:
            await self._api.bind(uid=uid, **options)
        finally:
            self.binding = ""

    async def patch(self, *args, **options):
        return await self._request(lambda: self._api.patch(*args, **options))

    async def delete(self, *args, **options):
        return await self._request(lambda: self._api.delete(*args, **options))

    async def create(self, *args, **options):
        return await self._request(lambda: self._api.create(*args, **options))

    async def get(self, *args, **options):
        return await self._request(lambda: self._api.get(*args, **options), READING)

    async def list(self, *args, **options):
        return await self._request(lambda: self._api.list(*args, **options), READING)

    async def watch(self, kind, **options):
        self._end_watch(self._fate(*WATCHING))
        async with aclosing(self._api.watch(kind, **options)) as stream:
            async for event in stream:
                if self.lag and self._random.random() < 0.1:
                    await self._sleep(self._random.random() * self.lag)
                yield event
                fate = self._fate(*WATCHING)
                if fate == "ends":
                    return
                self._end_watch(fate)

    def _end_watch(self, fate):
        if fate == "expired":
            raise Expired("the test forgot what was before")
        if fate == "cut off":
            raise Unreachable("the test cut the line")


async def yield_control(rounds):
    for _ in range(rounds):
        await asyncio.sleep(0)
