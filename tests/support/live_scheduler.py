"""A LiveScheduler on an embedded API, in one event loop, with time that passes only when a test says so."""

import asyncio
import heapq
from contextlib import asynccontextmanager
from itertools import count
from random import Random

from apis import START, Api
from stowplan.apiserver.embedded import EmbeddedApi
from stowplan.apiserver.living import living_cluster
from stowplan.client.times import Times
from stowplan.config import DEFAULT_FEATURES, load_config
from stowplan.plugins.in_tree import in_tree_registry
from stowplan.scheduler.live import LiveScheduler, LiveSettings


class ManualTime:
    """Sleepers sleep until `advance` passes the moment they wait for."""

    def __init__(self, chance=0.5):
        self.now = 0.0
        self._sleepers = []
        self._order = count()
        self._chance = chance

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + max(seconds, 0.0), next(self._order), woken))
        await woken

    def times(self, start=START):
        return Times(
            clock=self.clock, wall_clock=lambda: start + self.now, sleep=self.sleep, random=lambda: self._chance
        )

    def next_alarm(self, until):
        """Move to the next moment that somebody waits for, at most to `until`; whether somebody woke."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers or self._sleepers[0][0] > until:
            self.now = until
            return False
        self.now = max(self.now, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self.now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        return True


class Live:
    """The cluster, the scheduler, and what a test does to them."""

    def __init__(self, api, scheduler, time):
        self.api = api
        self.scheduler = scheduler
        self.time = time

    async def settle(self, rounds=12):
        """Let everything happen that needs no time."""
        calm = 0
        for _ in range(100_000):
            await asyncio.sleep(0)
            calm = 0 if self.scheduler.busy else calm + 1
            if calm > rounds:
                return
        raise AssertionError("the scheduler does not come to rest")

    async def advance(self, seconds):
        """Let time pass, everybody awake at their time."""
        until = self.time.now + seconds
        await self.settle()
        while self.time.next_alarm(until):
            self.api.clock.now = START + self.time.now
            await self.settle()
        self.api.clock.now = START + self.time.now
        await self.settle()

    async def create(self, *objects):
        """Create dicts as Kubernetes has them, in order, and let the scheduler see them."""
        self.api.server.create_all(objects)
        await self.settle()

    def pod(self, name, namespace="default"):
        return self.api.get("pods", namespace, name)

    def node_of(self, name, namespace="default"):
        return self.pod(name, namespace)["spec"].get("nodeName", "")

    def condition(self, name, type_="PodScheduled", namespace="default"):
        conditions = self.pod(name, namespace).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), None)

    def events(self, name=None, reason=None):
        found = [e.to_dict() for e in self.api.store.list("events", "")]
        return [
            e
            for e in found
            if (name is None or e.get("regarding", {}).get("name") == name) and reason in (None, e["reason"])
        ]

    def place(self, name, namespace="default"):
        """Where the queue has a pod; None when it does not."""
        queued = self.scheduler.queue.get(f"{namespace}/{name}")
        return None if queued is None else queued.place


async def stop(running, time):
    """End a scheduler; time passes meanwhile, as it gives what is under way a few seconds."""
    running.cancel()
    while not running.done():
        await asyncio.wait([running], timeout=0.02)
        time.next_alarm(time.now + 10.0)
    await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def live(
    *objects, config=None, plugins=(), random=None, settings=None, features=DEFAULT_FEATURES, api=None, wrap=None
):
    """`wrap` may put something between the scheduler and the API."""
    if api is None:
        api = Api()
        # Nobody here would take a new node's taint away.
        living_cluster(api.server, controllers=())
    api.server.create_all(objects)
    time = ManualTime()
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    port = EmbeddedApi(api.server)
    scheduler = LiveScheduler(
        port if wrap is None else wrap(port),
        load_config(config, known_plugins=registry.points()),
        registry=registry,
        times=time.times(),
        random=random or Random(1),
        settings=settings or LiveSettings(),
        features=features,
    )
    running = asyncio.create_task(scheduler.run())
    found = Live(api, scheduler, time)
    try:
        ready = asyncio.create_task(scheduler.ready.wait())
        await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        await found.settle()
        yield found
    finally:
        await stop(running, time)
