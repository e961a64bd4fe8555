"""A Scheduler on an embedded API, in one event loop, with time that passes only when a test says so."""

from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from stowplan.config import DEFAULT_FEATURES
from stowplan.engine.engine import TICK
from stowplan.live.scheduler import SchedulerSettings
from stowplan.timing.manual_time import ManualTime
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.controllers.controller_manager import set_up_controllers
from stowplan_cluster.testing import LiveCluster, _opened
from support.api.embedded import Api


class Live(LiveCluster):
    """What plugin authors test with, and more to look at; here everything has to come to rest."""

    def __init__(self, api, *opened):
        super().__init__(api.server, *opened)
        self.api = api

    async def settle(self, turns=100_000):
        # A test may have moved a pod in the queue behind the engine's back.
        self.scheduler.submit(TICK)
        assert await super().settle(turns), "the scheduler does not come to rest"
        return True

    async def create(self, *objects):
        """Create dicts as Kubernetes has them, in order, before the scheduler sees the first of them."""
        self.server.create_all(objects)
        await self.settle()

    def pod(self, name, namespace="default"):
        return self.get("pods", name, namespace=namespace)

    def condition(self, name, type_="PodScheduled", namespace="default"):
        conditions = self.pod(name, namespace).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), None)

    def place(self, name, namespace="default"):
        """Where the queue has a pod; None when it does not."""
        queued = self.scheduler.queue.get(f"{namespace}/{name}")
        return None if queued is None else queued.place


@asynccontextmanager
async def live(
    *objects,
    config=None,
    plugins=(),
    random=None,
    settings=None,
    features=DEFAULT_FEATURES,
    wrap=None,
    time=None,
    recorder=None,
    validate=True,
    extenders=(),
    askers=None,
):
    """`wrap` may put something between the scheduler and the API; `validate` has a cost that grows with the cluster."""
    settings = replace(settings or SchedulerSettings(), validate=validate)
    time = time or ManualTime()
    api = Api(clock=time.wall_clock)
    # Nobody here would take a new node's taint away.
    set_up_controllers(api.server, controllers=())
    api.server.create_all(objects)
    port = EmbeddedApi(api.server)
    if wrap is not None:
        port = wrap(port)
    options = {"config": config, "plugins": plugins, "settings": settings, "features": features, "recorder": recorder}
    options |= {"extenders": extenders, "askers": askers}
    async with _opened(port, time, random=random or Random(1), **options) as opened:
        cluster = Live(api, *opened)
        await cluster.settle()
        yield cluster
