"""Pods whose volumes are provisioned and bound by other components; the scheduler runs as a process on API servers.

Neither server runs a volume controller. The scheduler writes the selected node of a claim, or a volume's claim; the
test acts as the provisioner and the volume controller, or fails to.
"""

import json
import signal
import time

import pytest

from support.api import manifests
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"
KINDS = SERVER_KINDS
ZONES = {"n-a": "a", "n-b": "b", "n-c": "c"}
MIB = "64Mi"


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    made = embedded_server(folder, "--controllers=") if request.param == "embedded" else real_server(folder, assets())
    with made as server:
        nodes = [manifests.node(name) for name in ZONES]
        for node in nodes:
            name = node["metadata"]["name"]
            node["metadata"]["labels"] = {ZONE: ZONES[name], "kubernetes.io/hostname": name}
        server.kubectl("create", "-f", "-", stdin=[*nodes, a_class("zonal", "disk.example.com"), a_class("local")])
        # The API server taints new nodes as not ready.
        server.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-", check=False)
        yield server


@pytest.fixture
def volumes(server, tmp_path):
    with kube_scheduler(tmp_path, server.kubeconfig, "--leader-elect=false") as scheduler:
        made = Volumes(server, server.new_namespace("volumes"), scheduler, tmp_path)
        yield made
        made.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def a_class(name, provisioner="kubernetes.io/no-provisioner"):
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return about | {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


class Volumes:
    """A namespace, and operations on its claims."""

    def __init__(self, server, namespace, scheduler, folder):
        self._server, self.namespace, self._scheduler, self._folder = server, namespace, scheduler, folder

    def kubectl(self, *args, **options):
        return self._server.kubectl("-n", self.namespace, *args, **options)

    def get(self, kind, name):
        return json.loads(self.kubectl("get", kind, name, "-o", "json").stdout)

    def until(self, holds, what, seconds=40):
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"timed out waiting for {what}"
            time.sleep(0.1)
        return found

    def create(self, *names, storage_class="zonal", **spec):
        """Pods with a claim each, of the same name."""
        objects = []
        for name in names:
            asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": MIB}}}
            about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
            objects.append(about | {"spec": asks | {"storageClassName": storage_class}})
            pod = manifests.pod(name, **spec)
            pod["metadata"]["labels"] = {"app": "db"}
            pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            objects.append(pod)
        self.kubectl("create", "-f", "-", stdin=objects)

    def selected(self, claim):
        """The node that the scheduler selects for the claim, once it does."""

        def named():
            return self.get("pvc", claim)["metadata"].get("annotations", {}).get(SELECTED)

        return self.until(named, f"a node for claim {claim}")

    def node_of(self, pod):
        return self.until(lambda: self.get("pod", pod)["spec"].get("nodeName"), f"the binding of {pod}")

    def message_of(self, pod):
        conditions = self.get("pod", pod).get("status", {}).get("conditions", ())
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

    # -- the provisioner and the volume controller

    def provision(self, claim, node):
        name = f"{self.namespace}-{claim}"
        self.kubectl("create", "-f", "-", stdin=[self.volume(name, ZONE, ZONES[node], "zonal")])
        self.bind(claim, name)

    def volume(self, name, key, value, storage_class):
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
        spec = {
            "capacity": {"storage": MIB},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}

    def bind(self, claim, volume):
        """Write both sides, as the volume controller does."""
        found = self.get("pvc", claim)
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.namespace, "name": claim}
        self.patch("pv", volume, {"spec": {"claimRef": reference | {"uid": found["metadata"]["uid"]}}})
        self.patch("pv", volume, {"status": {"phase": "Bound"}}, "--subresource=status")
        completed = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        self.patch("pvc", claim, {"metadata": {"annotations": completed}, "spec": {"volumeName": volume}})
        bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": MIB}}
        self.patch("pvc", claim, {"status": bound}, "--subresource=status")

    def patch(self, kind, name, patch, *args):
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *args)

    # -- the scheduler

    def restart(self, *flags):
        """Kill the scheduler and start it again."""
        self._scheduler.end(signal.SIGKILL)
        return kube_scheduler(self._folder, self._server.kubeconfig, "--leader-elect=false", *flags, name="again")


def test_over_three_zones(volumes):
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    names = [f"db-{i}" for i in range(6)]
    volumes.create(*names, topologySpreadConstraints=[spread])
    chosen = {name: volumes.selected(name) for name in names}
    assert [volumes.get("pod", name)["spec"].get("nodeName") for name in names] == [None] * 6
    for name, node in chosen.items():
        volumes.provision(name, node)
    assert {name: volumes.node_of(name) for name in names} == chosen
    assert sorted(chosen.values()) == ["n-a", "n-a", "n-b", "n-b", "n-c", "n-c"]


def test_two_pods_compete_for_one_local_volume(volumes):
    volume = f"{volumes.namespace}-local"
    volumes.kubectl("create", "-f", "-", stdin=[volumes.volume(volume, "kubernetes.io/hostname", "n-b", "local")])
    volumes.patch("pv", volume, {"status": {"phase": "Available"}}, "--subresource=status")
    volumes.create("one", "two", storage_class="local")
    # The scheduler itself writes the volume's claim.
    claim = volumes.until(
        lambda: volumes.get("pv", volume)["spec"].get("claimRef", {}).get("name"), "a claim for the volume"
    )
    (other,) = {"one", "two"} - {claim}
    volumes.until(lambda: "didn't find available persistent volumes" in volumes.message_of(other), "the refusal")
    volumes.bind(claim, volume)
    assert volumes.node_of(claim) == "n-b"
    assert "nodeName" not in volumes.get("pod", other)["spec"]
    volumes.kubectl("delete", "pv", volume, "--wait=false")


def test_a_scheduler_that_dies_while_it_waits(volumes):
    volumes.create("p")
    node = volumes.selected("p")
    with volumes.restart() as scheduler:
        scheduler.until("Starting Kubernetes Scheduler")
        volumes.provision("p", node)
        assert volumes.node_of("p") == node


def test_a_csi_node_is_deleted(volumes):
    """Its limits are lost for later pods. Parity: this wakes no pod."""
    driver = "disk.example.com"
    limits = [{"name": driver, "nodeID": "n-c", "topologyKeys": [], "allocatable": {"count": 1}}]
    csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n-c"}}
    volumes.kubectl("create", "-f", "-", stdin=[csi_node | {"spec": {"drivers": limits}}])

    def with_a_volume(*names):
        volumes.create(*names, nodeSelector={"kubernetes.io/hostname": "n-c"})
        for name in names:
            made = volumes.volume(f"{volumes.namespace}-{name}", ZONE, "c", "zonal")
            del made["spec"]["local"]
            made["spec"]["csi"] = {"driver": driver, "volumeHandle": f"{volumes.namespace}-{name}"}
            volumes.kubectl("create", "-f", "-", stdin=[made])
            volumes.bind(name, f"{volumes.namespace}-{name}")

    def bound():
        return [name for name in ("first", "second") if volumes.get("pod", name)["spec"].get("nodeName")]

    with_a_volume("first", "second")
    (other,) = {"first", "second"} - set(volumes.until(bound, "the binding of one of them"))
    volumes.until(lambda: "exceed max volume count" in volumes.message_of(other), "the refusal")
    volumes.kubectl("delete", "csinode", "n-c")
    with_a_volume("third")
    assert volumes.node_of("third") == "n-c"
