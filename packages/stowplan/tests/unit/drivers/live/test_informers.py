"""Concurrent first lists, kinds that the cluster lacks, and kinds that are served later.

The server serves some kinds, forbids others, and lacks the rest; tests change that under a manual clock.
"""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from stowplan.drivers.live.informers import FIRST_LISTS_WARNING_DELAY, Informers
from stowplan.kube.api.api_errors import Forbidden, NotFound, ServiceUnavailable
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Listing, Unreachable
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import (
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
)
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.scheduler.engine.watched_kind import UNFINISHED, WatchedKind

NOT_SERVED = NotFound("the server could not find the requested resource")
FORBIDDEN = Forbidden("not for you")
DOWN = Unreachable("connection refused")
CORE = (WatchedKind(Node), WatchedKind(Pod), WatchedKind(Namespace))
CLAIMS = WatchedKind(ResourceClaim, frozenset({"DynamicResources"}))
CLASSES = WatchedKind(DeviceClass, frozenset({"DynamicResources"}))
CAPACITIES = WatchedKind(CSIStorageCapacity, frozenset({"VolumeBinding"}))
CSI_NODES = WatchedKind(CSINode, frozenset({"VolumeBinding", "NodeVolumeLimits"}))
BUDGETS = WatchedKind(PodDisruptionBudget, read_by=frozenset({"DefaultPreemption"}))


def an(kind):
    return convert({"metadata": {"name": "x"}}, kind)


class PatchyApi:
    """Lists are empty, or fail as in `refusals`; watches never end."""

    def __init__(self, refusals=None, unserved=()):
        self.refusals = dict(refusals or {})
        self.unserved = set(unserved)
        self.lists = Counter()
        self.asked = Counter()
        self.selectors = {}
        #: Lists of these kinds never return.
        self.stuck = set()

    async def list(self, kind, *, field_selector="", **rest):
        self.lists[kind] += 1
        self.selectors[kind] = field_selector
        await asyncio.sleep(0)
        if kind in self.stuck:
            await asyncio.Event().wait()
        if kind in self.refusals:
            raise self.refusals[kind]
        return Listing([an(kind)] if kind is Namespace else [], "1")

    async def watch(self, kind, **rest):
        await asyncio.Event().wait()
        yield

    async def serves(self, kind):
        self.asked[kind] += 1
        if isinstance(self.refusals.get("serves"), Exception):
            raise self.refusals["serves"]
        return kind not in self.unserved


class Run:
    def __init__(self, api, kinds, time):
        self.api, self.time = api, time
        #: What happened, in order.
        self.log = []
        self.lines = []
        self.informers = Informers(
            api,
            kinds=kinds,
            receiver=self,
            times=time,
            report=self.lines.append,
        )

    # The receiver's interface

    def handle(self, kind, changes):
        self.log.append(("deliver", kind.__name__, len(changes)))

    def switch_off(self, names):
        self.log.append(("off", *sorted(names)))

    def switch_on(self, names):
        self.log.append(("on", *sorted(names)))


def receiving(handle):
    """A receiver of a cluster that serves everything."""
    return SimpleNamespace(handle=handle, switch_off=pytest.fail, switch_on=pytest.fail)


@asynccontextmanager
async def running(api, *kinds):
    run = Run(api, kinds, ManualTime(0.0))
    task = asyncio.create_task(run.informers.run())
    await settle()
    try:
        yield run
    finally:
        assert not task.done() or task.exception() is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# -- all kinds served --------------------------------------------------------------------------------------------------


async def test_first_lists_run_concurrently():
    api = PatchyApi()
    api.stuck = {kind.kind for kind in (*CORE, CLAIMS)}
    async with running(api, *CORE, CLAIMS) as run:
        assert api.lists == dict.fromkeys(api.stuck, 1)
        assert not run.informers.synced.is_set()
        assert set(run.informers.awaited) == {"nodes", "pods", "namespaces", "resourceclaims.resource.k8s.io"}


async def test_finished_pods_are_not_listed():
    api = PatchyApi()
    async with running(api, *CORE):
        assert api.selectors == {Pod: UNFINISHED, Node: "", Namespace: ""}


async def test_synced_comes_after_the_deliveries():
    api = PatchyApi()
    async with running(api, WatchedKind(Namespace)) as run:
        assert run.informers.synced.is_set()
        assert run.log == [("deliver", "Namespace", 1)]
        assert run.lines == []


async def test_an_exception_of_the_receiver_is_raised():
    def deliver(kind, changes):
        raise RuntimeError("bug")

    informers = Informers(
        PatchyApi(),
        kinds=CORE,
        receiver=receiving(deliver),
        times=ManualTime(0.0),
        report=pytest.fail,
    )
    with pytest.raises(ExceptionGroup) as caught:
        await informers.run()
    assert [str(one) for one in caught.value.exceptions] == ["bug"]


# -- kinds that are not served -----------------------------------------------------------------------------------------

