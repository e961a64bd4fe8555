"""A simulated external provisioner for every StorageClass: creates and deletes volumes.

Like a CSI driver's provisioner, once the binder has set the provisioner annotation on a claim: it creates a volume of
the requested size, reserved for that claim, and accessible only from the topology of the selected node, or with
Immediate from one of its choice: then it waits for a node that the class allows. The keys of a topology are those that
the driver lists in the node's CSINode, those of the class's allowedTopologies, or the zone.

For its choice it iterates over the existing topologies, as the CSI provisioner does, by the claim's name and the number
at its end, so that the claims of a StatefulSet are spread evenly.

Released volumes with reclaim policy Delete are deleted, including those created by others.

Left out: data sources, storage quotas, failures other than a node that is missing or not allowed.

Upstream: sigs.k8s.io/sig-storage-lib-external-provisioner, kubernetes-csi/external-provisioner
(topology.go).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from stowplan.kube.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, reference_to
from stowplan.kube.api.port import Change
from stowplan.kube.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
)
from stowplan.kube.api.types import Node
from stowplan.kube.api.volumes import CSIPersistentVolumeSource
from stowplan.kube.claims.claim_terms import (
    NO_PROVISIONER,
    PROVISIONED_BY,
    RELEASED,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    ClaimKey,
    class_name_of,
    key_of,
    mode_of,
    waits_for_consumer,
)
from stowplan.kube.claims.volume_binder import VolumeKey
from stowplan.kube.claims.writes import NORMAL, WARNING, Create, Delete, Effects, LookAgain, Objects, Report, Write

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_DELETE = "Delete"


class ProvisioningError(Exception):
    """The reason why no volume is provisioned for a claim."""


class Provisioner:
    kinds: Sequence[type[ApiStruct]] = (PersistentVolumeClaim, PersistentVolume, Node)

    def __init__(self, objects: Objects, *, takes: float = 0.0) -> None:
        """`takes`: seconds until a volume has been created."""
        self._objects = objects
        self._takes = takes
        #: Claims that wait for a node that their class allows.
        self._waiting: dict[ClaimKey, None] = {}
        #: When volumes that are being created exist.
        self._due: dict[ClaimKey, float] = {}

    def keys_of(self, change: Change[Any]) -> Sequence[Hashable]:
        new = change.new
        if isinstance(new if change.old is None else change.old, Node):
            waiting, self._waiting = self._waiting, {}
            return list(waiting)
        if isinstance(change.old, PersistentVolumeClaim) and new is None:
            self._due.pop(key_of(change.old), None)
        if new is None:
            return ()
        return [VolumeKey(new.metadata.name) if isinstance(new, PersistentVolume) else key_of(new)]

    def reconcile(self, key: ClaimKey | VolumeKey, now: float) -> Effects:
        if isinstance(key, ClaimKey):
            claim = self._objects.find(PersistentVolumeClaim, *key)
            if claim is not None:
                yield from self._provision(claim, now)
            return
        volume = self._objects.find(PersistentVolume, "", key.name)
        if volume is not None:
            yield from _reclaim(volume)

    def _provision(self, claim: PersistentVolumeClaim, now: float) -> Effects:
        storage_class, key = self._class_to_serve(claim), key_of(claim)
        if storage_class is None or self._objects.find(PersistentVolume, "", _name_for(claim)) is not None:
            self._due.pop(key, None)
            return
        try:
            topology = self._topology(claim, storage_class)
        except ProvisioningError as error:
            self._due.pop(key, None)
            name = storage_class.metadata.name
            message = f'failed to provision volume with StorageClass "{name}": {error}'
            yield Report(claim, WARNING, "ProvisioningFailed", message)
            yield from _choose_another_node(claim)
            return
        if key not in self._due:
            self._due[key] = now + self._takes
            message = f'External provisioner is provisioning volume for claim "{key}"'
            yield Report(claim, NORMAL, "Provisioning", message)
        if self._due[key] > now:
            yield LookAgain(self._due[key] - now)
            return
        del self._due[key]
        volume = _volume(claim, storage_class, topology)
        yield Create(volume)
        message = f"Successfully provisioned volume {volume.metadata.name}"
        yield Report(claim, NORMAL, "ProvisioningSucceeded", message)

    def _class_to_serve(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The claim's class, if a volume should be provisioned now; else None."""
        annotations, metadata = claim.metadata.annotations, claim.metadata
        if claim.spec.volume_name or metadata.deletion_timestamp is not None or STORAGE_PROVISIONER not in annotations:
            return None
        found = self._objects.find(StorageClass, "", class_name_of(claim))
        if found is None or found.provisioner in NO_PROVISIONER:
            return None
        if annotations[STORAGE_PROVISIONER] != found.provisioner:
            return None
        return None if waits_for_consumer(found) and SELECTED_NODE not in annotations else found

    def _topology(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> dict[str, str]:
        """The topology from which the volume is accessible; {} for everywhere."""
        node_name = claim.metadata.annotations.get(SELECTED_NODE)
        if node_name is None:
            nodes = self._objects.node_labels()
            topology = immediate_topology(claim.metadata.name, nodes, self._csi_node_of, storage_class)
            if topology is None:
                self._waiting[key_of(claim)] = None
                raise ProvisioningError("there is no node in the topologies that it allows")
            return topology
        node = self._objects.find(Node, "", node_name)
        if node is None:
            raise ProvisioningError(f'error getting selected node "{node_name}": node "{node_name}" not found')
        if not is_allowed(node.metadata.labels, storage_class):
            raise ProvisioningError(f'selected node "{node_name}" is not in the allowed topologies')
        return topology_of(node_name, node.metadata.labels, self._csi_node_of, storage_class)

    def _csi_node_of(self, node_name: str) -> CSINode | None:
        return self._objects.find(CSINode, "", node_name)


def _volume(claim: PersistentVolumeClaim, storage_class: StorageClass, topology: Mapping[str, str]) -> PersistentVolume:
    spec, driver, name = claim.spec, storage_class.provisioner, _name_for(claim)
    policy = storage_class.reclaim_policy or _DELETE
    affinity = None
    if topology:
        expressions = (
            NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in topology.items()
        )
        term = NodeSelectorTerm(match_expressions=tuple(expressions))
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name, annotations={PROVISIONED_BY: driver}, finalizers=(FINALIZER,) if policy == _DELETE else ()
        ),
        spec=PersistentVolumeSpec(
            access_modes=spec.access_modes,
            capacity={key: value for key, value in spec.resources.requests.items() if key == "storage"},
            claim_ref=reference_to(claim),
            # Names of in-tree-style provisioners have a slash, which a driver's name cannot have.
            csi=CSIPersistentVolumeSource(driver=driver.replace("/", "."), volume_handle=name),
            mount_options=storage_class.mount_options,
            node_affinity=affinity,
            persistent_volume_reclaim_policy=policy,
            storage_class_name=storage_class.metadata.name,
            volume_attributes_class_name=spec.volume_attributes_class_name,
            volume_mode=mode_of(claim),
        ),
    )


