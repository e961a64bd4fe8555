"""Claims, volumes, classes and pods on the embedded cluster and in virtual time: the same objects after each change.

Both get the same random writes of users and of the scheduler, which reserves volumes and selects nodes. Left out of the
comparison are versions, times, managers, and what is listed in `drivers/virtual_time/volume_controllers.py`.
"""

from __future__ import annotations

import re
from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.volume_controllers import VolumeControllers
from stowplan.kube.api.decode import convert, decode_object, to_dict
from stowplan.kube.api.types import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from stowplan.scheduler.framework.requests import Create, Delete, Patch
from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.volumes.volume_controllers import EphemeralVolumeController, Provisioner, VolumeBinder
from stowplan_cluster.controllers.volumes.volume_protection import ClaimProtectionController, VolumeProtectionController
from stowplan_lab.simulation.admission import Admission
from support.api.storage_objects import claim, reserved_for, storage_class, volume
from support.examples import examples
from support.live.living_cluster import Living, node, pod

PV, PVC = "persistentvolumes", "persistentvolumeclaims"
ZONE, SELECTED = "topology.kubernetes.io/zone", "volume.kubernetes.io/selected-node"
STRUCTS = {PV: PersistentVolume, PVC: PersistentVolumeClaim, "pods": Pod}
KINDS = {**STRUCTS, "class": StorageClass, "node": Node}
UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOT_COMPARED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "finalizers")


class Embedded:
    def __init__(self):
        self.cluster = Living(
            EphemeralVolumeController,
            VolumeBinder,
            Provisioner,
            GarbageCollector,
            ClaimProtectionController,
            VolumeProtectionController,
        )

    def create(self, manifest):
        self.cluster.create(manifest)

    def patch(self, storage, name, body):
        self.cluster.change(storage, name, lambda obj: merge(obj, body))

    def delete(self, storage, name):
        self.cluster.delete(storage, name, grace_period_seconds=0)

    def settle(self):
        self.cluster.settle()

    def objects(self, storage):
        found = (self.cluster.get(storage, name) for name in self.cluster.names(storage))
        return [convert(one, STRUCTS[storage]) for one in found]


class InVirtualTime:
    def __init__(self):
        self.store = ObjectStore()
        Admission(self.store, released=lambda pod: None)
        self.controllers = VolumeControllers(self.store)

    def _write(self, request):
        for change in self.store.write(request, 0.0):
            self.controllers.follow(change)

    def create(self, manifest):
        self._write(Create(obj=decode_object(manifest)))

    def patch(self, storage, name, body):
        namespace = "" if storage == PV else "default"
        self._write(Patch(kind=STRUCTS[storage], namespace=namespace, name=name, body=body, type_="merge"))

    def delete(self, storage, name):
        self._write(Delete(kind=STRUCTS[storage], namespace="" if storage == PV else "default", name=name))

    def settle(self):
        for request in self.controllers.requests(0.0):
            self._write(request)

    def objects(self, storage):
        return self.store.list(STRUCTS[storage])


def merge(obj, body):
    for name, value in body.items():
        if isinstance(value, dict):
            merge(obj.setdefault(name, {}), value)
        else:
            obj[name] = value


def seen(shell):
    """Its volumes and claims, with names of claims in place of UIDs."""
    claims, volumes = shell.objects(PVC), shell.objects(PV)
    names = {one.metadata.uid: one.metadata.name for one in (*claims, *shell.objects("pods"))}
    return {(storage, (one := plain(obj, names))["metadata"]["name"]): one
            for storage, objects in ((PV, volumes), (PVC, claims)) for obj in objects}  # fmt: skip


def plain(obj, names):
    found = to_dict(obj)
    for name in NOT_COMPARED:
        found["metadata"].pop(name, None)
    found.setdefault("status", {}).setdefault("phase", "Pending")
    found["status"].pop("lastPhaseTransitionTime", None)
    found["spec"].get("claimRef", {}).pop("resourceVersion", None)
    return renamed(found, names)