LACKING = "is not served by the cluster"
AGAIN = "looked for again every 60 s"


async def test_plugins_that_lack_a_kind_are_disabled_with_one_line():
    """Two kinds of one group are missing: one plugin, one line."""
    api = PatchyApi({ResourceClaim: NOT_SERVED, DeviceClass: NOT_SERVED})
    async with running(api, *CORE, CLAIMS, CLASSES) as run:
        assert run.informers.synced.is_set()
        assert run.informers.missing == {ResourceClaim, DeviceClass}
        assert [entry for entry in run.log if entry[0] != "deliver"] == [("off", "DynamicResources")]
        assert run.lines == [f"resourceclaims.resource.k8s.io {LACKING}, DynamicResources is switched off; {AGAIN}"]


async def test_only_enabled_plugins_are_disabled():
    api = PatchyApi({CSIStorageCapacity: NOT_SERVED, CSINode: NOT_SERVED})
    async with running(api, CAPACITIES, CSI_NODES) as run:
        assert run.log == [("off", "VolumeBinding"), ("off", "NodeVolumeLimits")]
        assert len(run.lines) == 2


@pytest.mark.parametrize(
    ("watched", "line"),
    [
        pytest.param(
            BUDGETS,
            f"poddisruptionbudgets.policy {LACKING}, DefaultPreemption is going on without; {AGAIN}",
            id="optional for its plugin",
        ),
        pytest.param(WatchedKind(CSINode), f"csinodes.storage.k8s.io {LACKING}; {AGAIN}", id="only events wanted"),
        pytest.param(
            CSI_NODES,
            f"csinodes.storage.k8s.io {LACKING}, NodeVolumeLimits, VolumeBinding are switched off; {AGAIN}",
            id="two plugins",
        ),
    ],
)
async def test_log_lines(watched, line):
    async with running(PatchyApi({watched.kind: NOT_SERVED}), watched) as run:
        assert run.lines == [line]
        assert [entry[0] for entry in run.log] == (["off"] if watched.needed_by else [])
        assert run.informers.synced.is_set()


async def test_discovery_of_a_missing_kind_is_repeated_silently():
    api = PatchyApi({DeviceClass: NOT_SERVED})
    async with running(api, CLASSES) as run:
        await run.time.advance(59.9)
        assert api.lists[DeviceClass] == 1
        await run.time.advance(0.1)
        assert api.lists[DeviceClass] == 2
        await run.time.advance(600)
        assert api.lists[DeviceClass] == 12
        assert len(run.lines) == 1
        assert run.log == [("off", "DynamicResources")]


async def test_plugins_of_a_new_kind_are_enabled_after_its_delivery():
    watched = WatchedKind(Namespace, frozenset({"P"}))
    api = PatchyApi({ResourceClaim: NOT_SERVED})
    async with running(api, watched, CLAIMS) as run:
        del api.refusals[ResourceClaim]
        await run.time.advance(60)
        assert run.log == [("deliver", "Namespace", 1), ("off", "DynamicResources"), ("on", "DynamicResources")]
        assert run.lines[1:] == [
            "resourceclaims.resource.k8s.io is served by the cluster now, DynamicResources is switched on"
        ]
        assert run.informers.missing == set()
        await run.time.advance(600)
        assert api.lists[ResourceClaim] == 2, "it is not watched"


class DefinedLater(PatchyApi):
    """Its lists have an object."""

    async def list(self, kind, **rest):
        await super().list(kind, **rest)
        return Listing([an(kind)], "1")


async def test_plugins_are_enabled_only_after_the_first_delivery():
    api = DefinedLater({ResourceClaim: NOT_SERVED})
    async with running(api, CLAIMS) as run:
        del api.refusals[ResourceClaim]
        await run.time.advance(60)
        assert run.log == [("off", "DynamicResources"), ("deliver", "ResourceClaim", 1), ("on", "DynamicResources")]


async def test_a_plugin_stays_disabled_until_all_its_kinds_are_served():
    api = PatchyApi({ResourceClaim: NOT_SERVED, DeviceClass: NOT_SERVED})
    async with running(api, CLAIMS, CLASSES) as run:
        del api.refusals[ResourceClaim]
        await run.time.advance(60)
        assert run.log == [("off", "DynamicResources")]
        assert run.lines[-1] == "resourceclaims.resource.k8s.io is served by the cluster now"
        del api.refusals[DeviceClass]
        await run.time.advance(60)
        assert run.log[1:] == [("on", "DynamicResources")]


@pytest.mark.parametrize("kind", [Node, Pod, Namespace])
async def test_core_kinds_are_waited_for(kind):
    """A starting server may respond like this for a moment."""
    api = PatchyApi({kind: NOT_SERVED})
    async with running(api, *CORE) as run:
        assert not run.informers.synced.is_set()
        assert run.informers.missing == set()
        del api.refusals[kind]
        await run.time.advance(1)
        assert run.informers.synced.is_set()


