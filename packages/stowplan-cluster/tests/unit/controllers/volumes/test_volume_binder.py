import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.controllers.volumes.volume_controllers import VolumeBinder
from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController, VolumeProtectionController
from support.api.storage_objects import claim, protected, reserved_for, storage_class, volume
from support.examples import examples
from support.live.living_cluster import Living

PV, PVC = "persistentvolumes", "PersistentVolumeClaim"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


@pytest.fixture
def cluster():
    return Living(VolumeBinder, ClaimProtectionController, VolumeProtectionController)


def add(cluster, *manifests):
    for manifest in manifests:
        cluster.create(manifest)
    cluster.settle()


def phase(cluster, storage, name):
    found = cluster.get(storage, name)
    return found["status"]["phase"] if found is not None else None


def volume_of(cluster, name="data"):
    """The volume bound to a claim; checks that both sides refer to each other."""
    found = cluster.get(PVC, name)
    if found["status"]["phase"] != "Bound":
        return None
    bound = cluster.get(PV, found["spec"]["volumeName"])
    reference = bound["spec"]["claimRef"]
    assert (reference["name"], reference["uid"]) == (name, found["metadata"]["uid"])
    assert bound["status"]["phase"] == "Bound"
    assert BIND_COMPLETED in found["metadata"]["annotations"]
    return bound["metadata"]["name"]


@pytest.mark.parametrize("order", ["volume first", "claim first"])
def test_a_claim_gets_a_volume_that_fits(cluster, order):
    manifests = [volume(), claim()]
    for manifest in manifests if order == "volume first" else reversed(manifests):
        add(cluster, manifest)
    assert volume_of(cluster) == "pv"
    bound, wanted = cluster.get(PV, "pv"), cluster.get(PVC, "data")
    assert BOUND_BY_CONTROLLER in bound["metadata"]["annotations"]
    assert BOUND_BY_CONTROLLER in wanted["metadata"]["annotations"]
    assert wanted["status"]["capacity"] == {"storage": "10Gi"}
    assert wanted["status"]["accessModes"] == ["ReadWriteOnce"]


@pytest.mark.parametrize(
    ("offered", "wanted", "expected"),
    [
        pytest.param([volume("big", "50Gi"), volume("small", "6Gi")], claim(), "small", id="the smallest"),
        pytest.param([volume("tiny", "4Gi")], claim(), None, id="too small"),
        pytest.param([volume("exact", "5Gi")], claim(), "exact", id="exactly as large"),
        pytest.param([volume("other", class_="slow")], claim(class_=""), None, id="of another class"),
        pytest.param([volume("ro", modes=["ReadOnlyMany"])], claim(), None, id="other access modes"),
        pytest.param(
            [volume("many", "6Gi", modes=["ReadWriteOnce", "ReadOnlyMany"]), volume("one", "9Gi")],
            claim(),
            "one",
            id="fewest access modes",
        ),
        pytest.param([volume("block", volumeMode="Block")], claim(), None, id="another volume mode"),
        pytest.param(
            [volume("a", "6Gi"), volume("b", "9Gi", labels={"disk": "ssd"})],
            claim(selector={"matchLabels": {"disk": "ssd"}}),
            "b",
            id="by labels",
        ),
        pytest.param(
            [volume("free", "6Gi"), volume("mine", "9Gi", **reserved_for("data"))],
            claim(),
            "mine",
            id="reserved for it",
        ),
        pytest.param([volume("theirs", **reserved_for("other"))], claim(), None, id="reserved for another"),
        pytest.param([volume("a", "6Gi"), volume("b", "9Gi")], claim(volumeName="b"), "b", id="named by the claim"),
        pytest.param([volume("tiny", "1Gi")], claim(volumeName="tiny"), None, id="named, but too small"),
        pytest.param([], claim(volumeName="nowhere"), None, id="named, but missing"),
    ],
)
def test_which_volume_a_claim_gets(cluster, offered, wanted, expected):
    add(cluster, *offered, wanted)
    assert volume_of(cluster) == expected
    if expected is None:
        assert phase(cluster, PVC, "data") == "Pending"


def test_reservations_are_not_made_by_the_controller(cluster):
    add(cluster, volume("mine", **reserved_for("data")), claim(volumeName="mine"))
    assert volume_of(cluster) == "mine"
    assert BOUND_BY_CONTROLLER not in (cluster.get(PV, "mine")["metadata"].get("annotations") or {})
    assert BOUND_BY_CONTROLLER not in cluster.get(PVC, "data")["metadata"]["annotations"]


def test_a_named_volume_created_later(cluster):
    add(cluster, claim(volumeName="late"))
    assert phase(cluster, PVC, "data") == "Pending"
    add(cluster, volume("late"))
    assert volume_of(cluster) == "late"


