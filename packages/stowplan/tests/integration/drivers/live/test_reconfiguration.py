"""A running scheduler that gets another configuration: what it watches, which plugins it calls, which pods it
schedules."""

import asyncio
from random import Random

import numpy as np
import pytest

from stowplan import plugins
from stowplan.drivers.live.reconfiguration import LISTS_TIMEOUT, RefusedConfigurationError
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import CSINode, Node, Pod
from stowplan.kube.config import load_config
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import Tampered
from support.extenders.running import running_extender
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.fake_extender import FakeExtender

PLAIN = configuration(profile())


def nodes(number=4, **sizes):
    return [
        a_node(f"n{i}").labels(group="ab"[i % 2]).allocatable(**{"cpu": 64, "pods": 4000} | sizes).obj()
        for i in range(number)
    ]


async def reconfigure(cluster, raw):
    scheduler = cluster.scheduler
    await scheduler.reconfigure(load_config(raw, plugins=cluster.scheduler.engine.profiles._registry.declarations))


async def turns(number=50):
    for _ in range(number):
        await asyncio.sleep(0)


# -- under load -------------------------------------------------------------------------------------------------------


class OnlyGroup(plugins.PreFilterPlugin, plugins.NodeFilterPlugin, plugins.SignPlugin, plugins.EnqueueExtensions):
    """Accepts nodes of the group in its arguments. `Witness` does the same, and checks the state that
    this one wrote."""

    name = "OnlyGroup"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.group = args["group"]

    def pre_filter(self, state, pod, nodes):
        # No other pod was processed between PreFilter and Filter.
        state.write(self.name, self.group)

    def sign_pod(self, pod):
        # All pods are equal and share the first one's evaluation.
        return {}

    def filter_node(self, state, pod, info):
        assert state.read(self.name) == self.group
        return None if info.node.metadata.labels["group"] == self.group else plugins.unschedulable("another group")

    def events_to_register(self):
        return []


class Witness(OnlyGroup):
    name = "Witness"

    def filter_node(self, state, pod, info):
        assert state.read("OnlyGroup") == self.group, "plugins of two configurations are mixed"
        return super().filter_node(state, pod, info)


def group(letter, *more):
    args = [{"name": plugin.name, "args": {"group": letter}} for plugin in (OnlyGroup, Witness)]
    return configuration(
        {**profile(preFilter=[OnlyGroup, Witness], filter=[OnlyGroup, Witness]), "pluginConfig": args}, *more
    )


async def test_fifty_reconfigurations_while_a_thousand_pods_are_scheduled():
    """No pod is lost, and each is where the configuration at its decision would put it."""
    recorded, random, number = Recorded(), Random(1), 1000
    options = {"config": group("a"), "plugins": [OnlyGroup, Witness], "recorder": recorded.recorder, "validate": False}
    async with live(*nodes(), **options) as cluster:
        scheduler, allowed = cluster.scheduler, {}
        begin = scheduler.engine.bindings.begin

        def decided(attempt):
            in_force = scheduler.frameworks["default-scheduler"]
            assert attempt.framework is in_force
            allowed[attempt.pod.name] = in_force.plugins["OnlyGroup"].group
            begin(attempt)

        scheduler.engine.bindings.begin = decided
        created = 0
        for swap in range(50):
            cluster.server.create_all([a_pod(f"p{created + i}").requests(cpu="10m").obj() for i in range(20)])
            created += 20
            await turns(random.randrange(1, 30))
            await reconfigure(cluster, group("ab"[swap % 2]))
            if swap % 10 == 0:
                scheduler.engine.validate()
        await cluster.settle()
        await cluster.advance(30.0)
        places = {f"p{i}": cluster.node_of(f"p{i}") for i in range(number)}
        scheduler.engine.validate()
        assert scheduler.engine.profiles.retired == []
    assert all(places.values()), "a pod is lost"
    wrong = [name for name, node in places.items() if "ab"[int(node[1:]) % 2] != allowed[name]]
    assert wrong == []
    assert set(allowed.values()) == {"a", "b"}
    recorded.check(OnlyGroup, Witness)


