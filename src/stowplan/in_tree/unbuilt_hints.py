"""Which cluster changes the unbuilt plugins wait for, and what those mean for a waiting pod.

Complete, although the plugins are not: what wakes a pod up depends on objects alone.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/{volumebinding,volumezone,nodevolumelimits,
dynamicresources}.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stowplan.api.quantity import parse_quantity, value
from stowplan.framework.events import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DEVICE_CLASS,
    NODE,
    POD,
    PV,
    PVC,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Action,
    Hint,
    on,
    queue_if,
)
from stowplan.in_tree.common.claim_hints import names_claim, stands_on_claim
from stowplan.in_tree.common.pod_hints import is_placed_or_nominated, same_pod
from stowplan.in_tree.common.resource_claims import ClaimError, pod_resource_claims

if TYPE_CHECKING:
    from stowplan.api import types as t
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.events import ClusterEventWithHint
    from stowplan.framework.handle import Handle

    Events = tuple[ClusterEventWithHint, ...]

_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

#: Labels by which a volume says where it is.
ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)

#: Inline volume -> CSI driver that has taken it over.
MIGRATED_DRIVERS = {
    "aws_elastic_block_store": "ebs.csi.aws.com",
    "gce_persistent_disk": "pd.csi.storage.gke.io",
    "cinder": "cinder.csi.openstack.org",
    "azure_disk": "disk.csi.azure.com",
    "azure_file": "file.csi.azure.com",
    "vsphere_volume": "csi.vsphere.vmware.com",
    "portworx_volume": "pxd.portworx.com",
}


class TranslationError(ValueError):
    """An inline volume that has no CSI counterpart."""


# -- VolumeBinding ----------------------------------------------------------------------------------------------------


def volume_binding_events() -> Events:
    return (
        on(STORAGE_CLASS, Action.Add | Action.Update, _after_storage_class_change, by_shape=True),
        on(PVC, Action.Add | Action.Update, _after_any_claim_change),
        on(PV, Action.Add | Action.Update),
        on(NODE, Action.Add | Action.UpdateNodeLabel),
        on(CSI_NODE, Action.Add | Action.Update, _after_migration_change, by_shape=True),
        on(CSI_DRIVER, Action.Update, _after_driver_update, by_shape=True),
        on(CSI_STORAGE_CAPACITY, Action.Add | Action.Update, _after_capacity_change, by_shape=True),
    )


def _after_storage_class_change(pod: PodInfo, old: t.StorageClass | None, new: t.StorageClass) -> Hint:
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_any_claim_change(pod: PodInfo, old: Any, new: t.PersistentVolumeClaim) -> Hint:
    return queue_if(stands_on_claim(pod, new))


def _after_migration_change(pod: PodInfo, old: t.CSINode | None, new: t.CSINode) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = (node.metadata.annotations.get(_MIGRATED_PLUGINS, "") for node in (old, new))
    return queue_if(before != after)


def _after_driver_update(pod: PodInfo, old: t.CSIDriver, new: t.CSIDriver) -> Hint:
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return Hint.SKIP
    drivers = (volume.csi.driver for volume in pod.pod.spec.volumes if volume.csi is not None)
    return queue_if(new.metadata.name in drivers)


def _after_capacity_change(pod: PodInfo, old: t.CSIStorageCapacity | None, new: t.CSIStorageCapacity) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = _volume_limit(old), _volume_limit(new)
    return queue_if(after is not None and (before is None or after > before))


def _volume_limit(capacity: t.CSIStorageCapacity) -> int | None:
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if limit is None else value(parse_quantity(limit))


# -- VolumeZone -------------------------------------------------------------------------------------------------------


def volume_zone_events() -> Events:
    return (
        on(STORAGE_CLASS, Action.Add, _after_storage_class_added, by_shape=True),
        on(NODE, Action.Add | Action.UpdateNodeLabel),
        on(PVC, Action.Add | Action.Update, _after_claim_change, by_shape=True),
        on(PV, Action.Add | Action.Update, _after_volume_change, by_shape=True),
    )


def _after_storage_class_added(pod: PodInfo, old: None, new: t.StorageClass) -> Hint:
    return queue_if(new.volume_binding_mode == "WaitForFirstConsumer")


def _after_claim_change(pod: PodInfo, old: Any, new: t.PersistentVolumeClaim) -> Hint:
    return queue_if(names_claim(pod, new))


def _after_volume_change(pod: PodInfo, old: t.PersistentVolume | None, new: t.PersistentVolume) -> Hint:
    return queue_if(old is None or zones_of(old) != zones_of(new))


def zones_of(volume: t.PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """(label, values) of each label that says where the volume is; unreadable ones are left out."""
    labels = volume.metadata.labels
    parsed = [(key, [part.strip() for part in labels[key].split("__")]) for key in ZONE_LABELS if key in labels]
    return [(key, frozenset(parts)) for key, parts in parsed if all(parts)]


# -- NodeVolumeLimits -------------------------------------------------------------------------------------------------


def node_volume_limits_events() -> Events:
    return (
        on(CSI_NODE, Action.Add),
        on(CSI_NODE, Action.Update, _after_limits_update, by_shape=True),
        on(POD, Action.Delete, _after_volumes_freed, by_shape=True),
        on(PVC, Action.Add, _after_any_claim_change),
        on(VOLUME_ATTACHMENT, Action.Delete, _after_detachment, by_shape=True),
    )


def driver_limits(node: t.CSINode) -> dict[str, int]:
    """Driver -> volumes that it can attach; 0 where it does not say."""
    drivers = node.spec.drivers
    return {d.name: (d.allocatable.count or 0) if d.allocatable is not None else 0 for d in drivers}


def _after_limits_update(pod: PodInfo, old: t.CSINode, new: t.CSINode) -> Hint:
    before = driver_limits(old)
    return queue_if(any(limit > before.get(driver, 0) for driver, limit in driver_limits(new).items()))


def _after_volumes_freed(pod: PodInfo, old: t.Pod, new: None) -> Hint:
    return queue_if(is_placed_or_nominated(old) and any(_may_be_attached(volume) for volume in old.spec.volumes))


def _may_be_attached(volume: t.Volume) -> bool:
    claimed = volume.persistent_volume_claim is not None or volume.ephemeral is not None
    return claimed or inline_kind(volume) is not None


def _after_detachment(pod: PodInfo, old: t.VolumeAttachment, new: None) -> Hint:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        kind = inline_kind(volume)
        if kind is None:
            continue
        check_translation(volume)
        if MIGRATED_DRIVERS[kind] == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


def inline_kind(volume: t.Volume) -> str | None:
    """The field of an inline volume that a CSI driver has taken over."""
    return next((kind for kind in MIGRATED_DRIVERS if getattr(volume, kind) is not None), None)


def check_translation(volume: t.Volume) -> None:
    """Raise TranslationError for an inline volume that cannot be expressed as a CSI volume."""
    problem = None
    if (ebs := volume.aws_elastic_block_store) is not None and ebs.volume_id.startswith("aws://"):
        name = urlsplit(ebs.volume_id).path.strip("/")
        if not re.fullmatch(r"vol-[^/]*", name):
            problem = (
                f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({ebs.volume_id})"
            )
    elif (disk := volume.azure_disk) is not None and disk.kind is not None and disk.kind.lower() != "managed":
        problem = f"kind({disk.kind}) is not supported in csi migration"
    if problem is not None:
        raise TranslationError(f"converting volume({volume.name}) from inline to csi: {problem}")


# -- DynamicResources -------------------------------------------------------------------------------------------------


def dynamic_resources_events(handle: Handle) -> Events:
    def after_claim_change(pod: PodInfo, old: t.ResourceClaim | None, new: t.ResourceClaim) -> Hint:
        return _after_resource_claim_change(pod, old, new, handle)

    def after_pod_change(pod: PodInfo, old: t.Pod, new: t.Pod) -> Hint:
        return queue_if(same_pod(pod, new) and _has_claims(handle.pod_info(new), handle))

    return (
        on(NODE, Action.Add | Action.UpdateNodeLabel | Action.UpdateNodeAllocatable),
        on(RESOURCE_CLAIM, Action.Add | Action.Update, after_claim_change),
        on(POD, Action.UpdatePodGeneratedResourceClaim, after_pod_change, by_shape=True),
        on(DEVICE_CLASS, Action.Add | Action.Update),
        on(RESOURCE_SLICE, Action.Add | Action.Update),
    )


def _has_claims(pod: PodInfo, handle: Handle) -> bool:
    try:
        pod_resource_claims(pod, handle.cluster.objects)
    except ClaimError:
        return False
    return True


def _after_resource_claim_change(
    pod: PodInfo, old: t.ResourceClaim | None, new: t.ResourceClaim, handle: Handle
) -> Hint:
    try:
        claims = pod_resource_claims(pod, handle.cluster.objects)
    except ClaimError:
        return Hint.SKIP
    if old is not None and old.status.get("allocation") is not None and new.status.get("allocation") is None:
        # Whoever held devices has given them back: that may help anybody.
        return Hint.QUEUE
    if all(_identity(claim) != _identity(new) for claim in claims):
        return Hint.SKIP
    return queue_if(old is None or _substance(old.status) != _substance(new.status))


def _identity(claim: t.ResourceClaim) -> str:
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"


def _substance(data: Any) -> Any:
    """Plain data without empty texts and lists, which mean the same as absent ones; an empty object is something."""
    if isinstance(data, dict):
        return {key: kept for key, child in data.items() if (kept := _substance(child)) not in (None, [], "")}
    return [_substance(child) for child in data] if isinstance(data, list) else data