def test_two_claims_that_name_one_volume(cluster):
    add(cluster, volume(), claim("first", volumeName="pv"), claim("second", volumeName="pv"))
    assert volume_of(cluster, "first") == "pv"
    assert volume_of(cluster, "second") is None
    assert ("Warning", "FailedBinding", 'volume "pv" already bound to a different claim.') in cluster.events("second")


def test_a_mismatch_is_reported(cluster):
    add(cluster, volume("tiny", "1Gi"), claim(volumeName="tiny"))
    message = 'Cannot bind to requested volume "tiny": requested PV is too small'
    assert ("Warning", "VolumeMismatch", message) in cluster.events("data")


def test_a_claim_without_a_class_and_a_volume_waits(cluster):
    add(cluster, claim())
    message = "no persistent volumes available for this claim and no storage class is set"
    assert cluster.events("data") == [("Normal", "FailedBinding", message)]


def test_waiting_claims_get_volumes_in_their_order(cluster):
    add(cluster, claim("first", "5Gi"), claim("second", "5Gi"), claim("large", "50Gi"))
    add(cluster, volume("one"))
    assert (volume_of(cluster, "first"), volume_of(cluster, "second")) == ("one", None)
    add(cluster, volume("two"))
    assert volume_of(cluster, "second") == "two"
    add(cluster, volume("three", "60Gi"))
    assert volume_of(cluster, "large") == "three"


def test_several_new_volumes_bind_all_waiting_claims(cluster):
    add(cluster, claim("first", "5Gi"), claim("second", "5Gi"))
    add(cluster, volume("large", "9Gi"), volume("small", "6Gi"))
    assert {volume_of(cluster, "first"), volume_of(cluster, "second")} == {"large", "small"}


@pytest.mark.parametrize("by_controller", [True, False], ids=["by the controller", "by a user"])
def test_a_second_volume_for_a_bound_claim_is_released(cluster, by_controller):
    add(cluster, volume(), claim())
    reference = {**reserved_for("data")["claimRef"], "uid": cluster.get(PVC, "data")["metadata"]["uid"]}
    spare = volume("spare", claimRef=reference)
    spare["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"} if by_controller else {}
    add(cluster, spare)
    assert volume_of(cluster) == "pv"
    found = cluster.get(PV, "spare")
    assert found["status"]["phase"] == "Available"
    del reference["uid"]
    assert found["spec"].get("claimRef") == (None if by_controller else reference)


# Classes


def test_the_provisioner_of_a_class_is_requested(cluster):
    add(cluster, storage_class(), claim(class_="fast"))
    annotations = cluster.get(PVC, "data")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "csi.example.com"
    (event,) = cluster.events("data")
    assert event[:2] == ("Normal", "ExternalProvisioning")
    assert "external provisioner 'csi.example.com'" in event[2]


def test_a_class_created_later_and_one_without_provisioner(cluster):
    add(cluster, claim(class_="fast"))
    message = 'storageclass.storage.k8s.io "fast" not found'
    assert cluster.events("data") == [("Warning", "ProvisioningFailed", message)]
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"))
    assert not cluster.get(PVC, "data")["metadata"].get("annotations")
    message = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert ("Warning", "ProvisioningFailed", message) in cluster.events("data")
    add(cluster, volume(class_="fast"))
    assert volume_of(cluster) == "pv"


def test_a_class_that_waits_for_the_first_consumer(cluster):
    add(cluster, storage_class(mode="WaitForFirstConsumer"), volume(class_="fast"), claim(class_="fast"))
    assert phase(cluster, PVC, "data") == "Pending"
    message = "waiting for first consumer to be created before binding"
    assert cluster.events("data") == [("Normal", "WaitForFirstConsumer", message)]
    # Reserve the volume, as the scheduler does.
    cluster.change(PV, "pv", lambda obj: obj["spec"].update(reserved_for("data")))
    cluster.settle()
    assert volume_of(cluster) == "pv"


def test_a_new_default_class_is_set_on_existing_claims(cluster):
    add(cluster, claim(class_=None), storage_class("old", default=True))
    assert cluster.get(PVC, "data")["spec"]["storageClassName"] == "old"
    assert "ExternalProvisioning" in {reason for _, reason, _ in cluster.events("data")}


# Lost claims and released volumes


def test_a_volume_is_released_when_its_claim_is_deleted(cluster):
    add(cluster, volume(), claim())
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.get(PVC, "data") is None
    assert phase(cluster, PV, "pv") == "Released"
    add(cluster, claim())
    assert volume_of(cluster) is None

    def clear(obj):
        del obj["spec"]["claimRef"]

    cluster.change(PV, "pv", clear)
    cluster.settle()
    assert volume_of(cluster) == "pv"


