"""VolumeZone: zones of a pod's volumes, compared with a plain rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import SKIP, Code
from stowplan.scheduler.in_tree.volume_zone.plugin import VolumeZone
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.storage import (
    CLAIMING,
    EPHEMERAL,
    IMMEDIATE_CLASS,
    WAITING_CLASS,
    of,
    pvc,
    storage,
)

ELSEWHERE = "node(s) had no available volume zone"
Z, R = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_Z, BETA_R = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
LABELS = (Z, R, BETA_Z, BETA_R)


def labelled(labels, name="v"):
    return of("PersistentVolume", name, metadata={"labels": labels}, spec={})


def node(name, labels):
    return a_node(name).labels(labels)


@pytest.mark.parametrize(
    ("labels", "of_node", "fits"),
    [
        pytest.param({Z: "a"}, {}, True, id="a node without labels"),
        pytest.param({Z: "a"}, {Z: "a"}, True, id="same zone"),
        pytest.param({Z: "a"}, {Z: "b"}, False, id="another zone"),
        pytest.param({Z: "a", R: "r"}, {Z: "a"}, False, id="a node without region"),
        pytest.param({Z: "a"}, {BETA_Z: "a"}, False, id="a node with beta labels"),
        pytest.param({BETA_Z: "a"}, {Z: "a"}, True, id="a volume with beta labels"),
        pytest.param({BETA_Z: "a"}, {Z: "b"}, False, id="a volume with other beta labels"),
        pytest.param({BETA_Z: "a"}, {BETA_Z: "b", Z: "a"}, False, id="the same label has precedence"),
        pytest.param({BETA_R: "r"}, {R: "r"}, True, id="a beta region"),
        pytest.param({Z: "a__b"}, {Z: "b"}, True, id="several zones"),
        pytest.param({Z: " a __ b "}, {Z: "b"}, True, id="spaces"),
        pytest.param({Z: "a__"}, {Z: "c"}, True, id="unreadable zones"),
        pytest.param({Z: "a__", R: "r"}, {Z: "c", R: "s"}, False, id="unreadable zones, a region"),
        pytest.param({Z: "a"}, {R: "r"}, False, id="a node with a region alone"),
        pytest.param({}, {Z: "a"}, True, id="a volume without labels"),
    ],
)
def test_filter(bench, labels, of_node, fits):
    world = bench(VolumeZone, node("n", of_node), pvc("c", volumeName="v"), labelled(labels))
    assert world.refusals(CLAIMING) == ({} if fits else {"n": ELSEWHERE})


def test_pods_without_zonal_volumes_skip(bench):
    world = bench(VolumeZone, a_node(), pvc("c", volumeName="v"), labelled({"x": "y"}))
    for pod in (CLAIMING, EPHEMERAL, a_pod().volume("v", emptyDir={}), a_pod()):
        assert world.pre_filter(pod) is SKIP


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param([pvc("c")], "PersistentVolumeClaim had no pv name and storageClass name", id="no class"),
        pytest.param([pvc("c", storageClassName="s")], 'storageclass.storage.k8s.io "s" not found', id="unknown class"),
        pytest.param(
            [pvc("c", storageClassName="s"), storage("StorageClass", "s", provisioner="p")],
            'VolumeBindingMode not set for StorageClass "s"',
            id="a class without mode",
        ),
        pytest.param([pvc("c", storageClassName="s"), IMMEDIATE_CLASS], "PersistentVolume had no name", id="unbound"),
        pytest.param([pvc("c", volumeName="v")], 'persistentvolume "v" not found', id="no volume"),
    ],
)
def test_unresolvable_claims_refuse_the_pod(bench, objects, reason):
    world = bench(VolumeZone, node("n", {Z: "a"}), *objects)
    status = world.pre_filter(CLAIMING)
    assert (status.code, status.message) == (Code.UnschedulableAndUnresolvable, reason)
    assert world.refusals_in(CycleState(), world.pod(CLAIMING), world.nodes()) == {"n": reason}, (
        "differs without a state"
    )


def test_wait_for_first_consumer_claims_are_ignored(bench):
    claim = pvc("c", storageClassName="s")
    assert bench(VolumeZone, a_node(), claim, WAITING_CLASS).pre_filter(CLAIMING) is SKIP
    claim["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": ""}
    status = bench(VolumeZone, a_node(), claim, WAITING_CLASS).pre_filter(CLAIMING)
    assert status.message == "PersistentVolumeClaim had no pv name and storageClass name", (
        "the annotation has precedence"
    )


def test_a_claim_without_a_name(bench):
    assert bench(VolumeZone, a_node()).pre_filter(a_pod().claims_volume("")).message == (
        "PersistentVolumeClaim had no name"
    )


def test_pods_with_volumes_in_one_zone_share_an_evaluation(bench):
    claims = [pvc(name, volumeName=f"v{name}") for name in "abc"]
    volumes = [labelled({Z: "x"}, "va"), labelled({Z: "x"}, "vb"), labelled({Z: "y"}, "vc")]
    world = bench(VolumeZone, a_node(), *claims, *volumes)
    signed = [world.plugin.sign_pod(world.pod(a_pod().claims_volume(name))) for name in "abcd"]
    assert signed[0] == signed[1] != signed[2] != signed[3]
    assert world.plugin.sign_pod(world.pod(a_pod())) == {}


values = st.sampled_from(["a", "b", "a__b", "b__c", "c__", ""])
labels = st.dictionaries(st.sampled_from(LABELS), values, max_size=3)
of_node = st.dictionaries(st.sampled_from(LABELS), st.sampled_from("abc"), max_size=4)
of_nodes = st.lists(of_node, min_size=1, max_size=5)


def plain_rule(volumes, of_node):
    """Whether a node with these labels fits a pod with these volumes."""
    if not of_node:
        return True
    for of_volume in volumes:
        for key in LABELS:
            parts = [part.strip() for part in of_volume.get(key, "").split("__")]
            if "" in parts:
                continue
            today = {BETA_Z: Z, BETA_R: R}.get(key, key)
            if of_node.get(key, of_node.get(today)) not in parts:
                return False
    return True


@examples(150)
@given(st.lists(labels, max_size=3), of_nodes)
def test_filter_agrees_with_the_plain_rule(bench, volumes, nodes):
    claims = [pvc(f"c{i}", volumeName=f"v{i}") for i in range(len(volumes))]
    found = [labelled(of_volume, f"v{i}") for i, of_volume in enumerate(volumes)]
    world = bench(VolumeZone, *(node(f"n{i}", of_node) for i, of_node in enumerate(nodes)), *claims, *found)
    pod = a_pod()
    for claim in claims:
        pod.claims_volume(claim["metadata"]["name"])
    refused = {f"n{i}" for i, of_node in enumerate(nodes) if not plain_rule(volumes, of_node)}
    assert world.refusals(pod) == dict.fromkeys(sorted(refused), ELSEWHERE)
    if refused:
        one = min(refused)
        assert world.refusals(pod, one) == {one: ELSEWHERE}
