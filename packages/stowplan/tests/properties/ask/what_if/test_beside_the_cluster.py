"""What answers say about volumes, carried out by the embedded cluster: its controllers bind and provision."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from stowplan import Cluster
from stowplan.ask.loading.object_files import objects_of_files
from stowplan.ask.what_if import Put, Scale, drain, fit, survive, what_if
from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.volumes.volume_controllers import EphemeralVolumeController, Provisioner, VolumeBinder
from stowplan_cluster.controllers.workloads.stateful_set import StatefulSetController
from support.api.storage_objects import claim, reserved_for, storage_class, volume
from support.live.live_scheduler import live
from support.live.volumes import StorageControllers
from support.what_if.objects import ZONE, node

SET = "statefulsets.apps"
STORAGE = ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")
KINDS = ("nodes", *(f"{name}.storage.k8s.io" for name in STORAGE), "persistentvolumes", "persistentvolumeclaims", SET)
HOST = "kubernetes.io/hostname"
LOCAL = "kubernetes.io/no-provisioner"
LATE = "WaitForFirstConsumer"


def a_set(replicas=1, class_="fast", *, cpu="1", ephemeral=False, **spec):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    if class_ is not None:
        spec["storageClassName"] = class_
    data = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"containers": [container], **({"volumes": [data]} if ephemeral else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "k", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "k",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "k"}},
            "template": {"metadata": {"labels": {"app": "k"}}, "spec": template},
            "volumeClaimTemplates": [] if ephemeral else [{"metadata": {"name": "data"}, "spec": spec}],
        },
    }


def in_zone(zone):
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def allowed(*zones):
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]}


def csi_node(name, count=None, keys=()):
    driver = {"name": "csi.example.com", "nodeID": name, "topologyKeys": list(keys)}
    if count is not None:
        driver["allocatable"] = {"count": count}
    metadata = {"name": name}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": [driver]}}


def capacity(**sizes):
    """The driver tracks its capacity, by zone."""
    storage = {"apiVersion": "storage.k8s.io/v1"}
    yield {**storage, "kind": "CSIDriver", "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    for zone, size in sizes.items():
        metadata = {"name": zone, "namespace": "default"}
        topology = {"matchLabels": {ZONE: zone}}
        made = {**storage, "kind": "CSIStorageCapacity", "metadata": metadata, "storageClassName": "fast"}
        yield {**made, "capacity": size, "nodeTopology": topology}


NODES = [node("n0", "3", "x"), node("n1", "3", "y"), node("n2", "3", "y")]
STATIC = [volume("v0", class_="local"), volume("v1", class_="local", **in_zone("x")), volume("v2", class_="local")]
#: Classes without a provisioner, and the set that uses them.
NONE, NONE_LATE = (storage_class("local", provisioner=LOCAL, mode=mode) for mode in ("Immediate", LATE))
USER, SCRATCH_USER = a_set(class_="local"), a_set(class_="local", ephemeral=True)
SSD = {"selector": {"matchLabels": {"disk": "ssd"}}}
KEPT = claim("data-k-1", class_="fast")
HELD = volume("v", class_="local", **reserved_for("data-k-1"), **in_zone("y"))

CASES = {
    "immediate": [storage_class()],
    "immediate, no zones": [storage_class(), "no zones"],
    "immediate, without a provisioner": [NONE, USER],
    "immediate, static volumes": [NONE, USER, *STATIC],
    "immediate, static volumes and a provisioner": [storage_class("local"), USER, *STATIC],
    "immediate, one zone allowed": [storage_class(**allowed("y"))],
    "immediate, no zone allowed": [storage_class(**allowed("z"))],
    "immediate, the driver's keys": [storage_class(), *(csi_node(f"n{i}", keys=[HOST]) for i in range(3))],
    "immediate, few volumes per node": [storage_class(), *(csi_node(f"n{i}", 2, [ZONE]) for i in range(3))],
    "immediate, ephemeral": [storage_class(), a_set(ephemeral=True)],
    "late": [storage_class(mode=LATE)],
    "late, one zone allowed": [storage_class(mode=LATE, **allowed("x"))],
    "late, static volumes": [NONE_LATE, USER, *STATIC],
    "late, static volumes and a provisioner": [storage_class("local", mode=LATE, **allowed("x")), USER, *STATIC],
    "late, ephemeral": [storage_class(mode=LATE), a_set(ephemeral=True)],
    "late, ephemeral static volumes": [NONE_LATE, SCRATCH_USER, *STATIC],
    "late, few volumes per node": [storage_class(mode=LATE), *(csi_node(f"n{i}", 2, [ZONE]) for i in range(3))],
    "late, no capacity in a zone": [storage_class(mode=LATE), *capacity(x="10Gi", y="1Mi")],
    "no class and a default": [storage_class(default=True), a_set(class_=None)],
    "no class and a late default": [storage_class(mode=LATE, default=True), a_set(class_=None)],
    "no class and no default": [storage_class(), a_set(class_=None)],
    "no class and no default, a volume": [a_set(class_=None), volume(), volume("pw")],
    "no name of a class, a volume": [storage_class(default=True), a_set(class_=""), volume(**in_zone("y"))],
    "a class that is not there": [a_set(class_="slow"), volume()],
    "volumes too small": [NONE, USER, volume("v", "1Mi", class_="local"), volume("w", class_="local")],
    "volumes of another access mode": [NONE, USER, volume("v", modes=["ReadOnlyMany"], class_="local")],
    "a selector": [
        NONE,
        a_set(class_="local", **SSD),
        volume("v", class_="local", labels={"disk": "ssd"}),
        volume("w", class_="local"),
    ],
    "a volume reserved for a claim": [NONE, USER, HELD],
    "a kept claim that is too large": [NONE, USER, *STATIC, claim("data-k-1", "1Ti", class_="local")],
    "kept claims": [storage_class(), KEPT, claim("data-k-3", class_="fast")],
    "a kept claim of a late class": [
        storage_class(mode=LATE),
        claim("data-k-2", class_="fast", volumeName="v"),
        volume("v", class_="fast", **in_zone("x")),
    ],
    "another claim that takes a volume": [NONE, USER, claim("a", class_="local"), *STATIC[:2]],
}


class Running:
    def __init__(self, cluster):
        self._cluster = cluster
        makers = (StatefulSetController, EphemeralVolumeController, GarbageCollector, VolumeBinder, Provisioner)
        self._controllers = StorageControllers(cluster, *makers)

    async def settle(self):
        await self._controllers.settle()
        # Pods are tried again after their backoff.
        for _ in range(2):
            await self._cluster.advance(11)
            await self._controllers.settle()

    async def create(self, *objects):
        await self._cluster.create(*objects)

    async def scale(self, replicas):
        await self._cluster.patch(SET, "k", {"spec": {"replicas": replicas}})
        await self.settle()

    async def lose(self, names, *, cordon=False):
        """Delete or cordon the nodes, and delete their pods."""
        for pod in self.all("pods"):
            if pod["spec"].get("nodeName") in names:
                await self._cluster.delete("pods", pod["metadata"]["name"])
        for name in names:
            if cordon:
                await self._cluster.patch("nodes", name, {"spec": {"unschedulable": True}})
            else:
                await self._cluster.delete("nodes", name)
        await self.settle()

    def all(self, storage):
        return [stored.to_dict() for stored in self._cluster.server.store.list(storage)]

    def copy(self):
        """As it would be read from the API."""
        return Cluster([obj for storage in (*KINDS, "pods") for obj in self.all(storage)])

    def pending(self):
        return {f"default/{pod['metadata']['name']}" for pod in self.all("pods") if not pod["spec"].get("nodeName")}


def objects_of(case, replicas):
    nodes = [node(f"n{i}", "3") for i in range(3)] if "no zones" in CASES[case] else NODES
    objects = [one for one in CASES[case] if one != "no zones"]
    others = [one for one in objects if one["kind"] != "StatefulSet"]
    (stateful,) = [one for one in objects if one["kind"] == "StatefulSet"] or [a_set()]
    return [*nodes, *others], {**stateful, "spec": {**stateful["spec"], "replicas": replicas}}


@asynccontextmanager
async def running(objects):
    async with live(*objects, validate=False) as cluster:
        found = Running(cluster)
        await found.settle()
        yield found


def carried_out(test):
    """The test, with the cluster of each case."""

    @pytest.mark.parametrize("case", CASES)
    def run(case, tmp_path):
        asyncio.run(test(case, tmp_path))

    return run


@carried_out
async def test_fit_and_scale(case, tmp_path):
    others, stateful = objects_of(case, 1)
    async with running([*others, stateful]) as cluster:
        copy = cluster.copy()
        fits = fit(copy, "k-0").fits
        more = what_if(copy, Scale("StatefulSet", "default", "k", fits + 2))
        if "default/k-0" not in cluster.pending():
            await cluster.scale(1 + fits)
            assert cluster.pending() == set()
        await cluster.scale(2 + fits)
        assert cluster.pending() == set(more.after.pending) != set()


@carried_out
async def test_files_and_what_is_applied(case, tmp_path):
    others, stateful = objects_of(case, 6)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*others, stateful]}))
    filed = Cluster.from_files(file)
    filed.schedule()
    async with running(others) as cluster:
        copy = cluster.copy()
        (tmp_path / "set.json").write_text(json.dumps(stateful))
        objects = objects_of_files([str(tmp_path / "set.json")], beside=copy.state.everything()).objects
        applied = what_if(copy, Put(tuple(objects))).after
        await cluster.create(stateful)
        await cluster.settle()
        assert cluster.pending() == set(filed.pending()) == set(applied.pending)


@carried_out
async def test_drain_and_survive(case, tmp_path):
    others, stateful = objects_of(case, 4)
    async with running([*others, stateful]) as cluster:
        waited = cluster.pending()
        drained = drain(cluster.copy(), ["n1"])
        await cluster.lose(["n1"], cordon=True)
        assert cluster.pending() - waited == {one.pod for one in drained.stranded}
        waited = cluster.pending()
        (loss,) = survive(cluster.copy(), only="n2", by="node").losses
        await cluster.lose(["n2"])
        assert cluster.pending() - waited == {one.pod for one in loss.stranded}
