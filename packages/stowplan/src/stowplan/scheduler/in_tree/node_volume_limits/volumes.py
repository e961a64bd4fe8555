"""Resolve a pod's volumes to CSI volumes.

A claim resolves to its PersistentVolume, or, before it is bound, to the provisioner of its class: such a volume is
identified by its claim. In-tree volumes resolve to the driver that they are migrated to. Volumes without a driver are
not counted.

Upstream: filterAttachableVolumes and getCSIDriverInfo of nodevolumelimits/csi.go; there a random prefix distinguishes
pending claims from real handles.
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.kube.claims.claim_terms import class_name_of
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.volumes import VolumeUse
from stowplan.scheduler.framework.status import Reason, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.csi_migration import (
    TranslationError,
    inline_handle,
    migration_of,
    migration_of_provisioner,
)

CLAIM_MISSING = Reason("ClaimNotFound", 'looking up PVC {namespace}/{claim}: persistentvolumeclaim "{claim}" not found')


class CsiVolume(NamedTuple):
    """A volume as identified by its driver; one that is not provisioned yet is identified by its claim."""

    driver: str
    handle: str
    #: "namespace/name" of the claim that it will be provisioned for.
    pending_for: str = ""


class VolumeBehind(NamedTuple):
    """The result of resolving a use to a CSI volume."""

    #: None: nothing to count.
    volume: CsiVolume | None = None
    #: Whether it only counts on nodes with a CSINode, like an in-tree volume.
    migrated: bool = False
    #: Why a pod cannot use it; for an in-tree volume this also applies to nodes with a CSINode only.
    problem: Status | None = None
    #: Whether the claim is missing, which does not matter for a running pod.
    missing: bool = False
    #: Names of the PersistentVolume and the class that were looked up.
    volume_name: str = ""
    class_name: str = ""


NOTHING = VolumeBehind()


def behind(use: VolumeUse, objects: ObjectStore) -> VolumeBehind:
    if use.claim is None:
        return _inline(use)
    if not use.claim:
        return VolumeBehind(problem=error("PersistentVolumeClaim had no name"))
    claim = objects.get(PersistentVolumeClaim, f"{use.namespace}/{use.claim}")
    if claim is None:
        reason = CLAIM_MISSING.of(namespace=use.namespace, claim=use.claim)
        return VolumeBehind(problem=unresolvable(reason), missing=True)
    if use.owner is not None and not _is_owned_by(claim, use.owner[1]):
        of, pod = f"{use.namespace}/{use.claim}", f"{use.namespace}/{use.owner[0]}"
        return VolumeBehind(problem=error(f"PVC {of} was not created for pod {pod} (pod is not owner)"))
    return _of_claim(claim, f"{use.namespace}/{use.claim}", objects)


def _is_owned_by(claim: PersistentVolumeClaim, uid: str) -> bool:
    owner = controller_of(claim.metadata)
    return owner is not None and owner.uid == uid


def _inline(use: VolumeUse) -> VolumeBehind:
    assert use.disk is not None
    migration = migration_of(use.disk)
    if migration is None or not migration.counted:
        return NOTHING
    try:
        attached = inline_handle(use.disk, use.namespace)
    except TranslationError as problem:
        return VolumeBehind(migrated=True, problem=error(problem))
    # Parity: for an inline volume an empty handle is valid, too.
    return VolumeBehind(None if attached is None else CsiVolume(*attached), migrated=True)


def _of_claim(claim: PersistentVolumeClaim, key: str, objects: ObjectStore) -> VolumeBehind:
    name = claim.spec.volume_name
    volume = objects.get(PersistentVolume, name) if name else None
    if volume is None:
        return _provisioned(claim, key, objects)._replace(volume_name=name)
    if volume.spec.csi is not None:
        return VolumeBehind(_named(volume.spec.csi.driver, volume.spec.csi.volume_handle), volume_name=name)
    migration = migration_of(volume)
    if migration is None or not migration.counted:
        return VolumeBehind(volume_name=name)
    try:
        handle = migration.handle(volume)
    except TranslationError:
        return VolumeBehind(volume_name=name)
    return VolumeBehind(_named(migration.driver, handle), migrated=True, volume_name=name)


def _named(driver: str, handle: str) -> CsiVolume | None:
    return CsiVolume(driver, handle) if driver and handle else None


def _provisioned(claim: PersistentVolumeClaim, key: str, objects: ObjectStore) -> VolumeBehind:
    """The volume that the claim's class will provision."""
    class_name = class_name_of(claim)
    storage_class = objects.get(StorageClass, class_name) if class_name else None
    if storage_class is None:
        return VolumeBehind(class_name=class_name)
    migration = migration_of_provisioner(storage_class.provisioner)
    if migration is not None and not migration.counted:
        return VolumeBehind(class_name=class_name)
    driver = storage_class.provisioner if migration is None else migration.driver
    made = CsiVolume(driver, "", key) if driver else None
    return VolumeBehind(made, migrated=migration is not None, class_name=class_name)
