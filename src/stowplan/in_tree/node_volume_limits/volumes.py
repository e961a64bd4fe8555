"""Resolve a pod's volumes to CSI volumes.

A claim leads to its PersistentVolume, or, before it is bound, to the driver that its class provisions with: such a
volume is known by its claim, and no other claim's. In-tree volumes are those of the driver that took them over. What
leads to no driver is not counted.

Upstream: filterAttachableVolumes and getCSIDriverInfo of nodevolumelimits/csi.go; there a random prefix tells pending
claims from real handles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.api.meta import controller_of
from stowplan.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.framework.status import Reason, Status, error, unresolvable
from stowplan.in_tree.common.csi_migration import (
    TranslationError,
    inline_handle,
    migration_of,
    migration_of_provisioner,
)
from stowplan.in_tree.common.volume_claims import class_name_of

if TYPE_CHECKING:
    from stowplan.cluster.objects import ObjectStore
    from stowplan.cluster.volumes import VolumeUse

CLAIM_MISSING = Reason("ClaimNotFound", 'looking up PVC {namespace}/{claim}: persistentvolumeclaim "{claim}" not found')


class CsiVolume(NamedTuple):
    """A volume as its driver knows it; one that is still to be made is known by its claim."""

    driver: str
    handle: str
    #: "namespace/name" of the claim that it is to be made for.
    pending_for: str = ""


class Found(NamedTuple):
    """The result of resolving a use to a CSI volume."""

    #: None: nothing that counts.
    volume: CsiVolume | None = None
    #: Whether it counts only on nodes with a CSINode, as an in-tree volume does.
    migrated: bool = False
    #: Why a pod cannot use it so; of an in-tree volume this, too, goes for nodes with a CSINode.
    problem: Status | None = None
    #: Whether the problem is that the claim is not there, which is nothing to a pod that runs.
    missing: bool = False
    #: Names of the PersistentVolume and of the class that were looked up.
    volume_name: str = ""
    class_name: str = ""


NOTHING = Found()


def behind(use: VolumeUse, objects: ObjectStore) -> Found:
    if use.claim is None:
        return _inline(use)
    if not use.claim:
        return Found(problem=error("PersistentVolumeClaim had no name"))
    claim = objects.get(PersistentVolumeClaim, f"{use.namespace}/{use.claim}")
    if claim is None:
        reason = CLAIM_MISSING.of(namespace=use.namespace, claim=use.claim)
        return Found(problem=unresolvable(reason), missing=True)
    if use.owner is not None and not _is_owned_by(claim, use.owner[1]):
        of, pod = f"{use.namespace}/{use.claim}", f"{use.namespace}/{use.owner[0]}"
        return Found(problem=error(f"PVC {of} was not created for pod {pod} (pod is not owner)"))
    return _of_claim(claim, f"{use.namespace}/{use.claim}", objects)


def _is_owned_by(claim: PersistentVolumeClaim, uid: str) -> bool:
    owner = controller_of(claim.metadata)
    return owner is not None and owner.uid == uid


def _inline(use: VolumeUse) -> Found:
    assert use.disk is not None
    migration = migration_of(use.disk)
    if migration is None or not migration.counted:
        return NOTHING
    try:
        attached = inline_handle(use.disk, use.namespace)
    except TranslationError as problem:
        return Found(migrated=True, problem=error(problem))
    # Parity: of an inline volume also the empty handle is a name.
    return Found(None if attached is None else CsiVolume(*attached), migrated=True)


def _of_claim(claim: PersistentVolumeClaim, key: str, objects: ObjectStore) -> Found:
    name = claim.spec.volume_name
    volume = objects.get(PersistentVolume, name) if name else None
    if volume is None:
        return _provisioned(claim, key, objects)._replace(volume_name=name)
    if volume.spec.csi is not None:
        return Found(_named(volume.spec.csi.driver, volume.spec.csi.volume_handle), volume_name=name)
    migration = migration_of(volume)
    if migration is None or not migration.counted:
        return Found(volume_name=name)
    try:
        handle = migration.handle(volume)
    except TranslationError:
        return Found(volume_name=name)
    return Found(_named(migration.driver, handle), migrated=True, volume_name=name)


def _named(driver: str, handle: str) -> CsiVolume | None:
    return CsiVolume(driver, handle) if driver and handle else None


def _provisioned(claim: PersistentVolumeClaim, key: str, objects: ObjectStore) -> Found:
    """The volume that the claim's class is to make."""
    class_name = class_name_of(claim)
    storage_class = objects.get(StorageClass, class_name) if class_name else None
    if storage_class is None:
        return Found(class_name=class_name)
    migration = migration_of_provisioner(storage_class.provisioner)
    if migration is not None and not migration.counted:
        return Found(class_name=class_name)
    driver = storage_class.provisioner if migration is None else migration.driver
    made = CsiVolume(driver, "", key) if driver else None
    return Found(made, migrated=migration is not None, class_name=class_name)
