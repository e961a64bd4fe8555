"""What answers say about volumes, carried out by the embedded cluster: its controllers bind and provision."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stowplan import Cluster
from stowplan.what_if import NodeKind, Put, Scale, drain, fit, survive, what_if
from stowplan_cluster.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from stowplan_cluster.controllers.volumes.provisioner import Provisioner
from stowplan_cluster.controllers.volumes.volume_binder import VolumeBinder
from stowplan_cluster.controllers.workloads.stateful_set import StatefulSetController
from support.api.storage_objects import claim, reserved_for, storage_class, volume
from support.live.live_scheduler import live
from support.live.volumes import StorageControllers
from support.what_if.objects import ZONE, node

SET = "statefulsets.apps"
KINDS = ("nodes", "storageclasses.storage.k8s.io", "persistentvolumes", "persistentvolumeclaims", SET, "pods")
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


NODES = [node("n0", "3", "x"), node("n1", "3", "y"), node("n2", "3", "y")]
STATIC = [volume("v0", class_="local"), volume("v1", class_="local", **in_zone("x")), volume("v2", class_="local")]

CASES = {
    "immediate": [storage_class()],
    "immediate, no zones": [storage_class(), "no zones"],
    "immediate, without a provisioner": [storage_class("local", provisioner=LOCAL), a_set(class_="local")],
    "immediate, static volumes": [storage_class("local", provisioner=LOCAL), a_set(class_="local"), *STATIC],
    "immediate, static volumes and a provisioner": [storage_class("local"), a_set(class_="local"), *STATIC],
    "immediate, one zone allowed": [storage_class(**allowed("y"))],
    "immediate, no zone allowed": [storage_class(**allowed("z"))],
    "immediate, the driver's keys": [storage_class(), *(csi_node(f"n{i}", keys=["kubernetes.io/hostname"]) for i in range(3))],
    "immediate, few volumes per node": [storage_class(), *(csi_node(f"n{i}", 2, [ZONE]) for i in range(3))],
    "immediate, ephemeral": [storage_class(), a_set(ephemeral=True)],
    "late": [storage_class(mode=LATE)],
    "late, one zone allowed": [storage_class(mode=LATE, **allowed("x"))],
    "late, static volumes": [storage_class("local", provisioner=LOCAL, mode=LATE), a_set(class_="local"), *STATIC],
    "late, static volumes and a provisioner": [storage_class("local", mode=LATE, **allowed("x")), a_set(class_="local"), *STATIC],
    "late, ephemeral": [storage_class(mode=LATE), a_set(ephemeral=True)],
    "late, ephemeral static volumes": [storage_class("local", provisioner=LOCAL, mode=LATE), a_set(class_="local", ephemeral=True), *STATIC],
    "late, few volumes per node": [storage_class(mode=LATE), *(csi_node(f"n{i}", 2, [ZONE]) for i in range(3))],
    "no class and a default": [storage_class(default=True), a_set(class_=None)],
    "no class and a late default": [storage_class(mode=LATE, default=True), a_set(class_=None)],
    "no class and no default": [storage_class(), a_set(class_=None)],
    "no class and no default, a volume": [a_set(class_=None), volume(), volume("pw")],
    "class of no name, a volume": [storage_class(default=True), a_set(class_=""), volume(), volume("pw", **in_zone("y"))],
    "a class that is not there": [a_set(class_="slow"), volume()],
    "volumes too small": [storage_class("local", provisioner=LOCAL), a_set(class_="local"), volume("v", "1Mi", class_="local"), volume("w", class_="local")],
    "volumes of another access mode": [storage_class("local", provisioner=LOCAL), a_set(class_="local"), volume("v", modes=["ReadOnlyMany"], class_="local")],
    "a selector": [
        storage_class("local", provisioner=LOCAL),
        a_set(class_="local", selector={"matchLabels": {"disk": "ssd"}}),
        volume("v", class_="local", labels={"disk": "ssd"}),
        volume("w", class_="local"),
    ],
    "a volume reserved for a claim": [storage_class("local", provisioner=LOCAL), a_set(class_="local"), volume("v", class_="local", **reserved_for("data-k-1"), **in_zone("y"))],
    "a kept claim": [storage_class(), claim("data-k-1", class_="fast"), claim("data-k-3", class_="fast")],
    "a kept claim of a late class": [storage_class(mode=LATE), claim("data-k-2", class_="fast", volumeName="v"), volume("v", class_="fast", **in_zone("x"))],
    "a claim that takes the volume": [storage_class("local", provisioner=LOCAL), a_set(class_="local"), claim("a", class_="local"), *STATIC[:2]],
}


class Running:
    def __init__(self, cluster):
        self._cluster = cluster
        makers = (StatefulSetController, EphemeralVolumeController, VolumeBinder, Provisioner)
        self._controllers = StorageControllers(cluster, *makers)

    async def settle(self):
        await self._controllers.settle()
        # Pods are tried again after their backoff.
        for _ in range(4):
            await self._cluster.advance(11)
            await self._controllers.settle()

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
        return Cluster([obj for storage in (*KINDS, "csinodes.storage.k8s.io") for obj in self.all(storage)])

    def pending(self):
        return {f"default/{pod['metadata']['name']}" for pod in self.all("pods") if not pod["spec"].get("nodeName")}


@asynccontextmanager
async def running(case, replicas=1):
    objects = [one for one in CASES[case] if one != "no zones"]
    nodes = [node(f"n{i}", "3") for i in range(3)] if "no zones" in CASES[case] else NODES
    if not any(one["kind"] == "StatefulSet" for one in objects):
        objects.append(a_set())
    for one in objects:
        if one["kind"] == "StatefulSet":
            one["spec"]["replicas"] = replicas
    async with live(*nodes, *objects) as cluster:
        found = Running(cluster)
        await found.settle()
        yield found


@pytest.mark.parametrize("case", CASES)
def test_fit_and_what_if(case):
    async def carried_out():
        async with running(case) as cluster:
            copy = cluster.copy()
            first = "k-0"
            fits = fit(copy, first).fits
            more = what_if(copy, Scale("StatefulSet", "default", "k", fits + 2))
            if "default/k-0" not in cluster.pending():
                await cluster.scale(1 + fits)
                assert cluster.pending() == set(), fits
            await cluster.scale(2 + fits)
            assert cluster.pending() == set(more.after.pending)

    asyncio.run(carried_out())
