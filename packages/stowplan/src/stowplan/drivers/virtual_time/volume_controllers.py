"""Bind claims and provision volumes in simulated time.

The scheduler selects a node for a claim, or reserves a volume for one, and waits until the claim is bound. On a cluster
the provisioner of the class creates the volume, and the PV controller binds it. Here both happen after a fixed time,
and never fail. For claims that do not wait for a pod see `immediate_claims`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from stowplan.drivers.virtual_time.immediate_claims import NO_PROVISIONER, ImmediateClaims
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.kube.api.meta import ObjectMeta, reference_to
from stowplan.kube.api.port import Change
from stowplan.kube.api.topologies import topology_of
from stowplan.kube.api.types import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from stowplan.kube.api.volumes import CSIPersistentVolumeSource
from stowplan.scheduler.framework.requests import Create, Patch, Request, Update
from stowplan.scheduler.in_tree.common.annotations import BIND_COMPLETED, SELECTED_NODE
from stowplan.scheduler.in_tree.common.volume_claims import class_name_of
from stowplan.scheduler.in_tree.volume_binding.claims import is_fully_bound
from stowplan.scheduler.in_tree.volume_binding.reserving import bound_to

#: The kinds whose changes are observed.
FOLLOWED = frozenset((CSINode, Node, PersistentVolume, PersistentVolumeClaim, StorageClass))


class VolumeControllers:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._immediate = ImmediateClaims(store)

    def requests_after(self, change: Change[Any]) -> Iterator[Request]:
        """The requests of the controllers after a change."""
        self._immediate.follow(change)
        old, new = change.old, change.new
        if type(new) is PersistentVolumeClaim and not new.spec.volume_name:
            node = new.metadata.annotations.get(SELECTED_NODE)
            if node and (old is None or old.metadata.annotations.get(SELECTED_NODE) != node):
                yield from self._provisioned_for(new, node)
        elif type(new) is PersistentVolume:
            if old is None and new.spec.claim_ref is None and new.status.phase in ("", "Pending"):
                yield _phase(new, "Available")
            elif old is not None and old.spec.claim_ref != new.spec.claim_ref:
                yield from self._bound(new)

    @property
    def claims_are_due(self) -> bool:
        """Whether claims that do not wait for a pod have to be checked: call `check_claims` at the current time."""
        return self._immediate.are_due

    def check_claims(self) -> Iterator[tuple[Request, bool]]:
        """The requests for these, and whether they are delayed: a volume is reserved at once, and bound later."""
        for claim, volume, topology, class_name in self._immediate.served():
            if class_name:
                yield Update(obj=replace(claim, spec=replace(claim.spec, storage_class_name=class_name))), False
            elif topology is not None:
                storage_class = self._store.get(StorageClass, "", class_name_of(claim))
                yield from ((request, True) for request in _provisioned(claim, storage_class, topology))
            elif volume is not None and (bound := bound_to(volume, claim)) is not volume:
                yield Update(obj=bound), False
            elif volume is not None:
                yield from ((request, True) for request in self._bound(volume))

    def _bound(self, volume: PersistentVolume) -> Iterator[Request]:
        """A volume was reserved for a claim."""
        reference = volume.spec.claim_ref
        if reference is None:
            return
        claim = self._store.find(PersistentVolumeClaim, reference.namespace, reference.name)
        if claim is not None and claim.metadata.uid == reference.uid and not is_fully_bound(claim):
            yield _phase(volume, "Bound")
            yield _bind(claim, volume.metadata.name)

    def _provisioned_for(self, claim: PersistentVolumeClaim, node_name: str) -> Iterator[Request]:
        """A node was selected for a claim."""
        storage_class = self._store.find(StorageClass, "", class_name_of(claim))
        node = self._store.find(Node, "", node_name)
        if storage_class is not None and node is not None and storage_class.provisioner not in NO_PROVISIONER:
            topology = topology_of(node_name, node.metadata.labels, self._immediate.csi_node_of, storage_class)
            yield from _provisioned(claim, storage_class, topology)


def _provisioned(
    claim: PersistentVolumeClaim, storage_class: StorageClass, topology: Mapping[str, str]
) -> Iterator[Request]:
    name = f"pvc-{claim.metadata.uid or claim.metadata.name}"
    yield Create(obj=_volume(name, claim, storage_class, topology))
    yield _bind(claim, name)


def _volume(
    name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, topology: Mapping[str, str]
) -> PersistentVolume:
    term = NodeSelectorTerm(
        match_expressions=tuple(
            NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in topology.items()
        )
    )
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,))) if topology else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            capacity={key: value for key, value in claim.spec.resources.requests.items() if key == "storage"},
            access_modes=claim.spec.access_modes,
            storage_class_name=storage_class.metadata.name,
            volume_mode=claim.spec.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            node_affinity=affinity,
            csi=CSIPersistentVolumeSource(driver=storage_class.provisioner, volume_handle=name),
            claim_ref=reference_to(claim),
        ),
        status=PersistentVolumeStatus(phase="Bound"),
    )


def settled(store: ObjectStore, known: Iterable[PersistentVolume | PersistentVolumeClaim]) -> Iterator[Change[Any]]:
    """Let the controllers do all that they would for some objects, at once; yields each change of the store."""
    controllers = VolumeControllers(store)
    requests = deque(request for obj in known for request in controllers.requests_after(Change(None, obj)))
    while requests or controllers.claims_are_due:
        if not requests:
            requests.extend(request for request, _ in controllers.check_claims())
        while requests:
            for change in store.write(requests.popleft(), 0.0):
                yield change
                requests.extend(controllers.requests_after(change))


def _phase(volume: PersistentVolume, phase: str) -> Patch:
    name, body = volume.metadata.name, {"status": {"phase": phase}}
    return Patch(kind=PersistentVolume, namespace="", name=name, body=body, type_="merge", subresource="status")


def _bind(claim: PersistentVolumeClaim, volume: str) -> Patch:
    """The claim is bound to the volume."""
    body = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
    metadata = claim.metadata
    return Patch(kind=PersistentVolumeClaim, namespace=metadata.namespace, name=metadata.name, body=body, type_="merge")