# -- pods -------------------------------------------------------------------------------------------------------------


async def test_pods_of_a_scheduler_name_that_becomes_a_profile():
    recorded = Recorded()
    async with live(*nodes(), config=PLAIN, recorder=recorded.recorder) as cluster:
        await cluster.create(a_pod("p").scheduler("other").obj(), a_pod("gone").scheduler("other").obj())
        await cluster.delete("pods", "gone")
        assert not cluster.node_of("p")
        await reconfigure(cluster, configuration(profile(), profile("other")))
        await cluster.settle()
        assert cluster.node_of("p")
        await reconfigure(cluster, PLAIN)
        await cluster.create(a_pod("q").scheduler("other").obj(), a_pod("r").obj())
        assert not cluster.node_of("q")
        assert cluster.node_of("r")
        await reconfigure(cluster, configuration(profile("other")))
        await cluster.create(a_pod("s").obj())
        assert cluster.node_of("q")
        assert not cluster.node_of("s")
    recorded.check()


@pytest.mark.parametrize("overlaps", [False, True])
async def test_while_an_extender_is_called(overlaps):
    class FakeExtenderClient:
        def __init__(self):
            self.asked, self.ended = 0, 0

        async def ask(self, verb, question):
            self.asked += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.ended += 1

    recorded, extender_client = Recorded(), FakeExtenderClient()
    extender = FakeExtender("e", filters=True, only="asks")
    options = {
        "extenders": [extender],
        "extender_clients": {"e": extender_client},
        "recorder": recorded.recorder,
        "overlaps": overlaps,
    }
    async with live(*nodes(), config=PLAIN, **options) as cluster:
        cluster.server.create_all([a_pod("p").labels(asks="yes").obj()])
        await turns()
        assert (extender_client.asked, extender_client.ended) == (1, 0)
        await reconfigure(cluster, configuration({**profile(), "percentageOfNodesToScore": 70}))
        await turns()
        assert (extender_client.asked, extender_client.ended) == (2, 1), "not called again for the new profile"
        assert cluster.place("p") is None
        await cluster.delete("pods", "p")
    recorded.check(extenders=[extender])


# -- what is watched --------------------------------------------------------------------------------------------------


WITHOUT_VOLUMES = configuration(
    profile(without={"multiPoint": ["NodeVolumeLimits", "VolumeBinding", "VolumeZone", "VolumeRestrictions"]})
)


async def test_new_kinds_are_listed_before_the_configuration_takes_effect():
    limit = {"drivers": [{"name": "csi", "nodeID": "1", "allocatable": {"count": 1}}]}
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n0"}, "spec": limit}
    recorded = Recorded()
    async with live(*nodes(), csi, config=WITHOUT_VOLUMES, recorder=recorded.recorder) as cluster:
        objects = cluster.scheduler.state.objects
        assert objects.get(CSINode, "n0") is None
        await reconfigure(cluster, PLAIN)
        assert objects.get(CSINode, "n0") is not None
        await reconfigure(cluster, WITHOUT_VOLUMES)
        cluster.server.registry.delete(cluster.api.resource("csinodes.storage.k8s.io"), "", "n0")
        await cluster.settle()
        assert objects.get(CSINode, "n0") is None, "a watched kind is no longer watched"
    recorded.check()


