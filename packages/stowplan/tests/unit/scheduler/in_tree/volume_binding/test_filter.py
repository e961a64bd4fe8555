"""The nodes that a pod's claims allow, rule by rule."""

import pytest

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import SKIP, Code
from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.testing import a_node, a_pod
from support.plugins.claims import (
    AT_ONCE,
    HOST,
    SELECTED,
    ZONE,
    a_class,
    a_driver,
    capacity,
    claim,
    held,
    volume,
)
from support.plugins.storage import csi_node

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def using(*claims):
    pod = a_pod("p").uid("p-uid")
    for name in claims:
        pod.claims_volume(name)
    return pod


POD = using("c")
EPHEMERAL = a_pod("p").uid("p-uid").volume("e", ephemeral={"volumeClaimTemplate": {}})


def node(name, zone="a", **labels):
    return a_node(name).labels({HOST: name, ZONE: zone, **labels})


def owned(uid):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


def test_a_pod_without_claims_is_skipped(bench):
    assert bench(VolumeBinding, a_node()).pre_filter(a_pod().volume("v", emptyDir={})) is SKIP


@pytest.mark.parametrize(
    ("pod", "objects", "message"),
    [
        pytest.param(POD, [], 'persistentvolumeclaim "c" not found', id="missing"),
        pytest.param(using("c", "d"), [claim("c", volume="v")], 'persistentvolumeclaim "d" not found', id="one of two"),
        pytest.param(
            EPHEMERAL,
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"',
            id="of an ephemeral volume",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("p-e", volume="v", metadata=owned("other"))],
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
            id="of another pod",
        ),
        pytest.param(
            POD,
            [claim(volume="v", status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            POD,
            [claim(volume="v", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "c" is being deleted',
            id="terminating",
        ),
        pytest.param(POD, [claim(), a_class(mode=AT_ONCE)], UNBOUND, id="immediate binding"),
        pytest.param(POD, [claim()], UNBOUND, id="unknown class"),
        pytest.param(POD, [claim(class_name=None)], UNBOUND, id="no class"),
        pytest.param(POD, [claim(spec={"volumeName": "v"}), a_class()], UNBOUND, id="not bound completely"),
    ],
)
def test_pods_refused_by_pre_filter(bench, pod, objects, message):
    status = bench(VolumeBinding, a_node(), *objects).pre_filter(pod)
    assert status.code is Code.UnschedulableAndUnresolvable
    assert status.message == message


def test_a_class_without_binding_mode_is_an_error(bench):
    status = bench(VolumeBinding, a_node(), claim(), a_class(mode=None)).pre_filter(POD)
    assert status.code is Code.Error
    assert status.message == 'VolumeBindingMode not set for StorageClass "s"'


def refused(bench, *objects, pod=POD, nodes=None):
    nodes = [node("n1"), node("n2", "b")] if nodes is None else nodes
    return bench(VolumeBinding, *nodes, *objects).refusals(pod)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [volume(spec={"nodeAffinity": {"required": {"nodeSelectorTerms": []}}})],
            {"n1": AFFINITY, "n2": AFFINITY},
            id="no terms",
        ),
        pytest.param([volume(on={"!": "a"})], {"n1": AFFINITY, "n2": AFFINITY}, id="a selector that cannot be read"),
        pytest.param(
            [
                volume(
                    spec={
                        "nodeAffinity": {
                            "required": {
                                "nodeSelectorTerms": [
                                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                                ]
                            }
                        }
                    }
                )
            ],
            {},
            id="fields exclude no node",
        ),
    ],
)
def test_bound_claims(bench, objects, expected):
    assert refused(bench, claim(volume="v"), *objects) == expected


EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
CSI_ZONE = "topology.ebs.csi.aws.com/zone"


def test_migrated_volumes_use_the_topology_of_their_driver(bench):
    nodes = [
        a_node("old").labels({ZONE: "a"}),
        a_node("new").labels({ZONE: "b", CSI_ZONE: "a"}),
        a_node("elsewhere").labels({ZONE: "a", CSI_ZONE: "b"}),
    ]
    objects = [claim(volume="v"), volume(on={ZONE: "a"}, spec=EBS)]
    objects += [csi_node("new", MIGRATED), csi_node("elsewhere", MIGRATED), csi_node("old")]
    assert refused(bench, *objects, nodes=nodes) == {"elsewhere": AFFINITY}
    world = bench(VolumeBinding, *nodes, *objects)
    world.put(csi_node("old", MIGRATED))
    world.put(csi_node("elsewhere"))
    assert world.refusals(POD) == {"old": AFFINITY}


def test_an_untranslatable_volume_is_an_error_on_migrated_nodes(bench):
    spec = {"awsElasticBlockStore": {"volumeID": "aws://a/b"}}
    world = bench(VolumeBinding, node("n1"), claim(volume="v"), volume(spec=spec))
    assert world.refusals(POD) == {}
    world.put(csi_node("n1", MIGRATED))
    cycle, pod = CycleState(), world.pod(POD)
    world.plugin.pre_filter(cycle, pod, world.nodes())
    status = world.plugin.filter(cycle, pod, world.nodes())
    assert status.code is Code.Error
    assert "failed to translate" in status.message


NO_PROVISIONER = "kubernetes.io/no-provisioner"
LOCAL = a_class(provisioner=NO_PROVISIONER)
NO_VOLUME_ANYWHERE = {"n1": NO_VOLUME, "n2": NO_VOLUME}


