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
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.config import DEFAULT_FEATURES, load_config
from stowplan.in_tree.registry import in_tree_registry
from stowplan.live.scheduler import SHUTDOWN_TIMEOUT, Scheduler
from stowplan.timing.manual_time import ManualTime
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.apiserver.server import ApiServer
from stowplan_cluster.apiserver.stages import ALL_STAGES
from stowplan_cluster.controllers.controller_manager import set_up_controllers

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence

    from stowplan.api.port import Api
    from stowplan.config import FeatureGates
    from stowplan.engine.engine import Chance
    from stowplan.framework.extender import Extender
    from stowplan.framework.interface import Plugin
    from stowplan.live.effects import Asker
    from stowplan.live.recorder import Recorder
    from stowplan.live.scheduler import SchedulerSettings
    from stowplan_cluster.apiserver.resources import Resource
    from stowplan_cluster.apiserver.stages import Stages

__all__ = ["LiveCluster", "live_cluster"]

#: Turns of the event loop without any work after which nothing is under way.
_CALM = 20
#: Seconds, real ones, in which a scheduler that ends may get on without time passing.
_A_MOMENT = 0.02


class LiveCluster:
    """The API server, the scheduler, and what a test does to them. Objects are dicts, kinds are named as in URLs."""

    def __init__(self, server: ApiServer, scheduler: Scheduler, time: ManualTime, running: asyncio.Task[None]) -> None:
        self.server = server
        self.scheduler = scheduler
        self.time = time
        self._running = running

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
        await self.time.advance(seconds, settle=self.settle)

    async def settle(self, turns: int = 5_000) -> bool:
        """Let everything happen that needs no time; return whether all came to rest.

        After so many turns of the event loop, whatever still goes on is left to it, such as a plugin that waits for
        something real.
        """
        calm = 0
        for _ in range(turns):
            await asyncio.sleep(0)
            if self._running.done():
                self._running.result()
            calm = 0 if self.scheduler.busy else calm + 1
            if calm > _CALM:
                return True
        return False

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

    def events(self, about: str = "", reason: str = "") -> list[dict[str, Any]]:
        """The Events, in order: all of them, or those about objects of that name, or with that reason."""
        events = (stored.to_dict() for stored in self.server.store.list("events", ""))
        return [
            event
            for event in events
            if about in ("", event.get("regarding", {}).get("name")) and reason in ("", event["reason"])
        ]

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
    stages: Stages = ALL_STAGES,
) -> AsyncIterator[LiveCluster]:
    """A cluster with these objects and a scheduler that is ready; `seed` decides wherever chance does.

    A test that writes many objects, all of them valid, is faster with fewer `stages` of a write.
    """
    time = ManualTime(random=Random(seed).random)
    server = ApiServer(clock=time.wall_clock, random=Random(seed), stages=stages)
    # Without controllers nobody would take away what admission puts on for them.
    set_up_controllers(server, controllers=())
    server.create_all(dict(obj) for obj in objects)
    async with _opened(EmbeddedApi(server), time, config=config, plugins=plugins, random=Random(seed)) as opened:
        cluster = LiveCluster(server, *opened)
        await cluster.settle()
        yield cluster


@asynccontextmanager
async def _opened(
    api: Api,
    time: ManualTime,
    *,
    config: Mapping[str, Any] | str | os.PathLike[str] | None,
    plugins: Sequence[type[Plugin]],
    random: Chance,
    settings: SchedulerSettings | None = None,
    features: FeatureGates = DEFAULT_FEATURES,
    recorder: Recorder | None = None,
    extenders: Sequence[Extender] = (),
    askers: Mapping[str, Asker] | None = None,
) -> AsyncIterator[tuple[Scheduler, ManualTime, asyncio.Task[None]]]:
    """A scheduler that is ready, and runs until the end of the block."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    scheduler = Scheduler(
        api,
        load_config(config, plugins=registry.declarations),
        registry=registry,
        times=time,
        random=random,
        settings=settings,
        features=features,
        recorder=recorder,
        extenders=extenders,
        askers=askers,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        await _ready(scheduler, running)
        yield scheduler, time, running
    finally:
        await _stopped(running, time)


async def _ready(scheduler: Scheduler, running: asyncio.Task[None]) -> None:
    ready = asyncio.create_task(scheduler.ready.wait())
    try:
        await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ready.cancel()
    if running.done():
        running.result()


async def _stopped(running: asyncio.Task[None], time: ManualTime) -> None:
    """End a scheduler; time passes meanwhile, as it gives what is under way some seconds."""
    running.cancel()
    while not running.done():
        await asyncio.wait([running], timeout=_A_MOMENT)
        time.next_alarm(time.now + SHUTDOWN_TIMEOUT)
    await asyncio.gather(running, return_exceptions=True)
