import pytest

from support.live.controller_cluster import set_image, workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def names(cluster, **which):
    return [pod["metadata"]["name"] for pod in cluster.pods(**which)]


def test_parallel_pods_do_not_wait(cluster):
    cluster.create(workload("StatefulSet", replicas=60, podManagementPolicy="Parallel"))
    cluster.settle()
    assert len(names(cluster)) == 60
    cluster.scale("StatefulSet", "web", 2)
    cluster.settle()
    assert names(cluster) == ["web-0", "web-1"]


def test_parallel_pods_do_not_wait_for_the_deletion_of_a_finished_one(cluster):
    cluster.create(workload("StatefulSet", replicas=1, podManagementPolicy="Parallel"))
    cluster.live()
    cluster.change("Pod", "web-0", lambda pod: pod["metadata"].update(finalizers=["example.com/audit"]))
    cluster.set_pod("web-0", phase="Failed", ready=False)
    cluster.scale("StatefulSet", "web", 2)
    cluster.live()
    assert names(cluster, terminating=True) == ["web-0", "web-1"]


def test_a_deleted_pod_is_recreated_with_its_name(cluster):
    cluster.create(workload("StatefulSet", replicas=2))
    cluster.live()
    before = cluster.get("Pod", "web-0")["metadata"]["uid"]
    cluster.set_pod("web-0", phase="Failed", ready=False)
    cluster.live()
    after = cluster.get("Pod", "web-0")
    assert after["metadata"]["uid"] != before
    assert after["status"]["phase"] == "Running"


def test_revisions_are_numbered_reused_and_deleted(cluster):
    cluster.create(workload("StatefulSet", replicas=1, revisionHistoryLimit=1))
    cluster.live()
    for image in ("app:2", "app:1", "app:3", "app:4"):
        cluster.change("StatefulSet", "web", set_image(image))
        cluster.live()
    revisions = cluster.all("ControllerRevision")
    assert sorted(one["revision"] for one in revisions) == [4, 5]
    assert all(one["data"]["spec"]["template"]["$patch"] == "replace" for one in revisions)
    assert all(one["metadata"]["labels"]["controller.kubernetes.io/hash"] for one in revisions)


def test_each_pod_has_claims_that_are_retained(cluster):
    cluster.create(workload("StatefulSet", replicas=2, volumeClaimTemplates=[CLAIM]))
    cluster.live()
    cluster.scale("StatefulSet", "web", 1)
    cluster.live()
    claims = cluster.all("PersistentVolumeClaim")
    assert [claim["metadata"]["name"] for claim in claims] == ["data-web-0", "data-web-1"]
    assert claims[0]["metadata"]["labels"] == {"app": "web"}
    assert not any(claim["metadata"].get("ownerReferences") for claim in claims)
    (volume,) = [one for one in cluster.get("Pod", "web-0")["spec"]["volumes"] if one["name"] == "data"]
    assert volume["persistentVolumeClaim"]["claimName"] == "data-web-0"
    reasons = [(reason, message) for _, reason, message in cluster.events("web")]
    assert ("SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success") in reasons
    assert ("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful") in reasons


@pytest.mark.parametrize(
    ("deleted", "scaled", "owners"),
    [
        pytest.param("Retain", "Retain", [[], []], id="both retained"),
        pytest.param("Delete", "Retain", [["StatefulSet"], ["StatefulSet"]], id="deleted with the set"),
        pytest.param("Retain", "Delete", [[], ["Pod"]], id="deleted with the scaled-down pod"),
        pytest.param("Delete", "Delete", [["StatefulSet"], ["Pod"]], id="deleted with either"),
    ],
)
def test_owner_references_by_retention_policy(cluster, deleted, scaled, owners):
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    cluster.create(
        workload(
            "StatefulSet",
            replicas=2,
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy=policy,
        )
    )
    cluster.live()
    cluster.scale("StatefulSet", "web", 1)
    cluster.settle()
    references = [claim["metadata"].get("ownerReferences") or [] for claim in cluster.all("PersistentVolumeClaim")]
    assert [[one["kind"] for one in listed] for listed in references] == owners


def test_a_pod_waits_for_the_deletion_of_its_predecessors_claim(cluster):
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    cluster.create(
        workload(
            "StatefulSet",
            replicas=2,
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy=policy,
        )
    )
    cluster.live()
    cluster.scale("StatefulSet", "web", 1)
    cluster.live()
    cluster.scale("StatefulSet", "web", 2)
    cluster.live()
    assert names(cluster) == ["web-0"]
    cluster.delete("PersistentVolumeClaim", "data-web-1")
    cluster.advance(2)
    assert names(cluster) == ["web-0", "web-1"]


def test_an_orphan_of_the_right_name_is_adopted_and_labelled(cluster):
    for name in ("web-0", "other"):
        pod = workload("StatefulSet")["spec"]["template"]
        metadata = {"name": name, "labels": {"app": "web"}}
        cluster.create({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata})
    cluster.create(workload("StatefulSet", replicas=1, updateStrategy={"type": "OnDelete"}))
    cluster.live()
    adopted = cluster.get("Pod", "web-0")["metadata"]
    assert adopted["ownerReferences"][0]["name"] == "web"
    assert adopted["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert not cluster.get("Pod", "other")["metadata"].get("ownerReferences")


def test_a_settled_set_writes_nothing(cluster):
    cluster.create(workload("StatefulSet", replicas=2, volumeClaimTemplates=[CLAIM]))
    cluster.live()
    version = cluster.store.version
    cluster.advance(3600)
    assert cluster.store.version == version