async def test_a_kind_that_is_not_listed_in_time_refuses_the_configuration():
    class Silent(Tampered):
        async def list(self, kind, **options):
            if kind is CSINode:
                await asyncio.Event().wait()
            return await self._api.list(kind, **options)

    async with live(*nodes(), config=WITHOUT_VOLUMES, wrap=Silent) as cluster:
        before = cluster.scheduler.configuration
        trying = asyncio.create_task(reconfigure(cluster, PLAIN))
        await turns()
        with pytest.raises(RefusedConfigurationError, match="another configuration is being applied"):
            await reconfigure(cluster, PLAIN)
        await cluster.create(a_pod("p").obj())
        assert cluster.node_of("p"), "the previous configuration is no longer in effect"
        await cluster.advance(LISTS_TIMEOUT + 1)
        with pytest.raises(RefusedConfigurationError, match=str(resource_of(CSINode))):
            await trying
        assert cluster.scheduler.configuration is before
        assert cluster.scheduler.engine.profiles.offer is None
        await cluster.create(a_pod("q").obj())
        assert cluster.node_of("q")


QUEUE = plugins.custom_resource("queues.v1.batch.example.com")


class Queued(plugins.FilterPlugin, plugins.EnqueueExtensions):
    """Needs a kind that the cluster does not serve."""

    name = "Queued"
    needs_kinds = (QUEUE,)

    def filter(self, state, pod, nodes):
        return plugins.Rejections.where(np.ones(len(nodes), np.bool_), plugins.Reason(self.name, "no queue"))

    def events_to_register(self):
        return []


async def test_a_plugin_that_lacks_its_kind_starts_disabled():
    async with live(*nodes(), config=PLAIN, plugins=[Queued]) as cluster:
        await reconfigure(cluster, configuration(profile(filter=[Queued])))
        assert cluster.scheduler.frameworks["default-scheduler"].switched_off >= {"Queued"}
        await cluster.create(a_pod("p").obj())
        assert cluster.node_of("p")


# -- what is refused --------------------------------------------------------------------------------------------------


class Unbuildable(plugins.FilterPlugin):
    name = "Unbuildable"

    def __init__(self, args, handle):
        raise ValueError("no such thing")

    def filter(self, state, pod, nodes):
        return None


async def test_a_configuration_whose_plugins_cannot_be_built():
    recorded = Recorded()
    async with live(*nodes(), config=PLAIN, plugins=[Unbuildable], recorder=recorded.recorder) as cluster:
        before = cluster.scheduler.configuration
        with pytest.raises(
            RefusedConfigurationError, match='initializing plugin "Unbuildable": ValueError: no such thing'
        ):
            await reconfigure(cluster, configuration(profile(filter=[Unbuildable])))
        assert cluster.scheduler.configuration is before
        await cluster.create(a_pod("p").obj())
        assert cluster.node_of("p")
    recorded.check(Unbuildable)


async def test_a_terminating_scheduler_refuses_configurations():
    async with live(*nodes(), config=PLAIN) as cluster:
        await cluster.scheduler.drain()
        with pytest.raises(RefusedConfigurationError, match="about to end"):
            await reconfigure(cluster, configuration(profile("other")))


# -- extenders --------------------------------------------------------------------------------------------------------


async def test_extenders_are_added_and_removed():
    with running_extender() as extender:
        extender.dislikes("n0", "n1", "n2")
        with_it = configuration(profile(), extenders=[extender.settings("good", "filter")])
        async with live(*nodes(), config=PLAIN, overlaps=False) as cluster:
            cluster.scheduler._documents.kinds = frozenset()
            cluster.scheduler._documents._kept.clear()
            await cluster.create(a_pod("before").obj())
            await reconfigure(cluster, with_it)
            assert cluster.scheduler._documents.kinds == {Pod, Node}
            assert len(cluster.scheduler._documents) >= 5, "existing objects were not listed again"
            cluster.server.create_all([a_pod("p").obj()])
            await turns()
            if asking := [task for task in asyncio.all_tasks() if task.get_name().startswith("filter of ")]:
                await asyncio.wait(asking)
            await cluster.settle()
            assert cluster.node_of("p") == "n3"
            (asked,) = extender.asked()
            assert "uid" in asked.body["Nodes"]["items"][0]["metadata"]
            await reconfigure(cluster, PLAIN)
            await cluster.create(a_pod("q").obj())
            assert cluster.node_of("q")
            assert extender.asked() == []