def test_an_expanded_claim_keeps_its_volume_with_an_event(cluster):
    add(cluster, storage_class(allowVolumeExpansion=True), volume(class_="fast"), claim(class_="fast"))
    cluster.change(PVC, "data", lambda one: one["spec"]["resources"]["requests"].update(storage="20Gi"))
    cluster.settle()
    assert cluster.get(PVC, "data")["status"]["capacity"] == {"storage": "10Gi"}
    assert cluster.get(PV, "pv")["spec"]["capacity"] == {"storage": "10Gi"}
    message = "The claim asks for 20Gi and its volume has 10Gi: nothing here resizes volumes"
    assert ("Warning", "ExternalExpanding", message) in cluster.events("data")


def test_a_volume_to_be_recycled_fails(cluster):
    add(cluster, volume(policy="Recycle"), claim())
    cluster.delete(PVC, "data")
    cluster.settle()
    assert phase(cluster, PV, "pv") == "Failed"
    assert "VolumeFailedRecycle" in {reason for _, reason, _ in cluster.events("pv")}


def test_a_claim_is_lost_when_its_volume_is_deleted(cluster):
    add(cluster, volume(), claim())
    cluster.delete(PV, "pv")
    cluster.settle()
    assert cluster.get(PV, "pv") is None
    assert phase(cluster, PVC, "data") == "Lost"
    assert ("Warning", "ClaimLost") in {event[:2] for event in cluster.events("data")}


def test_a_terminating_volume_is_deleted_with_its_claim(cluster):
    add(cluster, protected(volume()), protected(claim()))
    cluster.delete(PV, "pv")
    cluster.settle()
    assert volume_of(cluster) == "pv"
    cluster.delete(PVC, "data")
    cluster.settle()
    assert cluster.names(PV) == []
    assert cluster.names(PVC) == []


# One claim per volume

names = st.sampled_from(["a", "b", "c"])
sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("volume"), names, sizes, st.sampled_from(["", "a", "b"])),
        st.tuples(st.just("claim"), names, sizes, st.sampled_from(["", "a", "b"])),
        st.tuples(st.sampled_from(["drop volume", "drop claim", "tear"]), names),
        st.tuples(st.just("restart")),
        st.tuples(st.just("settle")),
    ),
    max_size=25,
)


def apply(cluster, step):
    kind, *rest = step
    name = rest[0] if rest else ""
    if kind == "settle":
        cluster.settle()
    elif kind == "restart":
        cluster.loop.close()
        cluster.restart()
    elif kind == "volume" and cluster.get(PV, name) is None:
        cluster.create(protected(volume(name, rest[1], **(reserved_for(rest[2]) if rest[2] else {}))))
    elif kind == "claim" and cluster.get(PVC, name) is None:
        cluster.create(protected(claim(name, rest[1], **({"volumeName": rest[2]} if rest[2] else {}))))
    elif kind == "drop volume" and cluster.get(PV, name):
        cluster.delete(PV, name)
    elif kind == "drop claim" and cluster.get(PVC, name):
        cluster.delete(PVC, name)
    elif kind == "tear" and cluster.get(PV, name):
        cluster.change(PV, name, lambda obj: obj["spec"].pop("claimRef", None))


@examples(80)
@given(plan=steps)
def test_both_sides_agree_and_no_volume_is_shared(plan):
    cluster = Living(VolumeBinder, ClaimProtectionController, VolumeProtectionController)
    for step in plan:
        apply(cluster, step)
    cluster.settle()
    volumes = {one["metadata"]["name"]: one for one in (cluster.get(PV, name) for name in "abc") if one}
    claims = {one["metadata"]["name"]: one for one in (cluster.get(PVC, name) for name in "abc") if one}
    bound = [one["spec"]["volumeName"] for one in claims.values() if one["status"]["phase"] == "Bound"]
    assert len(bound) == len(set(bound))
    for name, one in claims.items():
        assert one["status"]["phase"] in ("Pending", "Bound", "Lost")
        if one["status"]["phase"] == "Bound":
            assert volume_of(cluster, name) in volumes
    for name, one in volumes.items():
        if one["status"]["phase"] == "Bound":
            assert claims[one["spec"]["claimRef"]["name"]]["spec"]["volumeName"] == name
        elif one["status"]["phase"] == "Available":
            assert "uid" not in one["spec"].get("claimRef", {})
            # No claim is pending while a matching volume is available.
            assert not [
                wanted
                for wanted in claims.values()
                if wanted["status"]["phase"] == "Pending"
                and "claimRef" not in one["spec"]
                and "deletionTimestamp" not in one["metadata"]
                and not wanted["spec"].get("volumeName")
                and wanted["spec"]["resources"]["requests"]["storage"] <= one["spec"]["capacity"]["storage"]
            ]