def renamed(value, names):
    if isinstance(value, dict):
        return {key: renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    uid = value.removeprefix("pvc-") if isinstance(value, str) else ""
    if UID.fullmatch(uid):
        return f"of {names.get(uid, 'one that is gone')}"
    return value


def with_scratch(name):
    template = {"spec": claim(class_="now", volumeMode="Filesystem")["spec"]}
    return pod(name, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


names = st.sampled_from("abc")
sizes = st.sampled_from(["1Gi", "1Gi", "2Gi"])
classes = st.sampled_from(["", "", "now", "later", "local"])
policies = st.sampled_from(["Retain", "Delete"])
modes = st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany")])
steps = st.one_of(
    st.tuples(st.just("volume"), names, sizes, classes, modes, policies, st.sampled_from(["", "", "a", "b"])),
    st.tuples(st.just("claim"), names, sizes, st.one_of(classes, st.none()), st.sampled_from(["", "", "", "a", "b"])),
    st.tuples(st.sampled_from(["pod", "drop pod"]), names),
    st.tuples(st.sampled_from(["drop volume", "drop claim", "reserve", "reserve"]), names),
    st.tuples(st.just("select"), names, st.sampled_from(["node-1", "node-2", "nowhere"])),
    st.tuples(st.just("class"), st.sampled_from(["now", "later", "local"]), st.booleans(), policies),
    st.tuples(st.just("node"), st.just("node-2")),
    st.tuples(st.just("settle")),
)
START = [("node", "node-1"), ("class", "later", False, "Delete"), ("class", "now", False, "Delete")]


def provisioner_of(name):
    return "kubernetes.io/no-provisioner" if name == "local" else "csi.example.com"


def apply(shells, there, step):
    """Let a user or the scheduler do something in all shells, if it is possible; `there` are objects of the first."""
    kind, *rest = step
    name = rest[0] if rest else ""
    do = None
    if kind == "volume" and (PV, name) not in there:
        _, size, class_, access, policy, holder = rest
        more = reserved_for(holder) if holder else {}
        do = volume(name, size, modes=access, class_=class_, policy=policy, volumeMode="Filesystem", **more)
    elif kind == "claim" and (PVC, name) not in there:
        _, size, class_, named = rest
        do = claim(name, size, class_=class_, volumeMode="Filesystem", **({"volumeName": named} if named else {}))
    elif kind == "class" and ("class", name) not in there:
        mode = "Immediate" if name == "now" else "WaitForFirstConsumer"
        more = {"default": rest[1], "reclaimPolicy": rest[2]}
        do = storage_class(name, provisioner=provisioner_of(name), mode=mode, **more)
    elif kind == "node" and ("node", name) not in there:
        do = node(name, labels={ZONE: f"zone-{name}"})
    elif kind == "pod" and ("pods", f"pod-{name}") not in there:
        do = with_scratch(f"pod-{name}")
    if do is not None:
        there.add(
            (
                {"class": "class", "node": "node", "pod": "pods", "volume": PV, "claim": PVC}[kind],
                do["metadata"]["name"],
            )
        )
        for shell in shells:
            shell.create(deepcopy(do))
    for shell in shells:
        known = {one.metadata.name: one for one in shell.objects(PVC if kind in ("select", "drop claim") else PV)}
        wanted = known.get(name)
        if kind == "drop pod" and ("pods", f"pod-{name}") in there:
            shell.delete("pods", f"pod-{name}")
        elif wanted is None:
            continue
        elif kind == "drop volume":
            shell.delete(PV, name)
        elif kind == "drop claim":
            shell.delete(PVC, name)
        elif kind == "select" and not wanted.spec.volume_name and wanted.metadata.deletion_timestamp is None:
            shell.patch(PVC, name, {"metadata": {"annotations": {SELECTED: rest[1]}}})
        elif kind == "reserve" and wanted.spec.claim_ref is None and wanted.metadata.deletion_timestamp is None:
            claims = {one.metadata.name: one for one in shell.objects(PVC)}
            if name in claims and not claims[name].spec.volume_name:
                reference = {**reserved_for(name)["claimRef"], "uid": claims[name].metadata.uid}
                shell.patch(PV, name, {"spec": {"claimRef": reference}})


@examples(24)
@given(known=st.integers(0, 3), plan=st.lists(steps, min_size=10, max_size=30))
def test_volumes_and_claims(known, plan):
    embedded, virtual = Embedded(), InVirtualTime()
    for step in [*START[:known], *plan]:
        there = {(kind, one.metadata.name) for kind, struct in KINDS.items() for one in virtual.store.list(struct)}
        apply((embedded, virtual), there, step)
        if step[0] == "settle":
            embedded.settle()
            virtual.settle()
            assert seen(virtual) == seen(embedded)
    embedded.settle()
    virtual.settle()
    assert seen(virtual) == seen(embedded)
