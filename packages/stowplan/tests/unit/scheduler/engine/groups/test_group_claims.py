"""Volumes of pods in trials: unbound claims, shared claims, and what undoing restores."""

import pytest

from stowplan.testing.live import live_cluster
from support.scheduling.groups import a_group, condition, member, node, nodes_of

GATES = {"GenericWorkload": True, "GangScheduling": True}


HOSTS = (node("n1", 4, host="n1"), node("n2", 4, host="n2"))


def storage_class():
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name, mode="ReadWriteOnce"):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid"},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }


def volume(name, on):
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "local",
            "volumeMode": "Filesystem",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


def with_claim(name, of):
    made = member(name)
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    return made


def test_members_get_different_volumes():
    """In a trial, the second pod does not get the first one's volume; a failed trial keeps nothing."""
    objects = [*HOSTS, storage_class(), a_group(gang=2), claim("c1"), claim("c2")]
    with live_cluster(*objects, volume("v1", "n1"), feature_gates=GATES, emulated_version="1.36") as cluster:
        cluster.create(with_claim("a", "c1"), with_claim("b", "c2"))
        assert nodes_of(cluster, "a", "b") == ["", ""]
        assert condition(cluster) == [("False", "Unschedulable", "pod group is unschedulable")]
        assert any("didn't find available persistent volumes to bind" in cluster.why_pending(name) for name in "ab")
        # No volume is reserved.
        assert cluster.get("persistentvolumes", "v1")["spec"].get("claimRef") is None
        assert cluster.engine.state.sizes()["assumed_pods"] == 0
        cluster.engine.validate()
        cluster.create(volume("v2", "n2"))
        cluster.advance(30)
        placed = {info.key: info.node_name for info in cluster.engine.state.pod_groups.placed("default/g")}
        assert sorted(placed.values()) == ["n1", "n2"]


def test_members_that_share_a_claim_go_to_its_volumes_node():
    objects = [*HOSTS, storage_class(), a_group(gang=2), claim("c")]
    with live_cluster(*objects, volume("v2", "n2"), feature_gates=GATES, emulated_version="1.36") as cluster:
        cluster.create(with_claim("a", "c"), with_claim("b", "c"))
        # Both pods write the volume: the second write meets a conflict with the same content.
        assert not cluster.events(reason="FailedScheduling")
        placed = {info.key: info.node_name for info in cluster.engine.state.pod_groups.placed("default/g")}
        assert placed == {"default/a": "n2", "default/b": "n2"}
        cluster.engine.validate()


@pytest.mark.parametrize("mode", ["ReadWriteOncePod"])
def test_a_read_write_once_pod_claim_is_not_shared_by_two_members(mode):
    objects = [*HOSTS, storage_class(), a_group(gang=2), claim("c", mode)]
    with live_cluster(*objects, volume("v1", "n1"), feature_gates=GATES, emulated_version="1.36") as cluster:
        cluster.create(with_claim("a", "c"), with_claim("b", "c"))
        assert not list(cluster.engine.state.pod_groups.placed("default/g"))
        reasons = [cluster.why_pending(name) for name in "ab"]
        assert any("ReadWriteOncePod" in reason for reason in reasons)