def _choose_another_node(claim: PersistentVolumeClaim) -> Effects:
    """Clear the selected node, so that the scheduler selects another."""
    metadata = claim.metadata
    if SELECTED_NODE in metadata.annotations:
        annotations = {name: value for name, value in metadata.annotations.items() if name != SELECTED_NODE}
        yield Write(claim, replace(claim, metadata=replace(metadata, annotations=annotations)))


def _reclaim(volume: PersistentVolume) -> Effects:
    metadata = volume.metadata
    if volume.status.phase != RELEASED or volume.spec.persistent_volume_reclaim_policy != _DELETE:
        return
    if metadata.deletion_timestamp is None:
        yield Delete(volume)
    elif FINALIZER in metadata.finalizers:
        kept = tuple(name for name in metadata.finalizers if name != FINALIZER)
        yield Write(volume, replace(volume, metadata=replace(metadata, finalizers=kept)))


def _name_for(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid or claim.metadata.name}"


Labels = Mapping[str, str]
#: The CSINode of a node, if it has one.
CSINodeOf = Callable[[str], CSINode | None]

ZONE = "topology.kubernetes.io/zone"


def topology_of(node: str, labels: Labels, csi_node_of: CSINodeOf, storage_class: StorageClass) -> dict[str, str]:
    """The topology of a volume that is created for a node; {}: it is accessible from everywhere."""
    keys = _keys(node, labels, csi_node_of, storage_class)
    return {key: labels[key] for key in keys if key in labels}


def is_allowed(labels: Labels, storage_class: StorageClass) -> bool:
    """Whether a node is in the allowed topologies of the class."""
    return not storage_class.allowed_topologies or _term_of(labels, storage_class) is not None


def immediate_topology(
    claim_name: str, nodes: Iterable[tuple[str, Labels]], csi_node_of: CSINodeOf, storage_class: StorageClass
) -> dict[str, str] | None:
    """The topology of a volume that is created without a selected node; None: no node is in an allowed one."""
    found = {
        tuple(topology_of(name, labels, csi_node_of, storage_class).items())
        for name, labels in nodes
        if is_allowed(labels, storage_class)
    }
    # Nodes without the labels are no topology of their own.
    choices = sorted(found - {()}) or [()]
    return dict(choices[_turn(claim_name) % len(choices)]) if found else None


def _keys(node: str, labels: Labels, csi_node_of: CSINodeOf, storage_class: StorageClass) -> Iterable[str]:
    csi_node = csi_node_of(node)
    for driver in () if csi_node is None else csi_node.spec.drivers:
        if driver.name == storage_class.provisioner and driver.topology_keys:
            return driver.topology_keys
    term = _term_of(labels, storage_class)
    return [ZONE] if term is None else [one.key for one in term.match_label_expressions]


def _term_of(labels: Labels, storage_class: StorageClass) -> TopologySelectorTerm | None:
    """The first of the allowed topologies that has a node with these labels."""
    for term in storage_class.allowed_topologies:
        if all(labels.get(one.key) in one.values for one in term.match_label_expressions):
            return term
    return None


def _turn(claim_name: str) -> int:
    name, dash, number = claim_name.rpartition("-")
    if not dash or not (number.isascii() and number.isdecimal()):
        return crc32(claim_name.encode())
    return crc32(name.encode()) + int(number)
