"""Plugins to come: who passes, who is refused, and what they wait for."""

import pytest

from stowplan.framework.cycle_state import CycleState
from stowplan.framework.status import SKIP, Code
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS
from stowplan.in_tree.dynamic_resources.plugin import PODS_WITH_DEVICES, DynamicResources
from stowplan.in_tree.gang_scheduling.plugin import GangScheduling
from stowplan.in_tree.node_volume_limits.hints import TranslationError
from stowplan.in_tree.node_volume_limits.plugin import PODS_WITH_LIMITED_VOLUMES, NodeVolumeLimits
from stowplan.in_tree.pod_group_pods_count.plugin import PodGroupPodsCount
from stowplan.in_tree.topology_placement_generator.plugin import TopologyPlacementGenerator
from stowplan.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.in_tree.volume_zone.plugin import VolumeZone
from stowplan.testing import a_node, a_pod

ALL = (
    VolumeBinding,
    VolumeZone,
    NodeVolumeLimits,
    DynamicResources,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)
FILTERS = (VolumeBinding, VolumeZone, NodeVolumeLimits, DynamicResources)

CLAIMING = a_pod().claims_volume("c")
EPHEMERAL = a_pod().volume("e", ephemeral={"volumeClaimTemplate": {}})
INLINE = a_pod().volume("d", awsElasticBlockStore={"volumeID": "vol-1"})
INLINE_CSI = a_pod().volume("d", csi={"driver": "secrets"})


def of(kind, name, version="v1", **fields):
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def storage(kind, name, **fields):
    return of(kind, name, "storage.k8s.io/v1", **fields)


def csi_node(name="n", annotations=None, **limits):
    drivers = [{"name": d, "nodeID": name} | ({"allocatable": {"count": c}} if c else {}) for d, c in limits.items()]
    return storage("CSINode", name, metadata={"annotations": annotations or {}}, spec={"drivers": drivers})


def pvc(name, namespace="default", **spec):
    return of("PersistentVolumeClaim", name, metadata={"namespace": namespace}, spec=spec)


def resource_claim(name="c", status=None, **metadata):
    metadata = {"namespace": "default", "uid": f"{name}-uid", **metadata}
    return of("ResourceClaim", name, "resource.k8s.io/v1", metadata=metadata, spec={}, status=status or {})


@pytest.mark.parametrize("plugin", FILTERS, ids=lambda p: p.name)
def test_a_pod_that_needs_none_of_it_passes(bench, plugin):
    assert bench(plugin, a_node()).pre_filter(a_pod().volume("v", emptyDir={})) is SKIP


LIMITED = csi_node(**{"ebs.csi.aws.com": 3})


@pytest.mark.parametrize(
    ("plugin", "pod", "objects", "what"),
    [
        pytest.param(VolumeBinding, CLAIMING, [], PODS_WITH_CLAIMS, id="binding, claim"),
        pytest.param(VolumeBinding, EPHEMERAL, [], PODS_WITH_CLAIMS, id="binding, ephemeral"),
        pytest.param(VolumeBinding, INLINE, [LIMITED], None, id="binding, inline"),
        pytest.param(VolumeZone, CLAIMING, [], PODS_WITH_CLAIMS, id="zone, claim"),
        pytest.param(VolumeZone, EPHEMERAL, [], None, id="zone, ephemeral"),
        pytest.param(NodeVolumeLimits, CLAIMING, [], PODS_WITH_CLAIMS, id="limits, claim"),
        pytest.param(NodeVolumeLimits, EPHEMERAL, [], PODS_WITH_CLAIMS, id="limits, ephemeral"),
        pytest.param(NodeVolumeLimits, INLINE, [], None, id="limits, inline, nothing limited"),
        pytest.param(NodeVolumeLimits, INLINE, [csi_node(x=0)], None, id="limits, inline, no count reported"),
        pytest.param(NodeVolumeLimits, INLINE, [LIMITED], PODS_WITH_LIMITED_VOLUMES, id="limits, inline"),
        pytest.param(NodeVolumeLimits, INLINE_CSI, [LIMITED], None, id="limits, inline csi never counts"),
        pytest.param(
            DynamicResources,
            a_pod().claims_devices("c"),
            [resource_claim()],
            PODS_WITH_DEVICES,
            id="device claim",
        ),
        pytest.param(
            DynamicResources,
            a_pod().requests({"deviceclass.resource.kubernetes.io/gpu": "1"}),
            [of("DeviceClass", "gpu", "resource.k8s.io/v1", spec={})],
            PODS_WITH_DEVICES,
            id="mapped extended resource",
        ),
        pytest.param(DynamicResources, a_pod().requests({"x.com/gpu": "1"}), [], None, id="unmapped extended resource"),
    ],
)
def test_who_is_refused(bench, plugin, pod, objects, what):
    status = bench(plugin, a_node(), *objects).pre_filter(pod)
    if what is None:
        assert status is SKIP
        return
    assert status.code is Code.UnschedulableAndUnresolvable
    assert status.message == f"Stowplan does not place {what} yet ({plugin.name})"


