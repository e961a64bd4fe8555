"""Volume sources of pods and persistent volumes, and the claim spec.

Sources that nobody here reads (configMap, downwardAPI, ...) are not declared, so a volume of such a
kind decodes to one with a name and no source.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from typing import Any

import msgspec

from stowplan.kube.api.meta import ApiStruct, Int32, LabelSelector, ObjectMeta, ObjectReference, ResourceList


class VolumeResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    data_source: dict[str, Any] | None = None
    data_source_ref: dict[str, Any] | None = None


class PersistentVolumeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class PersistentVolumeClaimVolumeSource(ApiStruct, frozen=True, kw_only=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(ApiStruct, frozen=True, kw_only=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GCEPersistentDiskVolumeSource(ApiStruct, frozen=True, kw_only=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(ApiStruct, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(name="volumeID", default="")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class ISCSIVolumeSource(ApiStruct, frozen=True, kw_only=True):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBDVolumeSource(ApiStruct, frozen=True, kw_only=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CinderVolumeSource(ApiStruct, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class AzureDiskVolumeSource(ApiStruct, frozen=True, kw_only=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    #: Shared, Dedicated or Managed; None means Shared.
    kind: str | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(ApiStruct, frozen=True, kw_only=True):
    secret_name: str = ""
    share_name: str = ""
    #: Only in persistent volumes.
    secret_namespace: str | None = None
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(ApiStruct, frozen=True, kw_only=True):
    volume_path: str = ""


class PortworxVolumeSource(ApiStruct, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class CSIVolumeSource(ApiStruct, frozen=True, kw_only=True):
    driver: str = ""
    volume_attributes: dict[str, str] = {}
    read_only: bool | None = None


class ImageVolumeSource(ApiStruct, frozen=True, kw_only=True):
    reference: str = ""
    pull_policy: str = ""


class EmptyDirVolumeSource(ApiStruct, frozen=True, kw_only=True):
    """Scheduling ignores it, but its data is lost when the pod leaves its node."""


class HostPathVolumeSource(ApiStruct, frozen=True, kw_only=True):
    """Scheduling ignores it, but to policies of the descheduler it is local storage."""


class Volume(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class CSIPersistentVolumeSource(ApiStruct, frozen=True, kw_only=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = {}


class LocalVolumeSource(ApiStruct, frozen=True, kw_only=True):
    path: str = ""


class PersistentVolumeSource(ApiStruct, frozen=True, kw_only=True):
    """The inlined part of a persistent volume's spec."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    claim_ref: ObjectReference | None = None
