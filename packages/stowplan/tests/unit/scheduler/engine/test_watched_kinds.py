"""The kinds that a scheduler watches, derived from its profiles and the events of their plugins."""

import pytest

from stowplan.kube.api import types as t
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.plugins import EnqueueExtensions, NodeScorePlugin
from stowplan.scheduler.cluster.objects import STORED
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.watched_kind import CORE, UNFINISHED, WatchedKind
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.framework.events import ANY, Action, on
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.framework.sources import Source
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.plugins.answering_plugins import configuration
from support.plugins.fake_plugins import fake

STORAGE = {t.PersistentVolumeClaim, t.PersistentVolume, t.StorageClass, t.CSINode, t.CSIDriver, t.CSIStorageCapacity}
DEVICES = {t.ResourceClaim, t.ResourceSlice, t.DeviceClass}
OWNERS = {t.Service, t.ReplicationController, t.ReplicaSet, t.StatefulSet}
DEFAULT = {*CORE, *STORAGE, t.VolumeAttachment, *DEVICES, t.DeviceTaintRule, *OWNERS, t.PodDisruptionBudget}
BARE = {"multiPoint": {"enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}}


def frameworks(*profiles, plugins=()):
    registry = in_tree_registry()
    registry.merge(Registry(plugins))
    raw = configuration(*[{"schedulerName": f"s{i}", **profile} for i, profile in enumerate(profiles)])
    config = load_config(raw, plugins=registry.declarations)
    return [
        Framework(profile, registry, Handle(cluster=ClusterState(), profile_name="x", features=DEFAULT_FEATURES))
        for profile in config.profiles
    ]


def kinds_of(*profiles, plugins=()):
    return watched_kinds(frameworks(*profiles, plugins=plugins), report=pytest.fail)


def bare_with(*names):
    enabled = [*BARE["multiPoint"]["enabled"], *({"name": name} for name in names)]
    return {"plugins": {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}}


def waiting_for(name, *resources):
    class Waiting(fake(name, filter=None), EnqueueExtensions):
        def events_to_register(self):
            return [on(resource, Action.Add) for resource in resources]

    Waiting.name = name
    return Waiting


def test_the_default_profile_watches_what_the_reference_does():
    found = kinds_of({})
    assert {watched.kind for watched in found} == DEFAULT
    assert len(found) == len(DEFAULT)
    assert [watched.kind for watched in found[:3]] == list(CORE), "the most important kinds come first"


def test_kinds_that_plugins_look_up_are_stored():
    assert DEFAULT - {t.Pod, t.Node} <= set(STORED)


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        pytest.param([], set(), id="nothing"),
        pytest.param(["NodePorts", "InterPodAffinity", "NodeAffinity"], set(), id="events of pods and nodes"),
        pytest.param(["DefaultPreemption"], {t.PodDisruptionBudget}, id="preemption"),
        pytest.param(["PodTopologySpread"], OWNERS, id="spreading"),
        pytest.param(["VolumeRestrictions"], {t.PersistentVolumeClaim, t.PersistentVolume}, id="VolumeRestrictions"),
        pytest.param(["VolumeZone"], {t.PersistentVolumeClaim, t.PersistentVolume, t.StorageClass}, id="VolumeZone"),
        pytest.param(["VolumeBinding"], STORAGE, id="VolumeBinding"),
        pytest.param(["NodeVolumeLimits"], STORAGE - {t.CSIStorageCapacity} | {t.VolumeAttachment}, id="limits"),
        pytest.param(["DynamicResources"], DEVICES | {t.DeviceTaintRule}, id="devices"),
    ],
)
def test_only_kinds_that_a_plugin_reads_are_watched(names, kinds):
    found = kinds_of(bare_with(*names))
    assert {watched.kind for watched in found} == {*CORE, *kinds}
    for watched in found:
        assert set(watched.needed_by) | set(watched.read_by) <= set(names)
        if watched.kind is not t.DeviceTaintRule:
            # Rules are only registered for: without them, devices have the taints of their drivers.
            assert watched.core != bool(watched.needed_by or watched.read_by)


def test_extended_resources_may_be_of_device_classes():
    assert kinds_of(bare_with("NodeResourcesFit"))[len(CORE) :] == (WatchedKind(t.DeviceClass),)


def test_kinds_needed_by_any_profile_are_watched():
    found = kinds_of(bare_with("DynamicResources"), bare_with("VolumeZone"))
    assert {watched.kind for watched in found} >= {t.ResourceClaim, t.StorageClass}


