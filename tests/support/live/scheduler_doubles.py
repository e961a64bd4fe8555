"""A scheduler that schedules nothing, and an election that is won, for the commands that run them."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from stowplan.app.daemon.process import ConnectedCluster, Election
from stowplan.kube.api.api_errors import not_found
from stowplan.kube.api.port import Listing
from stowplan.net.client.election.leader_election import LeadershipLost


class FakeScheduler:
    """Is synced at once; `then` is what happens next."""

    def __init__(self, then=None, pending=(), places=(), nodes=0):
        self.ready = asyncio.Event()
        self.synced = asyncio.Event()
        self.queue = SimpleNamespace(counts=lambda: Counter(places))
        self.state = SimpleNamespace(table=SimpleNamespace(count=nodes), pending=list(pending))
        self.frameworks = {"default-scheduler": None}
        self.informers = SimpleNamespace(awaited={}, known=lambda kind: [])
        self.bound_by_others = None
        self.syncs = True
        #: Whether it loses its lease as soon as it has it.
        self.loses = False
        self.stopped = False
        #: The calls, in order.
        self.told = []
        self._then = then

    async def run(self, *, lead=None):
        self.told.append("run")
        try:
            if self.syncs:
                self.synced.set()
            else:
                await asyncio.Event().wait()
            if lead is not None:
                await lead.wait()
            self.ready.set()
            self.told.append("lead")
            # Waiters are woken first.
            for _ in range(10):
                await asyncio.sleep(0)
            if self._then is not None:
                self._then()
            await asyncio.Event().wait()
        finally:
            self.stopped = True
            self.told.append("stop")

    async def drain(self):
        self.told.append("drain")

    async def halt(self):
        self.told.append("halt")


class FakeElector:
    """Acquires the lease while `wins` is set, and keeps it until `lost` is."""

    def __init__(self, told):
        self.wins, self.lost = asyncio.Event(), asyncio.Event()
        self.wins.set()
        self.is_leader = False
        self.leader = ""
        self.renewals_ended = False
        self._told = told

    async def acquire(self):
        self._told.append("acquire")
        await self.wins.wait()
        self.is_leader = True

    async def renew(self):
        try:
            await self.lost.wait()
        finally:
            self.renewals_ended = True
        self.is_leader = False
        raise LeadershipLost("gone")

    async def release(self):
        self._told.append("release")
        self.is_leader = False

    def check(self, tolerance):
        return None


class FakeOpener:
    """Records the jobs; `scheduler` makes the scheduler, within the loop."""

    def __init__(self, scheduler=FakeScheduler, api=None):
        self.jobs = []
        self.schedulers = []
        self._scheduler = scheduler
        self._api: Any = api or FakeApi()

    @asynccontextmanager
    async def __call__(self, job):
        self.jobs.append(job)
        election = None
        if job.config.leader_election.leader_elect:
            self.elector = FakeElector([])
            election = Election(cast("Any", self.elector), None, lambda: None)
        yield ConnectedCluster(self._api, self._make, election)

    def _make(self):
        self.schedulers.append(self._scheduler())
        if self.schedulers[-1].loses:
            self.elector.lost.set()
        return self.schedulers[-1]


class FakeApi:
    """Serves a Lease, or an error instead of it; and Events."""

    def __init__(self, lease=None, events=()):
        self._lease = lease
        self._events = events

    async def list(self, kind, **selection):
        self.asked = selection
        if isinstance(self._events, Exception):
            raise self._events
        return Listing(self._events, "1")

    async def get(self, kind, name, *, namespace=""):
        if self._lease is None:
            raise not_found("leases", "coordination.k8s.io", name)
        if isinstance(self._lease, Exception):
            raise self._lease
        return self._lease
