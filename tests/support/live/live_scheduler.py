"""A Scheduler on an embedded API, in one event loop, with virtual time."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

from msgspec.structs import replace

from stowplan.drivers.hang_guard.guarded_plugins import register_guarded
from stowplan.drivers.live.scheduler import SHUTDOWN_TIMEOUT, Scheduler, SchedulerSettings
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.engine import TICK
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.controllers.controller_manager import set_up_controllers
from support.api.embedded import Api

#: Turns of the event loop without any work after which nothing is in progress.
_CALM = 20
#: Real seconds that a stopping scheduler may take without virtual time passing.
_A_MOMENT = 0.02


class Live:
    """The API server, the scheduler, and what a test does to them. Objects are dicts, kinds are named as in URLs."""

    def __init__(self, api, port, scheduler, time, running):
        self.api = api
        #: The Api that the scheduler has: `wrap`'s, if there is one.
        self.port = port
        self.server = api.server
        self.scheduler = scheduler
        self.time = time
        self._running = running

    def plugin(self, name, profile=DEFAULT_SCHEDULER_NAME):
        """A profile's instance of a plugin."""
        return self.scheduler.frameworks[profile].plugins[name]

    # -- doing --------------------------------------------------------------------------------------------------------

    async def create(self, *objects):
        """Create objects from dicts, in order, before the scheduler sees the first of them."""
        self.server.create_all(objects)
        await self.settle()

    async def patch(self, plural, name, patch, *, namespace="default"):
        """Merge a patch into an object."""
        resource = self.api.resource(plural)
        self.server.registry.patch(resource, _scoped(resource, namespace), name, patch, kind="merge")
        await self.settle()

    async def delete(self, plural, name, *, namespace="default"):
        """Delete an object at once, without grace period."""
        resource = self.api.resource(plural)
        options = DeleteOptions(grace_period_seconds=0)
        self.server.registry.delete(resource, _scoped(resource, namespace), name, options=options)
        await self.settle()

    async def advance(self, seconds):
        """Advance time: timeouts and backoffs end."""
        await self.time.advance(seconds, settle=self.settle)

    async def settle(self, turns=100_000):
        """Run everything that needs no time; fails if it does not come to an end."""
        # A test may have moved a pod in the queue directly.
        self.scheduler.submit(TICK)
        calm = 0
        for _ in range(turns):
            await asyncio.sleep(0)
            if self._running.done():
                self._running.result()
            calm = 0 if self.scheduler.busy else calm + 1
            if calm > _CALM:
                return
        raise AssertionError("the scheduler does not settle")

    # -- looking ------------------------------------------------------------------------------------------------------

    def get(self, plural, name, *, namespace="default"):
        """An object from the API server; NotFound if there is none."""
        resource = self.api.resource(plural)
        return self.server.registry.get(resource, _scoped(resource, namespace), name).to_dict()

    def pod(self, name, namespace="default"):
        return self.get("pods", name, namespace=namespace)

    def node_of(self, pod, *, namespace="default"):
        """The pod's node; "" if it has none."""
        return self.pod(pod, namespace)["spec"].get("nodeName", "")

    def condition(self, name, type_="PodScheduled", namespace="default"):
        conditions = self.pod(name, namespace).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), None)

    def why_pending(self, pod, *, namespace="default"):
        """The message of its PodScheduled condition; "" if there is none."""
        return (self.condition(pod, namespace=namespace) or {}).get("message", "")

    def events(self, about="", reason=""):
        """The Events, in order: all of them, or those about objects of that name, or with that reason."""
        events = (stored.to_dict() for stored in self.server.store.list("events", ""))
        return [
            event
            for event in events
            if about in ("", event.get("regarding", {}).get("name")) and reason in ("", event["reason"])
        ]

    def place(self, name, namespace="default"):
        """The pod's place in the queue; None if it is not queued."""
        queued = self.scheduler.queue.get(f"{namespace}/{name}")
        return None if queued is None else queued.place


def _scoped(resource, namespace):
    return namespace if resource.namespaced else ""


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
    tracer=None,
    validate=True,
    extenders=None,
    extender_clients=None,
    overlaps=True,
    guard=None,
    kubernetes=None,
):
    """A scheduler that runs.

    `kubernetes` is the version of the API server, by default that of `features`; `wrap` may wrap the scheduler's Api;
    `validate` has a cost that grows with the cluster.
    """
    settings = replace(settings or SchedulerSettings(), validate=validate, overlaps=overlaps)
    time = time or ManualTime()
    api = Api(clock=time.wall_clock, version=kubernetes or features.emulated_version)
    # No controller removes a new node's taint here.
    set_up_controllers(api.server, controllers=())
    api.server.create_all(objects)
    documents = Documents((Node, Pod))
    port = EmbeddedApi(api.server, documents=documents)
    if wrap is not None:
        port = wrap(port)
    options = {
        "config": config,
        "plugins": plugins,
        "settings": settings,
        "features": features,
        "recorder": recorder,
        "tracer": tracer,
        "guard": guard,
    }
    options |= {"extenders": extenders, "extender_clients": extender_clients, "documents": documents}
    async with opened(port, time, random=random or Random(1), **options) as found:
        cluster = Live(api, port, *found)
        await cluster.settle()
        yield cluster


@asynccontextmanager
async def opened(
    api,
    time,
    *,
    config,
    plugins,
    random,
    settings=None,
    features=DEFAULT_FEATURES,
    recorder=None,
    tracer=None,
    extenders=None,
    extender_clients=None,
    documents=None,
    guard=None,
):
    """A scheduler that is ready, and runs until the end of the block; with its time and its task."""
    registry = in_tree_registry()
    if guard is None:
        for plugin in plugins:
            registry.register(plugin)
    else:
        register_guarded(registry, plugins, guard)
    scheduler = Scheduler(
        api,
        load_config(config, plugins=registry.declarations, features=features),
        registry=registry,
        times=time,
        random=random,
        settings=settings,
        features=features,
        recorder=recorder,
        tracer=tracer,
        extenders=extenders,
        extender_clients=extender_clients,
        documents=documents,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        await _ready(scheduler, running)
        yield scheduler, time, running
    finally:
        await stopped(running, time)


async def _ready(scheduler, running):
    ready = asyncio.create_task(scheduler.ready.wait())
    try:
        await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ready.cancel()
    if running.done():
        running.result()


async def stopped(running, time):
    """Stop a scheduler; time advances meanwhile, as it waits some seconds for work in progress."""
    running.cancel()
    while not running.done():
        await asyncio.wait([running], timeout=_A_MOMENT)
        time.next_alarm(time.now + SHUTDOWN_TIMEOUT)
    await asyncio.gather(running, return_exceptions=True)