@pytest.mark.parametrize(
    ("of_claim", "of_volume", "fits"),
    [
        pytest.param({}, {}, True, id="equal"),
        pytest.param({"size": None}, {"size": "1"}, True, id="no size requested"),
        pytest.param({}, {"size": "1000000000000000000000000000000"}, True, id="huge"),
        pytest.param({"size": "1000000000000000000000000000000"}, {}, False, id="huge claim"),
        pytest.param({}, {"size": "much"}, False, id="unreadable size"),
        pytest.param({}, {"spec": {"volumeAttributesClassName": "x"}}, False, id="attributes class"),
        pytest.param({"spec": {"volumeAttributesClassName": ""}}, {}, True, id="empty attributes class"),
        pytest.param(
            {},
            {"class_name": "t", "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "s"}}},
            True,
            id="class by annotation",
        ),
        pytest.param({}, {"phase": "Released"}, False, id="released"),
        pytest.param({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False, id="terminating"),
        pytest.param({}, {"spec": held(uid="other")}, False, id="reserved for an earlier claim"),
    ],
)
def test_matching_volumes(bench, of_claim, of_volume, fits):
    assert refused(bench, LOCAL, claim(**of_claim), volume(**of_volume)) == ({} if fits else NO_VOLUME_ANYWHERE)


def test_an_invalid_selector_is_an_error(bench):
    world = bench(VolumeBinding, node("n1"), LOCAL, claim(spec={"selector": {"matchLabels": {"!": "y"}}}), volume())
    cycle, pod = CycleState(), world.pod(POD)
    world.plugin.pre_filter(cycle, pod, world.nodes())
    status = world.plugin.filter(cycle, pod, world.nodes())
    assert status.code is Code.Error
    assert status.message.startswith("error creating internal label selector for claim: default/c: ")


@pytest.mark.parametrize(
    ("selected", "objects", "expected"),
    [
        pytest.param("gone", [a_class()], NO_VOLUME_ANYWHERE, id="the node is gone"),
        pytest.param("", [a_class()], NO_VOLUME_ANYWHERE, id="empty"),
    ],
)
def test_a_claim_with_a_selected_node(bench, selected, objects, expected):
    assert refused(bench, claim(annotations={SELECTED: selected}), *objects) == expected


GI = {"capacity": "20Gi"}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([a_class(provisioner="")], NO_VOLUME_ANYWHERE, id="no provisioner"),
        pytest.param([a_class()], {}, id="anywhere"),
        pytest.param([a_class(zones=[])], NO_VOLUME_ANYWHERE, id="a topology without values"),
        pytest.param([a_class(allowedTopologies=[{}])], NO_VOLUME_ANYWHERE, id="an empty term"),
        pytest.param([a_class(), a_driver(), capacity("k", **GI)], {"n1": NO_ROOM, "n2": NO_ROOM}, id="nowhere"),
        pytest.param(
            [a_class(), a_driver(), capacity("k", labels={"!": "x"}, **GI)],
            {"n1": NO_ROOM, "n2": NO_ROOM},
            id="unreadable topology",
        ),
        pytest.param(
            [a_class(), a_driver(), capacity("k", labels={}, capacity="much")],
            {"n1": NO_ROOM, "n2": NO_ROOM},
            id="unreadable amount",
        ),
    ],
)
def test_provisioning(bench, objects, expected):
    assert refused(bench, claim(size="10Gi"), *objects) == expected


def test_a_claim_without_size_fits_everywhere(bench):
    assert refused(bench, claim(size=None), a_class(), a_driver()) == {}


@pytest.mark.parametrize(
    ("wanted", "has", "fits"),
    [
        pytest.param("1e30", str(10**30), True, id="as much"),
        pytest.param(str(10**30 + 1), "1e30", False, id="one byte too small"),
        pytest.param("1Gi", str(10**30), True, id="far too large"),
        pytest.param(str(10**30), "10Gi", False, id="far too small"),
    ],
)
def test_sizes_beyond_64_bits(bench, wanted, has, fits):
    assert refused(bench, LOCAL, claim(size=wanted), volume(size=has)) == ({} if fits else NO_VOLUME_ANYWHERE)


def test_capacities_beyond_64_bits_count_as_zero(bench):
    """Parity: bytes are counted as int64, and an overflow counts as zero."""
    room = capacity("k", labels={}, capacity=str(10**30))
    assert refused(bench, claim(size="1Gi"), a_class(), a_driver(), room) == {"n1": NO_ROOM, "n2": NO_ROOM}


@pytest.mark.slow
def test_ten_thousand_volumes_that_almost_match(bench):
    """Each selector is evaluated once, and not at all for another pod with an equal claim."""
    almost = [volume(f"v{i}", size=f"{i + 1}Mi", on={HOST: [f"gone-{i}"]}) for i in range(9_999)]
    small = volume("small", size="1Ki", on={HOST: ["n2"]})
    world = bench(VolumeBinding, node("n1"), node("n2"), LOCAL, claim("c"), claim("d"), *almost, small)
    assert world.refusals(POD) == NO_VOLUME_ANYWHERE
    looked = []
    world.plugin.node_sets.rows = looked.append
    assert world.refusals(using("d")) == NO_VOLUME_ANYWHERE
    assert looked == []
    del world.plugin.node_sets.rows
    world.put(volume("right", on={HOST: ["n2"]}))
    assert world.refusals(using("d")) == {"n1": NO_VOLUME}