# -- errors ------------------------------------------------------------------------------------------------------------


async def test_forbidden_kinds_are_logged_once_and_retried():
    api = PatchyApi({CSINode: FORBIDDEN})
    async with running(api, *CORE, CSI_NODES) as run:
        await run.time.advance(120)
        assert run.lines == [
            "listing csinodes.storage.k8s.io: not for you",
            "waiting for the first list of csinodes.storage.k8s.io: not for you",
        ]
        assert run.informers.awaited == {"csinodes.storage.k8s.io": "not for you"}
        assert not run.informers.synced.is_set()
        assert 4 < api.lists[CSINode] < 12, "not retried with backoff"
        assert api.asked[CSINode] == 1
        del api.refusals[CSINode]
        await run.time.advance(30)
        assert run.informers.synced.is_set()
        assert run.lines[2:] == ["listing and watching csinodes.storage.k8s.io works again"]
        assert ("off", "NodeVolumeLimits", "VolumeBinding") not in run.log


async def test_forbidden_kinds_that_do_not_exist_count_as_missing():
    """The scheduler's role in an older cluster does not list kinds that do not exist there."""
    api = PatchyApi({ResourceClaim: FORBIDDEN}, unserved={ResourceClaim})
    async with running(api, CLAIMS) as run:
        assert run.informers.synced.is_set()
        assert run.lines == [f"resourceclaims.resource.k8s.io {LACKING}, DynamicResources is switched off; {AGAIN}"]
        await run.time.advance(60)
        assert len(run.lines) == 1
        api.unserved.clear()
        await run.time.advance(60)
        assert run.lines[1:] == ["listing resourceclaims.resource.k8s.io: not for you"]
        assert run.log == [("off", "DynamicResources")]
        api.refusals.clear()
        await run.time.advance(60)
        assert run.log[1:] == [("on", "DynamicResources")]


@pytest.mark.parametrize("error", [DOWN, FORBIDDEN])
async def test_failed_discovery_counts_as_served(error):
    api = PatchyApi({CSINode: FORBIDDEN, "serves": error})
    async with running(api, CSI_NODES) as run:
        assert run.informers.missing == set()
        assert run.lines == ["listing csinodes.storage.k8s.io: not for you"]


@pytest.mark.parametrize("error", [DOWN, ServiceUnavailable("starting")], ids=["down", "starting"])
async def test_an_unreachable_server_disables_nothing(error):
    api = PatchyApi({kind.kind: error for kind in (*CORE, CLAIMS)})
    async with running(api, *CORE, CLAIMS) as run:
        assert len(run.lines) == 4
        assert run.informers.missing == set()
        api.refusals = {ResourceClaim: NOT_SERVED}
        await run.time.advance(1)
        assert run.informers.synced.is_set()
        assert run.informers.missing == {ResourceClaim}


async def test_startup_logs_what_it_waits_for():
    api = PatchyApi({Node: FORBIDDEN})
    api.stuck = {Pod}
    async with running(api, *CORE) as run:
        assert run.lines == ["listing nodes: not for you"]
        await run.time.advance(FIRST_LISTS_WARNING_DELAY)
        assert run.lines[1:] == [
            "waiting for the first list of nodes: not for you",
            "waiting for the first list of pods",
        ]
        await run.time.advance(100)
        assert len(run.lines) == 3


async def test_an_error_of_several_kinds_is_logged_once():
    api = PatchyApi({Node: FORBIDDEN, Pod: FORBIDDEN, Namespace: DOWN})
    async with running(api, *CORE) as run:
        await run.time.advance(FIRST_LISTS_WARNING_DELAY)
        assert [line for line in run.lines if line.startswith("waiting")] == [
            "waiting for the first list of nodes, pods: not for you",
            f"waiting for the first list of namespaces: {DOWN}",
        ]


async def test_a_kind_that_vanishes_disables_nothing():
    """Its objects stay as last seen, and the failure is logged."""

    class Vanishing(PatchyApi):
        async def watch(self, kind, **rest):
            await asyncio.sleep(0)
            raise NOT_SERVED
            yield

    async with running(Vanishing(), CLAIMS) as run:
        await run.time.advance(10)
        assert run.log == []
        assert run.lines == [f"watching {resource_of(ResourceClaim)}: {NOT_SERVED}"]


async def test_kinds_of_a_refused_configuration_switch_no_plugin():
    api = PatchyApi({DeviceClass: NOT_SERVED})
    async with running(api, CLAIMS) as run:
        api.stuck.add(CSINode)
        trying = asyncio.create_task(run.informers.try_out([CLAIMS, CLASSES, CSI_NODES]))
        await settle()
        trying.cancel()
        assert run.informers.give_up() == ["csinodes.storage.k8s.io"]
        del api.refusals[DeviceClass]
        await run.time.advance(60)
        assert run.log == []
        assert run.lines[-1] == "deviceclasses.resource.k8s.io is served by the cluster now"
