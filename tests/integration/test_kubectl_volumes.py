"""A StatefulSet with volumes over three zones, from kubectl to Running pods, with `stowplan up`."""

import pytest

from support.api import manifests
from support.processes.cluster_commands import serving, until
from support.processes.servers import Server

ZONE = "topology.kubernetes.io/zone"


class Up(Server):
    """`stowplan up`; its log is beside the kubeconfig."""

    def until(self, condition):
        until(condition, self.process, self.folder / "log")


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("up")
    with serving("up", folder, "--nodes=6") as (process, _, _):
        yield Up("embedded", folder / "kubeconfig", folder, process)


def storage_class(name, mode="WaitForFirstConsumer"):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "disk.example.com",
        "volumeBindingMode": mode,
        "allowVolumeExpansion": True,
    }


def stateful_set(name, replicas):
    found = manifests.workload("StatefulSet", name, replicas=replicas)
    pod = found["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    pod["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": found["spec"]["selector"],
        }
    ]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "zonal",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    found["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    found["spec"]["podManagementPolicy"] = "Parallel"
    return found


def test_a_stateful_set_over_three_zones(up):
    up.kubectl("apply", "-f", "-", stdin=[storage_class("zonal"), stateful_set("db", 6)])
    up.kubectl("rollout", "status", "statefulset/db", "--timeout=40s")
    rows = [line.split() for line in up.kubectl("get", "pvc").stdout.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [(f"data-db-{i}", "Bound") for i in range(6)]
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in up.json("get", "nodes")["items"]}
    used = []
    for i in range(6):
        node = up.json("get", "pod", f"db-{i}")["spec"]["nodeName"]
        claim = up.json("get", "pvc", f"data-db-{i}")
        volume = up.json("get", "pv", claim["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": [zones[node]]}]
        assert volume["spec"]["claimRef"]["name"] == f"data-db-{i}"
        used.append(zones[node])
    assert {zone: used.count(zone) for zone in used} == dict.fromkeys(sorted(set(zones.values())), 2)

    # Bound claims stay with their pods, which return to the zones of their volumes.
    up.kubectl("delete", "pod", "db-0", "--timeout=20s")
    up.kubectl("rollout", "status", "statefulset/db", "--timeout=40s")
    node = up.json("get", "pod", "db-0")["spec"]["nodeName"]
    assert zones[node] == used[0]

    # Volumes are not resized, and the user is told so.
    up.kubectl("patch", "pvc", "data-db-1", "-p", '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}')
    said = "The claim asks for 2Gi and its volume has 1Gi: nothing here resizes volumes"
    up.until(lambda: said in up.kubectl("describe", "pvc", "data-db-1").stdout)
    assert up.json("get", "pvc", "data-db-1")["status"]["capacity"] == {"storage": "1Gi"}
