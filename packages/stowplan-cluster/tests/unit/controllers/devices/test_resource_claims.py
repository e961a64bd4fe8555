"""Resource claims: created from templates, reservations removed when pods finish, deallocated after
the last consumer."""

import pytest

from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.devices.resource_claims import FINALIZER, ResourceClaimController, generate_name
from support.live.living_cluster import Living, pod
from support.plugins.devices import allocation, exactly
from support.plugins.storage import of

CLAIM, TEMPLATE = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"


@pytest.fixture
def cluster():
    return Living(ResourceClaimController, GarbageCollector)


def template(name="t", **metadata):
    spec = {"metadata": metadata, "spec": {"devices": {"requests": [exactly()]}}}
    return of("ResourceClaimTemplate", name, "resource.k8s.io/v1", metadata={"namespace": "default"}, spec=spec)


def of_template(name="web", **rest):
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}], **rest)


def claim(name="c"):
    spec = {"devices": {"requests": [exactly()]}}
    return of("ResourceClaim", name, "resource.k8s.io/v1", metadata={"namespace": "default"}, spec=spec)


def with_claim(name="web", **rest):
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}], **rest)


def claim_of(cluster, name="web"):
    (status,) = cluster.pod(name)["status"]["resourceClaimStatuses"]
    return cluster.get(CLAIM, status["resourceClaimName"])


def allocate(cluster, name, *users):
    """Allocate and reserve the claim, as the scheduler does."""
    protected = cluster.change(CLAIM, name, lambda obj: obj["metadata"].update(finalizers=[FINALIZER]))
    assert protected["metadata"]["finalizers"] == [FINALIZER]
    reserved = [{"resource": "pods", "name": one, "uid": cluster.pod(one)["metadata"]["uid"]} for one in users]
    status = {**allocation("g0"), "reservedFor": reserved}
    cluster.change(CLAIM, name, lambda obj: obj.update(status=status), subresource="status")
    cluster.settle()


def end(cluster, name="web", phase="Succeeded"):
    cluster.change("Pod", name, lambda obj: obj["status"].update(phase=phase), subresource="status")
    cluster.settle()


def users(cluster, name="c"):
    return [one["name"] for one in cluster.get(CLAIM, name)["status"].get("reservedFor", ())]


