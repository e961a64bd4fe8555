"""Which cluster changes NodeVolumeLimits waits for, and what those mean for a waiting pod.

Complete, although the plugin is not: what wakes a pod up depends on objects alone.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stowplan.framework.events import CSI_NODE, POD, PVC, VOLUME_ATTACHMENT, Action, Hint, on, queue_if
from stowplan.in_tree.common.pod_hints import is_placed_or_nominated
from stowplan.in_tree.common.volume_claims import after_claim_change

if TYPE_CHECKING:
    from stowplan.api import types as t
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.events import ClusterEventWithHint

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


def events() -> tuple[ClusterEventWithHint, ...]:
    return (
        on(CSI_NODE, Action.Add),
        on(CSI_NODE, Action.Update, _after_limits_update, by_shape=True),
        on(POD, Action.Delete, _after_volumes_freed, by_shape=True),
        on(PVC, Action.Add, after_claim_change),
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