@pytest.mark.parametrize(
    ("args", "watched"),
    [
        pytest.param({}, True, id="the system's"),
        pytest.param({"defaultingType": "List"}, False, id="none"),
        pytest.param(
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            },
            True,
            id="some",
        ),
    ],
)
def test_owners_are_watched_for_default_constraints_alone(args, watched):
    profile = {**bare_with("PodTopologySpread"), "pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    assert {found.kind for found in kinds_of(profile)} >= OWNERS if watched else len(kinds_of(profile)) == len(CORE)


def test_plugins_that_need_a_kind_or_only_read_it():
    found = {watched.kind: watched for watched in kinds_of({})}
    needed = {kind.__name__: sorted(watched.needed_by) for kind, watched in found.items() if watched.needed_by}
    assert needed["ResourceSlice"] == ["DynamicResources"]
    assert needed["CSIStorageCapacity"] == ["VolumeBinding"]
    assert needed["VolumeAttachment"] == ["NodeVolumeLimits"]
    assert not {"PodDisruptionBudget", "Service", "Node"} & set(needed)
    assert found[t.PodDisruptionBudget].read_by == {"DefaultPreemption"}
    assert found[t.StatefulSet].read_by == {"PodTopologySpread"}


def test_finished_pods_are_not_watched():
    assert [watched.field_selector for watched in kinds_of({})[:3]] == ["", UNFINISHED, ""]


# -- what users' plugins wait for -------------------------------------------------------------------------------------

QUEUES = "queues.v1.batch.example.com"


def test_custom_resources_are_watched_and_needed():
    plugin = waiting_for("Gate", QUEUES, "Pod", "Node")
    found = kinds_of(bare_with("Gate"), plugins=[plugin])
    assert found[len(CORE) :] == (WatchedKind(custom_resource(QUEUES), frozenset({"Gate"})),)


def test_a_resource_of_two_plugins_is_watched_once():
    plugins = [waiting_for("Gate", QUEUES), waiting_for("Door", QUEUES)]
    *_, last = found = kinds_of(bare_with("Gate"), bare_with("Door"), plugins=plugins)
    assert last == WatchedKind(custom_resource(QUEUES), frozenset({"Gate", "Door"}))
    assert len(found) == len(CORE) + 1


def test_known_kinds_are_watched_for_their_events_and_not_needed():
    plugin = waiting_for("Gate", "storage.k8s.io/CSINode")
    found = kinds_of(bare_with("Gate"), plugins=[plugin])
    assert found[len(CORE) :] == (WatchedKind(t.CSINode),)


def looking_up(name, base=None, **kinds):
    return type(name, (base or fake(name, filter=None),), {"name": name, **kinds})


def test_users_plugins_declare_kinds_that_they_look_up():
    silent = waiting_for("Gate")
    plugin = looking_up("Gate", silent, needs_kinds=(t.StorageClass,), reads_kinds=(t.Service, custom_resource(QUEUES)))
    found = kinds_of(bare_with("Gate"), plugins=[plugin])
    assert found[len(CORE) :] == (
        WatchedKind(t.StorageClass, frozenset({"Gate"})),
        WatchedKind(t.Service, read_by=frozenset({"Gate"})),
        WatchedKind(custom_resource(QUEUES), read_by=frozenset({"Gate"})),
    )


def test_a_plugin_that_only_reads_a_custom_resource_works_without_it():
    plugin = looking_up("Gate", waiting_for("Gate", QUEUES), reads_kinds=(custom_resource(QUEUES),))
    found = kinds_of(bare_with("Gate"), plugins=[plugin])
    assert found[len(CORE) :] == (WatchedKind(custom_resource(QUEUES), read_by=frozenset({"Gate"})),)


def test_a_declared_type_of_a_custom_resource_is_watched_for_its_events():
    racks = custom_resource("racks.v1.example.com", namespaced=False)

    class Racks(waiting_for("Racks", "racks.v1.example.com")):
        name = "Racks"
        needs_kinds = (racks,)

    assert WatchedKind(racks, frozenset({"Racks"})) in kinds_of(bare_with("Racks"), plugins=[Racks])
    assert len(kinds_of(bare_with("Racks"), plugins=[Racks])) == len(CORE) + 1


def test_core_kinds_are_watched_once():
    plugin = looking_up("Gate", waiting_for("Gate"), needs_kinds=(t.Namespace,), reads_kinds=(t.Node,))
    assert [watched.kind for watched in kinds_of(bare_with("Gate"), plugins=[plugin])] == list(CORE)


@pytest.mark.parametrize("plugin", [fake("Mute", filter=None), waiting_for("Mute", ANY)], ids=["unspecified", "any"])
def test_a_wildcard_event_watches_all_kinds_with_events(plugin):
    found = {watched.kind for watched in kinds_of(bare_with("Mute"), plugins=[plugin])}
    assert found == {*CORE, *STORAGE, t.ResourceClaim, t.DeviceClass}


@pytest.mark.parametrize("resource", ["queues", "queues.v1", "batch.example.com/v1/Queue", ""])
def test_events_of_invalid_resources_are_reported_and_ignored(resource):
    told = []
    found = watched_kinds(
        frameworks(bare_with("Gate"), bare_with("Gate"), plugins=[waiting_for("Gate", resource)]), report=told.append
    )
    assert len(found) == len(CORE)
    assert told == [f"Incorrect event registration: plugin Gate: {resource!r} is not <plural>.<version>.<group>"]


def test_kinds_that_are_measured_have_their_sources():
    loads = custom_resource("loads.v1.example.com", namespaced=False)

    class Gauge(Source, frozen=True):
        kind, name = loads, "gauge"

    class Loads(NodeScorePlugin):
        name, reads_kinds = "Loads", (loads,)

        def score_node(self, state, pod, node):
            return 0

        def sources(self):
            return (Gauge(),)

    last = kinds_of(bare_with("Loads"), plugins=[Loads])[-1]
    assert last == WatchedKind(loads, read_by=frozenset({"Loads"}), sources=(Gauge(),))
    assert last.measured