def test_a_claim_is_created_from_the_template_and_recorded_in_the_pods_status(cluster):
    cluster.create(template(labels={"a": "b"}, annotations={"c": "d"}))
    cluster.create(of_template())
    cluster.settle()
    made = claim_of(cluster)
    metadata = made["metadata"]
    assert metadata["name"].startswith("web-gpu-")
    assert metadata["generateName"] == "web-gpu-"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "controller": True}
    assert metadata["ownerReferences"] == [owner | {"uid": cluster.pod("web")["metadata"]["uid"]}]
    assert metadata["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert metadata["labels"] == {"a": "b"}
    assert made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
    cluster.restart()
    cluster.settle()
    assert len(cluster.names(CLAIM)) == 1


@pytest.mark.parametrize(
    ("pod", "entry", "expected"),
    [
        ("web", "gpu", "web-gpu-"),
        ("p" * 40, "e" * 15, "p" * 40 + "-" + "e" * 15 + "-"),
        ("p" * 60, "e" * 38, "p" * 34 + "-" + "e" * 21),
    ],
)
def test_long_names_are_shortened_proportionally(pod, entry, expected):
    assert generate_name(pod, entry) == expected


def test_a_missing_template_is_reported_and_waited_for(cluster):
    cluster.create(of_template())
    cluster.settle()
    problem = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    assert ("Warning", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {problem}") in cluster.events("web")
    cluster.create(template())
    cluster.advance(60)
    assert claim_of(cluster)["metadata"]["generateName"] == "web-gpu-"


def test_a_deleted_claim_is_recreated(cluster):
    cluster.create(template())
    cluster.create(of_template())
    cluster.settle()
    before = claim_of(cluster)["metadata"]["name"]
    cluster.delete(CLAIM, before)
    cluster.settle()
    assert cluster.names(CLAIM) == [claim_of(cluster)["metadata"]["name"]] != [before]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_claim_of_a_finished_pod_is_deleted(cluster, phase):
    cluster.create(template())
    cluster.create(of_template(node="n"))
    cluster.settle()
    allocate(cluster, claim_of(cluster)["metadata"]["name"], "web")
    end(cluster, phase=phase)
    assert cluster.names(CLAIM) == []
    assert cluster.names("Pod") == ["web"]


def test_the_claim_is_deleted_with_its_pod(cluster):
    cluster.create(template())
    cluster.create(of_template(node="n"))
    cluster.settle()
    allocate(cluster, claim_of(cluster)["metadata"]["name"], "web")
    cluster.delete("Pod", "web", grace_period_seconds=0)
    cluster.settle()
    assert cluster.names(CLAIM) == []


def test_devices_are_deallocated_after_the_last_consumer(cluster):
    cluster.create(claim())
    for name in ("a", "b"):
        cluster.create(with_claim(name, node="n"))
    allocate(cluster, "c", "a", "b")
    end(cluster, "a")
    assert users(cluster) == ["b"]
    assert "allocation" in cluster.get(CLAIM, "c")["status"]
    cluster.delete("Pod", "b", grace_period_seconds=0)
    cluster.settle()
    left = cluster.get(CLAIM, "c")
    assert left["status"] == {}
    assert "finalizers" not in left["metadata"]


def test_a_recreated_pod_is_another_consumer(cluster):
    cluster.create(claim())
    cluster.create(with_claim(node="n"))
    allocate(cluster, "c", "web")
    cluster.loop.close()
    cluster.delete("Pod", "web", grace_period_seconds=0)
    cluster.create(with_claim())
    cluster.restart()
    cluster.settle()
    assert "allocation" not in cluster.get(CLAIM, "c")["status"]


def test_a_claim_deleted_in_use_stays_until_it_is_unused(cluster):
    cluster.create(claim())
    cluster.create(with_claim(node="n"))
    allocate(cluster, "c", "web")
    cluster.delete(CLAIM, "c")
    cluster.settle()
    assert users(cluster) == ["web"]
    end(cluster)
    assert cluster.names(CLAIM) == []


def test_an_allocated_unused_claim_can_be_deleted(cluster):
    cluster.create(claim())
    allocate(cluster, "c")
    assert "allocation" in cluster.get(CLAIM, "c")["status"]
    cluster.delete(CLAIM, "c")
    cluster.settle()
    assert cluster.names(CLAIM) == []


def test_a_bound_pod_reserves_its_allocated_claim(cluster):
    cluster.create(claim())
    allocate(cluster, "c")
    cluster.create(with_claim(node="n"))
    cluster.settle()
    assert users(cluster) == ["web"]


def test_reservations_of_other_consumers_are_kept(cluster):
    cluster.create(claim())
    allocate(cluster, "c")
    user = {"apiGroup": "example.com", "resource": "gangs", "name": "g", "uid": "u"}
    cluster.change(CLAIM, "c", lambda obj: obj["status"].update(reservedFor=[user]), subresource="status")
    cluster.settle()
    assert users(cluster) == ["g"]


GROUP = "podgroups.scheduling.k8s.io"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "t"}


def group(name="train", *entries, policy=None):
    spec = {"schedulingPolicy": policy or {"basic": {}}, "resourceClaims": list(entries or [ENTRY])}
    return of("PodGroup", name, "scheduling.k8s.io/v1beta1", metadata={"namespace": "default"}, spec=spec)


def member(name="web", entry=ENTRY, **rest):
    return pod(name, resourceClaims=[entry], schedulingGroup={"podGroupName": "train"}, **rest)


def entries_of(cluster, kind, name):
    statuses = cluster.get(kind, name).get("status", {}).get("resourceClaimStatuses", [])
    return {one["name"]: one["resourceClaimName"] for one in statuses}


@pytest.mark.parametrize("group_first", [True, False])
def test_a_group_has_one_claim_that_its_pods_share(cluster, group_first):
    objects = [group(), member("a"), member("b")]
    for obj in [template(), *(objects if group_first else objects[::-1])]:
        cluster.create(obj)
        cluster.settle()
    (made,) = cluster.names(CLAIM)
    assert made.startswith("train-gpu-")
    assert [entries_of(cluster, *one) for one in ((GROUP, "train"), ("Pod", "a"), ("Pod", "b"))] == [{"gpu": made}] * 3
    (owner,) = cluster.get(CLAIM, made)["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "name": "train",
        "uid": cluster.get(GROUP, "train")["metadata"]["uid"],
        "controller": True,
    }
    version = cluster.store.version
    cluster.restart()
    cluster.settle()
    assert cluster.store.version == version


def test_a_pod_whose_claim_differs_from_the_groups_has_its_own(cluster):
    cluster.create(template())
    cluster.create(template("u"))
    cluster.create(group())
    cluster.create(member("a", {"name": "gpu", "resourceClaimTemplateName": "u"}))
    cluster.settle()
    assert entries_of(cluster, "Pod", "a")["gpu"].startswith("a-gpu-")
    assert entries_of(cluster, GROUP, "train")["gpu"].startswith("train-gpu-")


def test_a_pod_waits_for_its_group(cluster):
    cluster.create(template())
    cluster.create(member("a"))
    cluster.settle()
    assert cluster.names(CLAIM) == []


def test_a_deleted_claim_of_a_group_is_recreated(cluster):
    cluster.create(template())
    cluster.create(group())
    cluster.create(member("a"))
    cluster.settle()
    (first,) = cluster.names(CLAIM)
    cluster.delete(CLAIM, first)
    cluster.settle()
    (second,) = cluster.names(CLAIM)
    assert second != first
    assert entries_of(cluster, "Pod", "a") == entries_of(cluster, GROUP, "train") == {"gpu": second}


def test_a_missing_template_of_a_group_is_reported(cluster):
    cluster.create(group())
    cluster.settle()
    (event,) = cluster.events("train")
    assert event[:2] == ("Warning", "FailedResourceClaimCreation")
    assert event[2].startswith('PodGroupResourceClaim gpu: resource claim template "t"')
    cluster.create(template())
    cluster.advance(120)
    assert len(cluster.names(CLAIM)) == 1


def test_the_reservation_ends_with_the_group(cluster):
    cluster.create(claim())
    cluster.create(group("train", {"name": "gpu", "resourceClaimName": "c"}))
    cluster.settle()
    cluster.change(CLAIM, "c", lambda obj: obj["metadata"].update(finalizers=[FINALIZER]))
    uid = cluster.get(GROUP, "train")["metadata"]["uid"]
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": uid}
    status = {**allocation("g0"), "reservedFor": [user]}
    cluster.change(CLAIM, "c", lambda obj: obj.update(status=status), subresource="status")
    cluster.settle()
    assert users(cluster) == ["train"]
    cluster.delete(GROUP, "train")
    cluster.settle()
    assert cluster.get(CLAIM, "c")["status"] == {}


def test_a_bound_pod_reserves_for_its_group(cluster):
    entry = {"name": "gpu", "resourceClaimName": "c"}
    cluster.create(claim())
    cluster.create(group("train", entry))
    allocate(cluster, "c")
    cluster.create(member("a", entry, nodeName="n"))
    cluster.settle()
    assert users(cluster) == ["train"]