@pytest.mark.parametrize(
    ("pod", "objects", "message"),
    [
        pytest.param(a_pod(), [], None, id="no claims"),
        pytest.param(a_pod().claims_devices("c"), [resource_claim()], None, id="claim there"),
        pytest.param(a_pod().claims_devices("c"), [], 'could not find ResourceClaim "default/c"', id="claim missing"),
        pytest.param(
            a_pod().claims_devices("c"),
            [resource_claim(deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "c" is being deleted',
            id="claim on its way out",
        ),
        pytest.param(
            a_pod().spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}]),
            [],
            'pod "default/pod": ResourceClaim not created yet',
            id="template, no claim yet",
        ),
        pytest.param(
            a_pod()
            .spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
            .status(resourceClaimStatuses=[{"name": "r", "resourceClaimName": "c"}]),
            [resource_claim()],
            "ResourceClaim default/c was not created for Pod default/pod (Pod is not owner)",
            id="claim of somebody else",
        ),
        pytest.param(
            a_pod()
            .spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
            .status(resourceClaimStatuses=[{"name": "r"}]),
            [],
            None,
            id="no claim necessary",
        ),
        pytest.param(
            a_pod().spec(resourceClaims=[{"name": "r"}]),
            [],
            'pod "default/pod", spec.resourceClaim "r": none of the supported fields are set',
            id="neither claim nor template",
        ),
    ],
)
def test_device_claims_gate_a_pod(bench, pod, objects, message):
    world = bench(DynamicResources, *objects)
    status = world.plugin.pre_enqueue(world.pod(pod))
    assert (status and status.message) == message


def test_post_filter_of_dynamic_resources(bench):
    world = bench(DynamicResources, a_node())
    cycle, info = CycleState(), world.pod(a_pod())
    early = world.plugin.post_filter(cycle, info, None).status
    assert (early.code, early.message) == (Code.Error, "not found")
    world.plugin.pre_filter(cycle, info, world.nodes())
    status = world.plugin.post_filter(cycle, info, None).status
    assert (status.code, status.message) == (Code.Unschedulable, "no new claims to deallocate")


def test_pods_of_groups_wait(bench):
    world = bench(GangScheduling)
    grouped = a_pod().spec(schedulingGroup={"podGroupName": "g"})
    assert world.plugin.pre_enqueue(world.pod(a_pod())) is None
    assert (
        world.plugin.pre_enqueue(world.pod(grouped)).message
        == "Stowplan does not place pods of pod groups yet (GangScheduling)"
    )
    assert world.hint(grouped, None, a_pod("q").spec(schedulingGroup={"podGroupName": "g"})) == "Queue"
    assert world.hint(grouped, None, a_pod("q").spec(schedulingGroup={"podGroupName": "h"})) == "Skip"


MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
WAITING_CLASS = storage("StorageClass", "s", provisioner="p", volumeBindingMode="WaitForFirstConsumer")
IMMEDIATE_CLASS = storage("StorageClass", "s", provisioner="p", volumeBindingMode="Immediate")
TOPOLOGIES = {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}]}
VOLUME = of("PersistentVolume", "v", spec={})


def driver(name, tracks):
    return storage("CSIDriver", name, spec={"storageCapacity": tracks})


def capacity(**limits):
    return storage("CSIStorageCapacity", "k", metadata={"namespace": "default"}, storageClassName="s", **limits)


def volume(**labels):
    return of(
        "PersistentVolume",
        "v",
        metadata={"labels": {f"topology.kubernetes.io/{k}": v for k, v in labels.items()}},
        spec={},
    )


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, IMMEDIATE_CLASS, "Queue", id="class added"),
        pytest.param(CLAIMING, WAITING_CLASS, WAITING_CLASS | TOPOLOGIES, "Queue", id="topologies changed"),
        pytest.param(
            CLAIMING, WAITING_CLASS, WAITING_CLASS | {"reclaimPolicy": "Retain"}, "Skip", id="class changed otherwise"
        ),
        pytest.param(CLAIMING, None, pvc("c"), "Queue", id="claim"),
        pytest.param(CLAIMING, None, pvc("c", "other"), "Skip", id="claim elsewhere"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Queue", id="claim of an ephemeral volume"),
        pytest.param(EPHEMERAL, None, pvc("e"), "Skip", id="other claim"),
        pytest.param(CLAIMING, VOLUME, volume(zone="a"), "Queue", id="volume"),
        pytest.param(CLAIMING, None, a_node(), "Queue", id="node"),
        pytest.param(CLAIMING, None, csi_node(), "Queue", id="csi node added"),
        pytest.param(CLAIMING, csi_node(), csi_node(annotations=MIGRATED), "Queue", id="migration changed"),
        pytest.param(CLAIMING, csi_node(), csi_node(d=3), "Skip", id="limits changed"),
        pytest.param(
            INLINE_CSI, driver("secrets", True), driver("secrets", False), "Queue", id="capacity no longer tracked"
        ),
        pytest.param(INLINE_CSI, driver("secrets", False), driver("secrets", True), "Skip", id="capacity tracked now"),
        pytest.param(INLINE_CSI, driver("x", True), driver("x", False), "Skip", id="other driver"),
        pytest.param(CLAIMING, None, capacity(), "Queue", id="capacity added"),
        pytest.param(CLAIMING, capacity(capacity="1Gi"), capacity(capacity="2Gi"), "Queue", id="capacity grew"),
        pytest.param(CLAIMING, capacity(), capacity(capacity="1Gi"), "Queue", id="capacity told"),
        pytest.param(
            CLAIMING,
            capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            capacity(capacity="2Gi", maximumVolumeSize="1Gi"),
            "Skip",
            id="largest volume as before",
        ),
    ],
)
def test_volume_binding_hints(bench, pod, old, new, expected):
    assert bench(VolumeBinding).hint(pod, old, new) == expected


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, WAITING_CLASS, "Queue", id="waiting class added"),
        pytest.param(CLAIMING, None, IMMEDIATE_CLASS, "Skip", id="immediate class added"),
        pytest.param(CLAIMING, WAITING_CLASS, WAITING_CLASS | TOPOLOGIES, None, id="class updates are not heard of"),
        pytest.param(CLAIMING, None, pvc("c"), "Queue", id="claim"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Skip", id="claim of an ephemeral volume"),
        pytest.param(CLAIMING, None, VOLUME, "Queue", id="volume added"),
        pytest.param(CLAIMING, volume(zone="a"), volume(zone="b"), "Queue", id="zone changed"),
        pytest.param(CLAIMING, volume(zone="a__b"), volume(zone="b__a"), "Skip", id="same zones"),
        pytest.param(CLAIMING, VOLUME, volume(zone="a__"), "Skip", id="unreadable zone"),
    ],
)
def test_volume_zone_hints(bench, pod, old, new, expected):
    assert bench(VolumeZone).hint(pod, old, new) == expected


