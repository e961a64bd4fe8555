"""A scheduler at work on a cluster in memory, for tests of plugins: no server, no network, no waiting.

    async with live_cluster(a_node("n1").obj(), config=config, plugins=[MyPlugin]) as cluster:
        await cluster.create(a_pod("web-0").obj())
        assert cluster.node_of("web-0") == "n1"

It is the scheduler of `stowplan run` on the API of `stowplan up`, in the event loop of the test. Time stands still
until `advance`; what needs no time happens before `create`, `patch`, `delete` and `advance` return. Controllers do not
run, so pods that are bound stay as they are.
"""

from __future__ import annotations

import asyncio
import heapq
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.apiserver.deletion import DeleteOptions
from stowplan.apiserver.embedded import EmbeddedApi
from stowplan.apiserver.living import living_cluster
from stowplan.apiserver.server import ApiServer
from stowplan.client.times import Times
from stowplan.config import load_config
from stowplan.config.types import DEFAULT_SCHEDULER_NAME
from stowplan.plugins.in_tree import in_tree_registry
from stowplan.scheduler.live import LiveScheduler

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence

    from stowplan.apiserver.resources import Resource
    from stowplan.framework.interface import Plugin

__all__ = ["LiveCluster", "live_cluster"]

#: Seconds since the epoch at which a cluster begins.
START = 1_800_000_000.0
#: Turns of the event loop without any work after which nothing is under way.
_CALM = 20
#: Turns after which whatever still goes on is left to go on, such as a plugin that waits for something real.
_ENOUGH = 5_000


class StandingClock:
    """Time that moves in `advance` alone; sleepers wake at their moment, one moment after the other."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def wall_clock(self) -> float:
        return START + self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + max(seconds, 0.0), next(self._order), woken))
        await woken

    def wake_next(self, until: float) -> bool:
        """Move to the next moment that somebody sleeps for, `until` at most; whether there was one."""
        while self._sleepers and self._sleepers[0][0] <= until:
            moment, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self.now = max(self.now, moment)
                woken.set_result(None)
                return True
        self.now = until
        return False

    def times(self, random: Random) -> Times:
        return Times(clock=lambda: self.now, wall_clock=self.wall_clock, sleep=self.sleep, random=random.random)


class LiveCluster:
    """The API server, the scheduler, and what a test does to them. Objects are dicts, kinds are named as in URLs."""

    def __init__(self, server: ApiServer, scheduler: LiveScheduler, clock: StandingClock) -> None:
        self.server = server
        self.scheduler = scheduler
        self._clock = clock
        self._running = asyncio.create_task(scheduler.run())

    def plugin(self, name: str, profile: str = DEFAULT_SCHEDULER_NAME) -> Plugin:
        """The instance of a plugin that a profile works with."""
        return self.scheduler.frameworks[profile].plugins[name]

    # -- doing --------------------------------------------------------------------------------------------------------

    async def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects of any kind, in this order; definitions of custom resources as well."""
        for obj in objects:
            self.server.create_all([dict(obj)])
            await self.settle()

    async def patch(self, plural: str, name: str, patch: Mapping[str, Any], *, namespace: str = "default") -> None:
        """Merge a patch into an object."""
        resource = self._resource(plural)
        self.server.registry.patch(resource, _scoped(resource, namespace), name, patch, kind="merge")
        await self.settle()

    async def delete(self, plural: str, name: str, *, namespace: str = "default") -> None:
        """Delete an object at once, without grace."""
        resource = self._resource(plural)
        options = DeleteOptions(grace_period_seconds=0)
        self.server.registry.delete(resource, _scoped(resource, namespace), name, options=options)
        await self.settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass: timeouts come, backoffs end."""
        until = self._clock.now + seconds
        await self.settle()
        while self._clock.wake_next(until):
            await self.settle()
        await self.settle()

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        calm = 0
        for _ in range(_ENOUGH):
            await asyncio.sleep(0)
            if self._running.done():
                self._running.result()
            calm = 0 if self.scheduler.busy else calm + 1
            if calm > _CALM:
                return

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    # -- looking ------------------------------------------------------------------------------------------------------

    def get(self, plural: str, name: str, *, namespace: str = "default") -> dict[str, Any]:
        """An object as the API server has it; NotFound if there is none."""
        resource = self._resource(plural)
        found: dict[str, Any] = self.server.registry.get(resource, _scoped(resource, namespace), name).to_dict()
        return found

    def node_of(self, pod: str, *, namespace: str = "default") -> str:
        """Where a pod is; "" while it is nowhere."""
        name: str = self.get("pods", pod, namespace=namespace)["spec"].get("nodeName", "")
        return name

    def why_pending(self, pod: str, *, namespace: str = "default") -> str:
        """What its PodScheduled condition says; "" if it says nothing."""
        conditions = self.get("pods", pod, namespace=namespace).get("status", {}).get("conditions", [])
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    def events(self, about: str) -> list[dict[str, Any]]:
        """The Events about objects of that name, in order."""
        events = (stored.to_dict() for stored in self.server.store.list("events", ""))
        return [event for event in events if event.get("regarding", {}).get("name") == about]

    def _resource(self, plural: str) -> Resource:
        """`pods`, or with its group `deployments.apps`."""
        found = self.server.catalogue.of_storage(plural)
        if found is None:
            raise ValueError(f"the cluster has no {plural!r}: want a plural, with its group if it has one")
        return found


def _scoped(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""


@asynccontextmanager
async def live_cluster(
    *objects: Mapping[str, Any],
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    plugins: Sequence[type[Plugin]] = (),
    seed: int = 1,
) -> AsyncIterator[LiveCluster]:
    """A cluster with these objects and a scheduler that is ready; `seed` decides wherever chance does."""
    clock = StandingClock()
    server = ApiServer(clock=clock.wall_clock, random=Random(seed))
    # Without controllers nobody would take away what admission puts on for them.
    living_cluster(server, controllers=())
    server.create_all(dict(obj) for obj in objects)
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    scheduler = LiveScheduler(
        EmbeddedApi(server),
        load_config(config, known_plugins=registry.points()),
        registry=registry,
        times=clock.times(Random(seed)),
        random=Random(seed),
    )
    cluster = LiveCluster(server, scheduler, clock)
    try:
        await cluster.settle()
        yield cluster
    finally:
        await cluster.close()
