"""A scheduler that schedules nothing, for the commands that run one."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace

from stowplan.api.api_errors import not_found


class FakeScheduler:
    """Gets ready at once; `then` is what happens next."""

    def __init__(self, then=None, pending=(), places=(), nodes=0):
        self.ready = asyncio.Event()
        self.unassigned = dict.fromkeys(pending)
        self.queue = SimpleNamespace(counts=lambda: Counter(places))
        self.state = SimpleNamespace(table=SimpleNamespace(count=nodes))
        self.frameworks = {"default-scheduler": None}
        self.stopped = False
        self._then = then

    async def run(self):
        self.ready.set()
        try:
            # Whoever waits for that hears of it first.
            for _ in range(10):
                await asyncio.sleep(0)
            if self._then is not None:
                self._then()
            await asyncio.Event().wait()
        finally:
            self.stopped = True


class FakeOpener:
    """Remembers what it was asked for; `scheduler` makes the scheduler, within the loop."""

    def __init__(self, scheduler=FakeScheduler, api=None):
        self.jobs = []
        self.schedulers = []
        self._scheduler = scheduler
        self._api = api or FakeApi()

    @asynccontextmanager
    async def __call__(self, job):
        self.jobs.append(job)
        yield self._api, self._make

    def _make(self):
        self.schedulers.append(self._scheduler())
        return self.schedulers[-1]


class FakeApi:
    """Has a lease, or an error in place of it."""

    def __init__(self, lease=None):
        self._lease = lease

    async def get(self, kind, name, *, namespace=""):
        if self._lease is None:
            raise not_found("leases", "coordination.k8s.io", name)
        if isinstance(self._lease, Exception):
            raise self._lease
        return self._lease
