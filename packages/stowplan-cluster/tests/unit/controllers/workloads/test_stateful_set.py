import pytest

from support.live.controller_cluster import set_image, workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def names(cluster, **which):
    return [pod["metadata"]["name"] for pod in cluster.pods(**which)]


def image_of(cluster, name):
    return cluster.get("Pod", name)["spec"]["containers"][0]["image"]


def run_next(cluster):
    cluster.run_pods()
    cluster.settle()


def rolling(**options):
    return {"type": "RollingUpdate", "rollingUpdate": options}


def test_pods_are_created_in_order(cluster):
    cluster.create(workload("StatefulSet", replicas=3))
    cluster.settle()
    for count in (1, 2, 3):
        assert names(cluster) == [f"web-{ordinal}" for ordinal in range(count)]
        run_next(cluster)
    pod = cluster.get("Pod", "web-2")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-2", "web")
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-2"
    assert labels["apps.kubernetes.io/pod-index"] == "2"
    assert labels["controller-revision-hash"] == cluster.get("StatefulSet", "web")["status"]["currentRevision"]


def test_an_unavailable_pod_blocks_later_ones(cluster):
    cluster.create(workload("StatefulSet", replicas=2, minReadySeconds=10))
    cluster.settle()
    run_next(cluster)
    cluster.advance(9)
    assert names(cluster) == ["web-0"]
    cluster.advance(1)
    assert names(cluster) == ["web-0", "web-1"]


def test_parallel_pods_do_not_wait(cluster):
    cluster.create(workload("StatefulSet", replicas=60, podManagementPolicy="Parallel"))
    cluster.settle()
    assert len(names(cluster)) == 60
    cluster.scale("StatefulSet", "web", 2)
    cluster.settle()
    assert names(cluster) == ["web-0", "web-1"]


def test_scaling_down_deletes_the_highest_ordinal_first(cluster):
    cluster.create(workload("StatefulSet", replicas=3))
    cluster.live()
    cluster.scale("StatefulSet", "web", 1)
    cluster.settle()
    assert names(cluster) == ["web-0", "web-1"]
    assert cluster.get("StatefulSet", "web")["status"]["replicas"] == 3
    cluster.finish_deletions()
    cluster.settle()
    assert names(cluster) == ["web-0"]


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        pytest.param("Running", ["web-0", "web-1", "web-2"], id="waits for pods that may become ready"),
        pytest.param("Failed", ["web-0"], id="does not wait for failed pods"),
    ],
)
def test_scaling_down_past_pods_that_are_not_ready(cluster, phase, left):
    cluster.create(workload("StatefulSet", replicas=3))
    cluster.live()
    for name in ("web-1", "web-2"):
        cluster.set_pod(name, phase=phase, ready=False)
    cluster.scale("StatefulSet", "web", 1)
    cluster.live()
    assert names(cluster) == left


def test_the_only_unready_pod_may_be_deleted(cluster):
    cluster.create(workload("StatefulSet", replicas=3))
    cluster.live()
    cluster.set_pod("web-2", ready=False)
    cluster.scale("StatefulSet", "web", 1)
    cluster.live()
    assert names(cluster) == ["web-0"]


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


def test_start_ordinal(cluster):
    cluster.create(workload("StatefulSet", replicas=2, ordinals={"start": 5}))
    cluster.live()
    assert names(cluster) == ["web-5", "web-6"]
    cluster.change("StatefulSet", "web", lambda obj: obj["spec"].update(ordinals={"start": 6}))
    cluster.live()
    assert names(cluster) == ["web-6", "web-7"]


def test_an_update_starts_at_the_highest_ordinal_and_waits_for_each(cluster):
    cluster.create(workload("StatefulSet", replicas=3))
    cluster.live()
    cluster.change("StatefulSet", "web", set_image("app:2"))
    cluster.settle()
    assert names(cluster) == ["web-0", "web-1"]
    status = cluster.get("StatefulSet", "web")["status"]
    assert status["currentRevision"] != status["updateRevision"]
    cluster.finish_deletions()
    cluster.settle()
    assert [image_of(cluster, name) for name in names(cluster)] == ["app:1", "app:1", "app:2"]
    cluster.live()
    assert [image_of(cluster, name) for name in names(cluster)] == ["app:2"] * 3
    status = cluster.get("StatefulSet", "web")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert (status["currentReplicas"], status["updatedReplicas"], status["readyReplicas"]) == (3, 3, 3)


def test_a_partition_excludes_lower_ordinals(cluster):
    cluster.create(workload("StatefulSet", replicas=3, updateStrategy=rolling(partition=2)))
    cluster.live()
    cluster.change("StatefulSet", "web", set_image("app:2"))
    cluster.live()
    assert [image_of(cluster, name) for name in names(cluster)] == ["app:1", "app:1", "app:2"]
    cluster.delete("Pod", "web-0")
    cluster.live()
    assert image_of(cluster, "web-0") == "app:1"


def test_on_delete_updates_deleted_pods(cluster):
    cluster.create(workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"}))
    cluster.live()
    cluster.change("StatefulSet", "web", set_image("app:2"))
    cluster.live()
    assert image_of(cluster, "web-0") == "app:1"
    cluster.delete("Pod", "web-0")
    cluster.live()
    assert [image_of(cluster, name) for name in names(cluster)] == ["app:2", "app:1"]


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
