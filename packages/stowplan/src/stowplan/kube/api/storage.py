"""PersistentVolume, PersistentVolumeClaim, StorageClass, and the CSI objects."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from collections.abc import Iterable, Mapping

import msgspec

from stowplan.kube.api.affinity import NodeSelector, TopologySelectorTerm
from stowplan.kube.api.meta import (
    ApiStruct,
    Int32,
    LabelSelector,
    ObjectMeta,
    QuantityValue,
    ResourceList,
    parse_timestamp,
)
from stowplan.kube.api.volumes import PersistentVolumeClaimSpec, PersistentVolumeSource


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(PersistentVolumeSource, frozen=True, kw_only=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    mount_options: tuple[str, ...] = ()


class PersistentVolumeStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    last_phase_transition_time: str | None = None


class PersistentVolume(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(ApiStruct, frozen=True, kw_only=True):
    count: Int32 | None = None


class CSINodeDriver(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    node_id: str = msgspec.field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True, kw_only=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True, kw_only=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"
    metadata: ObjectMeta = ObjectMeta()
    #: None: accessible from no node. Empty: from all.
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityValue | None = None
    maximum_volume_size: QuantityValue | None = None


class VolumeAttachmentSource(ApiStruct, frozen=True, kw_only=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachment(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


# The default StorageClass: the class of claims that name none.
#
# Upstream: pkg/volume/util/storageclass.go.

_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def is_default_class(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(mark) == "true" for mark in _MARKS)


def default_class(classes: Iterable[StorageClass]) -> str | None:
    """The name of the default class: the newest of several, ties broken by name."""
    marked = (one.metadata for one in classes if is_default_class(one.metadata.annotations))
    chosen = min(marked, key=lambda one: (-_seconds(one.creation_timestamp), one.name), default=None)
    return None if chosen is None else chosen.name


def _seconds(created: str | None) -> float:
    return parse_timestamp(created) if created else 0.0
