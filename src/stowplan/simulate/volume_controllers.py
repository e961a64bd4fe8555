"""Bind claims and provision volumes in simulated time.

The scheduler names a node for a claim, or gives a volume to one, and waits until the claim is bound. On a cluster the
provisioner of the class makes the volume, and the binder binds it. Here both do so a fixed time later, and refuse
nothing. A volume that is made can be used from where the node is: by the keys that the driver names in the CSINode,
those of the class's allowedTopologies, or the zone.

Left out: claims that need no pod to be bound (class of mode Immediate); they stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.meta import ObjectMeta, reference_to
from stowplan.api.types import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from stowplan.api.volumes import CSIPersistentVolumeSource
from stowplan.framework.requests import Create, Patch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.changes import Change
    from stowplan.framework.requests import Request
    from stowplan.simulate.object_store import ObjectStore

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
_ZONE = "topology.kubernetes.io/zone"


class VolumeControllers:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def requests_after(self, change: Change[Any]) -> Iterator[Request]:
        """What they write once they see a change."""
        old, new = change.old, change.new
        if type(new) is PersistentVolumeClaim and not new.spec.volume_name:
            node = new.metadata.annotations.get(_SELECTED_NODE)
            if node and (old is None or old.metadata.annotations.get(_SELECTED_NODE) != node):
                yield from self._provisioned(new, node)
        elif type(new) is PersistentVolume and old is not None and old.spec.claim_ref != new.spec.claim_ref:
            yield from self._bound(new)

    def _bound(self, volume: PersistentVolume) -> Iterator[Request]:
        """A volume was given to a claim."""
        reference = volume.spec.claim_ref
        if reference is None:
            return
        claim = self._store.find(PersistentVolumeClaim, reference.namespace, reference.name)
        if claim is not None and claim.metadata.uid == reference.uid and not claim.spec.volume_name:
            status = {"status": {"phase": "Bound"}}
            yield Patch(kind=PersistentVolume, namespace="", name=volume.metadata.name, body=status, type_="merge")
            yield _naming(claim, volume.metadata.name)

    def _provisioned(self, claim: PersistentVolumeClaim, node_name: str) -> Iterator[Request]:
        """A node was named for a claim."""
        class_name = claim.metadata.annotations.get(_CLASS, claim.spec.storage_class_name or "")
        storage_class = self._store.find(StorageClass, "", class_name)
        node = self._store.find(Node, "", node_name)
        if storage_class is None or node is None or storage_class.provisioner in _NO_PROVISIONER:
            return
        name = f"pvc-{claim.metadata.uid or claim.metadata.name}"
        yield Create(obj=self._volume(name, claim, storage_class, node))
        yield _naming(claim, name)

    def _volume(
        self, name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node
    ) -> PersistentVolume:
        labels, driver = node.metadata.labels, storage_class.provisioner
        keys = [key for key in self._topology_keys(node.metadata.name, storage_class) if key in labels]
        term = NodeSelectorTerm(
            match_expressions=tuple(NodeSelectorRequirement(key=k, operator="In", values=(labels[k],)) for k in keys)
        )
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,))) if keys else None
        return PersistentVolume(
            metadata=ObjectMeta(name=name),
            spec=PersistentVolumeSpec(
                capacity={key: value for key, value in claim.spec.resources.requests.items() if key == "storage"},
                access_modes=claim.spec.access_modes,
                storage_class_name=storage_class.metadata.name,
                volume_mode=claim.spec.volume_mode,
                volume_attributes_class_name=claim.spec.volume_attributes_class_name,
                node_affinity=affinity,
                csi=CSIPersistentVolumeSource(driver=driver, volume_handle=name),
                claim_ref=reference_to(claim),
            ),
            status=PersistentVolumeStatus(phase="Bound"),
        )

    def _topology_keys(self, node_name: str, storage_class: StorageClass) -> list[str]:
        csi_node = self._store.find(CSINode, "", node_name)
        for driver in () if csi_node is None else csi_node.spec.drivers:
            if driver.name == storage_class.provisioner and driver.topology_keys:
                return list(driver.topology_keys)
        terms = storage_class.allowed_topologies
        return [one.key for term in terms[:1] for one in term.match_label_expressions] or [_ZONE]


def _naming(claim: PersistentVolumeClaim, volume: str) -> Patch:
    """The claim is bound to the volume."""
    body = {
        "metadata": {"annotations": {_BIND_COMPLETED: "yes"}},
        "spec": {"volumeName": volume},
        "status": {"phase": "Bound"},
    }
    metadata = claim.metadata
    return Patch(kind=PersistentVolumeClaim, namespace=metadata.namespace, name=metadata.name, body=body, type_="merge")