def attachment(attacher):
    return storage("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n", "source": {}})


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, csi_node(), "Queue", id="csi node added"),
        pytest.param(CLAIMING, csi_node(d=1), csi_node(d=2), "Queue", id="limit grew"),
        pytest.param(CLAIMING, csi_node(), csi_node(d=2), "Queue", id="driver came"),
        pytest.param(CLAIMING, csi_node(d=2), csi_node(d=0), "Skip", id="limit dropped"),
        pytest.param(CLAIMING, a_pod("q").on("n"), None, "Skip", id="pod without volumes gone"),
        pytest.param(CLAIMING, a_pod("q").claims_volume("x"), None, "Skip", id="pending pod gone"),
        pytest.param(CLAIMING, a_pod("q").claims_volume("x").on("n"), None, "Queue", id="pod with a claim gone"),
        pytest.param(
            CLAIMING, INLINE.obj() | {"spec": INLINE.obj()["spec"] | {"nodeName": "n"}}, None, "Queue", id="inline gone"
        ),
        pytest.param(CLAIMING, a_pod("q").volume("v", csi={"driver": "x"}).on("n"), None, "Skip", id="inline csi gone"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Queue", id="claim added"),
        pytest.param(CLAIMING, attachment("x"), None, "Queue", id="detached, pod with claim"),
        pytest.param(INLINE, attachment("ebs.csi.aws.com"), None, "Queue", id="detached, same driver"),
        pytest.param(INLINE, attachment("x"), None, "Skip", id="detached, other driver"),
        pytest.param(EPHEMERAL, attachment("x"), None, "Skip", id="detached, ephemeral volume"),
        pytest.param(CLAIMING, None, a_node(), None, id="nodes are not heard of"),
    ],
)
def test_node_volume_limits_hints(bench, pod, old, new, expected):
    assert bench(NodeVolumeLimits).hint(pod, old, new) == expected


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}},
    ],
)
def test_untranslatable_volumes_are_an_error(bench, source):
    with pytest.raises(TranslationError, match=r"^converting volume\(v\) from inline to csi: "):
        bench(NodeVolumeLimits).hint(a_pod().volume("v", **source), attachment("x"), None)


ALLOCATED = {"allocation": {"devices": {}}}


@pytest.mark.parametrize(
    ("claims", "old", "new", "expected"),
    [
        pytest.param([resource_claim()], None, resource_claim(), "Queue", id="the claim was made"),
        pytest.param(
            [], resource_claim("x", ALLOCATED), resource_claim("x"), "Skip", id="the pod's own claim is missing"
        ),
        pytest.param(
            [resource_claim()], resource_claim("x", ALLOCATED), resource_claim("x"), "Queue", id="another was freed"
        ),
        pytest.param([resource_claim()], None, resource_claim("x"), "Skip", id="another was made"),
        pytest.param(
            [resource_claim()], resource_claim(), resource_claim(finalizers=["f"]), "Skip", id="status as before"
        ),
        pytest.param(
            [resource_claim()],
            resource_claim(status={"reservedFor": []}),
            resource_claim(),
            "Skip",
            id="empty is absent",
        ),
        pytest.param(
            [resource_claim()], resource_claim(), resource_claim(status=ALLOCATED), "Queue", id="status changed"
        ),
    ],
)
def test_resource_claim_hints(bench, claims, old, new, expected):
    assert bench(DynamicResources, *claims).hint(a_pod().claims_devices("c"), old, new) == expected


def test_generated_claim_hints(bench):
    world = bench(
        DynamicResources,
        resource_claim(ownerReferences=[{"uid": "default-pod-uid", "name": "pod", "controller": True}]),
    )

    def templated(name="pod"):
        return a_pod(name).spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])

    made = {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}
    assert world.hint(templated(), templated(), templated().status(**made)) == "Queue"
    assert world.hint(templated(), templated().status(**made), templated()) == "Skip"
    assert world.hint(templated(), templated("q"), templated("q").status(**made)) == "Skip"
