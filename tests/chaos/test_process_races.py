"""An object changes or disappears at each moment of a pod's way to its node; afterwards the scheduler's state matches
the API."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from stowplan.drivers.live.scheduler import Scheduler
from stowplan.kube.api.api_errors import Conflict
from stowplan.kube.config import load_config
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.live.live_scheduler import live
from support.soak.changes import CONFIG, PREPARES, WAITS, delaying_plugin
from support.soak.checks import equals_a_rebuild, every_pod_is_bound_or_rightly_pending, nothing_is_under_way

POD, SMALL, LARGE = "pod", "small", "large"


class Held:
    """An API whose binds stop where a test says: before they are carried out, or before the response."""

    def __init__(self, api):
        self._api = api
        self.at = ""
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.binds = 0

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def bind(self, **options):
        self.binds += 1
        await self._stop("bind is on its way")
        await self._api.bind(**options)
        await self._stop("its answer is on its way")

    async def _stop(self, where):
        if where == self.at:
            self.at = ""
            self.reached.set()
            await self.go_on.wait()


def annotated(name, **annotations):
    pod = a_pod(name).requests(cpu="1").obj()
    pod["spec"]["schedulerName"] = "delaying"
    pod["metadata"]["annotations"] = annotations
    return pod


class World:
    def __init__(self, cluster, held):
        self.cluster, self.held = cluster, held
        self.nodes = []
        cluster.api.store.on_change(self._written)

    def _written(self, event):
        stored = event.stored
        if stored.resource == "pods" and event.type != "DELETED":
            node = stored.to_dict()["spec"].get("nodeName", "")
            if node and (stored.uid, node) not in self.nodes:
                self.nodes.append((stored.uid, node))

    async def turns(self, number=300):
        for _ in range(number):
            await asyncio.sleep(0)

    def delete(self, plural, name):
        resource = self.cluster.server.catalogue.of_storage(plural)
        namespace = "default" if plural == "pods" else ""
        options = DeleteOptions(grace_period_seconds=0)
        self.cluster.server.registry.delete(resource, namespace, name, options=options)

    async def _nothing_is_waiting(self):
        for waiting in tuple(self.cluster.scheduler.waiting_pods):
            waiting.allow("Delaying")
        await self.turns(40)

    async def checked(self):
        self.held.go_on.set()
        time = self.cluster.time
        await time.advance(31.0, settle=partial(self.turns, 40))
        await time.advance(60.0, settle=self._nothing_is_waiting)
        await self.turns()
        scheduler = self.cluster.scheduler
        assert len({uid for uid, _ in self.nodes}) == len(self.nodes), "a pod was bound twice"
        nothing_is_under_way(scheduler)
        equals_a_rebuild(self.cluster.api, scheduler.state)
        every_pod_is_bound_or_rightly_pending(self.cluster.api, scheduler)


WAYS = {
    "waits on Permit": lambda world: annotated(POD, **{WAITS: "30"}),
    "is in PreBind": lambda world: annotated(POD, **{PREPARES: "30"}),
    "bind is on its way": lambda world: annotated(POD),
    "its answer is on its way": lambda world: annotated(POD),
}


async def the_node_is_deleted(world):
    world.delete("nodes", LARGE)


async def the_node_is_recreated(world):
    world.delete("nodes", LARGE)
    await world.turns()
    world.cluster.server.create_all([a_node(LARGE).allocatable(cpu="8").obj()])


async def the_node_shrinks(world):
    node = world.cluster.server.catalogue.of_storage("nodes")
    patch = {"status": {"allocatable": {"cpu": "0"}, "capacity": {"cpu": "0"}}}
    world.cluster.server.registry.patch(node, "", LARGE, patch, kind="merge", subresource="status")


async def the_pod_is_deleted(world):
    world.delete("pods", POD)


async def the_pod_is_replaced(world):
    world.delete("pods", POD)
    world.cluster.server.create_all([annotated(POD)])


async def the_pod_is_terminating(world):
    pods = world.cluster.server.catalogue.of_storage("pods")
    options = DeleteOptions(grace_period_seconds=30)
    world.cluster.server.registry.delete(pods, "default", POD, options=options)


async def another_client_binds_it(world):
    with suppress(Conflict):
        world.cluster.server.registry.bind("default", POD, {"metadata": {"name": POD}, "target": {"name": SMALL}})


EVENTS = [
    the_node_is_deleted,
    the_node_is_recreated,
    the_node_shrinks,
    the_pod_is_deleted,
    the_pod_is_replaced,
    the_pod_is_terminating,
    another_client_binds_it,
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("moment", WAYS)
async def test_a_change_while_the_pod_is(moment, event):
    made = []

    def wrap(api):
        made.append(Held(api))
        return made[0]

    nodes = [a_node(LARGE).allocatable(cpu="8").obj(), a_node(SMALL).allocatable(cpu="1").obj()]
    # Created late: the plugin sleeps by the cluster's time.
    late = []
    sleeping = delaying_plugin(lambda seconds: late[0].time.sleep(seconds))
    async with live(*nodes, config=CONFIG, plugins=[sleeping], wrap=wrap) as cluster:
        late.append(cluster)
        (held,) = made
        world = World(cluster, held)
        held.at = moment
        cluster.server.create_all([WAYS[moment](world)])
        await world.turns(2000)
        scheduler = cluster.scheduler
        uid = cluster.pod(POD)["metadata"]["uid"]
        assert scheduler.state.is_assumed(uid) or moment == "its answer is on its way"
        assert held.reached.is_set() == ("on its way" in moment)
        await event(world)
        await world.turns()
        await world.checked()


async def test_after_a_crash_while_binding_the_next_scheduler_binds_the_rest():
    """For each number of completed binds, some of them without a response."""
    for answered in range(0, 12, 3):
        await _dies_after(answered)


async def _dies_after(answered):
    nodes = [a_node(f"n{i}").allocatable(cpu="4").obj() for i in range(3)]
    pods = [a_pod(f"p{i}").requests(cpu="1").obj() for i in range(14)]
    made = []

    def wrap(api):
        made.append(Dying(api, answered))
        return made[0]

    async with live(*nodes, wrap=wrap) as cluster:
        world = World(cluster, Held(None))
        cluster.server.create_all(pods)
        await world.turns(3000)
        (dying,) = made
        assert dying.dead
        registry = in_tree_registry()
        successor = Scheduler(
            dying.api,
            load_config(None, plugins=registry.declarations),
            registry=registry,
            times=cluster.time,
        )
        running = asyncio.create_task(successor.run())
        for _ in range(10):
            cluster.time.next_alarm(cluster.time.now + 60)
            await world.turns(500)
        assert len({uid for uid, _ in world.nodes}) == len(world.nodes) == 12
        equals_a_rebuild(cluster.api, successor.state)
        assert every_pod_is_bound_or_rightly_pending(cluster.api, successor) == 2
        running.cancel()
        while not running.done():
            await world.turns(50)
            cluster.time.next_alarm(cluster.time.now + 10)
        await asyncio.gather(running, return_exceptions=True)


class Dying:
    """An API that answers this many binds; then it carries out every other one, and responds to nothing."""

    def __init__(self, api, answered):
        self.api = api
        self._left = answered
        self._others = 0
        self.dead = False

    def __getattr__(self, name):
        return getattr(self.api, name)

    async def bind(self, **options):
        self._left -= 1
        if self._left >= 0:
            await self.api.bind(**options)
            return
        self.dead = True
        self._others += 1
        if self._others % 2:
            await self.api.bind(**options)
        await asyncio.Event().wait()

    async def patch(self, *args, **options):
        return await (asyncio.Event().wait() if self.dead else self.api.patch(*args, **options))

    async def create(self, *args, **options):
        return await (asyncio.Event().wait() if self.dead else self.api.create(*args, **options))
