"""VolumeRestrictions: conflicting disks, and ReadWriteOncePod claims."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import SKIP, Code
from stowplan.scheduler.in_tree.volume_restrictions.plugin import VolumeRestrictions
from stowplan.testing import a_node, a_pod
from support.plugins.storage import pvc

DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def gce(name, read_only=False):
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name, read_only=False):
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn, lun, read_only=False):
    return {"iscsi": {"iqn": iqn, "lun": lun, "targetPortal": f"10.0.0.{lun}", "readOnly": read_only}}


def rbd(monitors, image="i", read_only=False):
    return {"rbd": {"monitors": monitors, "pool": "p", "image": image, "readOnly": read_only}}


def mounting(name, *volumes, namespace="default"):
    pod = a_pod(name, namespace)
    for i, volume in enumerate(volumes):
        pod.volume(f"v{i}", **volume)
    return pod


def claim(name, mode="ReadWriteOncePod"):
    return pvc(name, accessModes=[mode])


@pytest.mark.parametrize(
    ("wanted", "held", "conflict"),
    [
        pytest.param(gce("d1", True), gce("d1", True), False, id="gce both ro"),
        pytest.param(ebs("v1", True), ebs("v1", True), True, id="ebs both ro"),
        pytest.param(iscsi("X", 1), iscsi("X", 2, True), True, id="iscsi ignores the lun"),
        pytest.param(rbd(["m1", "m2"]), rbd(["m2", "m3"], read_only=True), True, id="rbd, a monitor in common"),
        pytest.param(rbd(["m1"]), rbd(["m1"], image="j"), False, id="rbd, other image"),
    ],
)
def test_disks(bench, wanted, held, conflict):
    holder = mounting("holder", held, namespace="other").on("n")
    world = bench(VolumeRestrictions, a_node("n"), a_node("free"), holder)
    assert world.refusals(mounting("new", wanted)) == ({"n": DISK} if conflict else {})


def test_other_volumes_skip(bench):
    assert bench(VolumeRestrictions, a_node()).pre_filter(mounting("p", {"hostPath": {"path": "/"}})) is SKIP


def test_a_missing_claim_is_unschedulable(bench):
    status = bench(VolumeRestrictions, a_node()).pre_filter(a_pod().claims_volume("c"))
    assert (status.code, status.message) == (
        Code.UnschedulableAndUnresolvable,
        'persistentvolumeclaim "c" not found',
    )


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        pytest.param([claim("c")], None, id="unused"),
        pytest.param([claim("c", "ReadWriteOnce")], a_pod("u").claims_volume("c").on("n"), id="shareable"),
        pytest.param([claim("c")], a_pod("u", "other").claims_volume("c").on("n"), id="used by its name elsewhere"),
    ],
)
def test_claims_without_conflicts_skip(bench, claims, user):
    world = bench(VolumeRestrictions, a_node("n"), *claims, *([user] if user else []))
    assert world.pre_filter(a_pod().claims_volume("c")) is SKIP


def test_a_claim_in_use_excludes_every_node(bench):
    world = bench(VolumeRestrictions, a_node("a"), a_node("b"), claim("c"), a_pod("u").claims_volume("c").on("a"))
    assert world.refusals(a_pod().claims_volume("c")) == {"a": CLAIM, "b": CLAIM}


def test_disk_conflicts_are_reported_before_claims(bench):
    user = mounting("u", gce("d"), {"persistentVolumeClaim": {"claimName": "c"}}).on("a")
    world = bench(VolumeRestrictions, a_node("a"), a_node("b"), claim("c"), user)
    pod = mounting("new", gce("d"), {"persistentVolumeClaim": {"claimName": "c"}})
    assert world.refusals(pod) == {"a": DISK, "b": CLAIM}


def test_a_removed_victim_frees_its_claims(bench):
    user = a_pod("u").claims_volume("c1").claims_volume("c2").on("a")
    world = bench(VolumeRestrictions, a_node("a"), a_node("b"), claim("c1"), claim("c2"), user)
    cycle, info = CycleState(), world.pod(a_pod().claims_volume("c1").claims_volume("c2"))
    assert world.plugin.pre_filter(cycle, info, world.nodes()) is None
    dry_run = cycle.clone()
    victim = world.state.placed("default-u-uid")
    row = world.state.table.row_of["a"]
    world.plugin.shift_pods(dry_run, info, PodShift.of_pods(np.array([row]), [victim], -1))
    assert world.refusals_in(dry_run, info, world.nodes()) == {"b": CLAIM}
    assert world.refusals_in(cycle, info, world.nodes()) == {"a": CLAIM, "b": CLAIM}
    again = dry_run.clone()
    world.plugin.shift_pods(again, info, PodShift.of_pods(np.array([row]), [victim], 1))
    assert world.refusals_in(again, info, world.nodes()) == {"a": CLAIM, "b": CLAIM}
    assert world.refusals_in(dry_run, info, world.nodes()) == {"b": CLAIM}


def test_shifts_do_not_compare_namespaces(bench):
    world = bench(
        VolumeRestrictions,
        a_node("a"),
        claim("c"),
        a_pod("u").claims_volume("c").on("a"),
        a_pod("x", "other").claims_volume("c").on("a"),
    )
    cycle, info = CycleState(), world.pod(a_pod().claims_volume("c"))
    world.plugin.pre_filter(cycle, info, world.nodes())
    stranger = world.state.placed("other-x-uid")
    world.plugin.shift_pods(cycle, info, PodShift.of_pods(np.array([0]), [stranger], -1))
    assert world.refusals_in(cycle, info, world.nodes()) == {}


VOLUMES = st.lists(
    st.one_of(
        st.builds(gce, st.sampled_from("ab"), st.booleans()),
        st.builds(ebs, st.sampled_from("ab"), st.booleans()),
        st.builds(iscsi, st.sampled_from("ab"), st.integers(0, 1), st.booleans()),
        st.builds(rbd, st.lists(st.sampled_from("abc"), min_size=1, max_size=2), st.sampled_from("ij"), st.booleans()),
    ),
    max_size=3,
)


def plain_conflict(a, b):
    (kind, x), (other_kind, y) = *a.items(), *b.items()
    if kind != other_kind:
        return False
    both_read_only = x["readOnly"] and y["readOnly"]
    match kind:
        case "gcePersistentDisk":
            return x["pdName"] == y["pdName"] and not both_read_only
        case "awsElasticBlockStore":
            return x["volumeID"] == y["volumeID"]
        case "iscsi":
            return x["iqn"] == y["iqn"] and not both_read_only
    same = set(x["monitors"]) & set(y["monitors"]) and (x["pool"], x["image"]) == (y["pool"], y["image"])
    return bool(same) and not both_read_only


@given(
    wanted=VOLUMES.filter(bool),
    held=st.lists(st.tuples(st.integers(0, 2), VOLUMES), max_size=6),
    gone=st.sets(st.integers(0, 5)),
    hypothetically_gone=st.sets(st.integers(0, 5)),
)
def test_the_index_agrees_with_the_plain_rule(bench, wanted, held, gone, hypothetically_gone):
    world = bench(VolumeRestrictions, *(a_node(f"n{i}") for i in range(3)))
    for i, (node, volumes) in enumerate(held):
        world.put(mounting(f"p{i}", *volumes).on(f"n{node}"))
    for i in gone:
        world.state.remove_pod(f"default-p{i}-uid")

    def expected(absent):
        there = [
            (f"n{node}", volume) for i, (node, volumes) in enumerate(held) if i not in absent for volume in volumes
        ]
        return {node for node, volume in there if any(plain_conflict(mine, volume) for mine in wanted)}

    pod = mounting("new", *wanted)
    assert set(world.refusals(pod)) == expected(gone)

    imagined = HypotheticalNodes(world.state, np.arange(3))
    for i in hypothetically_gone:
        victim = world.state.placed(f"default-p{i}-uid")
        if victim is not None:
            imagined.remove_pod(victim.row, victim)
    cycle, info = CycleState(), world.pod(pod)
    world.plugin.pre_filter(cycle, info, world.nodes())
    assert set(world.refusals_in(cycle, info, imagined)) == expected(gone | hypothetically_gone)


# -- equal pods -------------------------------------------------------------------------------------------------------


def claiming(name, *claims):
    return mounting(name, *({"persistentVolumeClaim": {"claimName": of_pod}} for of_pod in claims))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param((), {}, id="none"),
        pytest.param(("shared",), {"claims": ()}, id="shareable"),
        pytest.param(("lonely",), {"claims": ("lonely",)}, id="ReadWriteOncePod"),
        pytest.param(("missing",), {"claims": ("missing",)}, id="missing"),
        pytest.param(("shared", "missing", "lonely"), {"claims": ("missing", "lonely")}, id="all of them"),
    ],
)
def test_pods_with_ordinary_claims_have_equal_signatures(bench, claims, expected):
    world = bench(VolumeRestrictions, claim("shared", "ReadWriteOnce"), claim("lonely"))
    assert world.plugin.sign_pod(world.pod(claiming("p", *claims))) == expected
