"""Queueing hints of NodeVolumeLimits.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from __future__ import annotations

from stowplan.kube.api import types as t
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import (
    CSI_NODE,
    PVC,
    VOLUME_ATTACHMENT,
    Action,
    ClusterEventWithHint,
    Hint,
    on,
    pod_events,
    queue_if,
)
from stowplan.scheduler.in_tree.common.csi_migration import inline_handle, migration_of
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, after_claim_change


def events(version: KubernetesVersion) -> tuple[ClusterEventWithHint, ...]:
    return (
        on(CSI_NODE, Action.Add),
        on(CSI_NODE, Action.Update, _after_limits_update, by_shape=True),
        on(pod_events(version).assigned, Action.Delete, _after_volumes_freed, by_shape=True),
        on(PVC, Action.Add, after_claim_change, named=CLAIMS_OF_POD),
        on(VOLUME_ATTACHMENT, Action.Delete, _after_detachment, by_shape=True),
    )


def driver_limits(node: t.CSINode) -> dict[str, int]:
    """Driver -> number of attachable volumes; 0 if not specified."""
    drivers = node.spec.drivers
    return {d.name: (d.allocatable.count or 0) if d.allocatable is not None else 0 for d in drivers}


def _after_limits_update(pod: PodInfo, old: t.CSINode, new: t.CSINode) -> Hint:
    before = driver_limits(old)
    return queue_if(any(limit > before.get(driver, 0) for driver, limit in driver_limits(new).items()))


def _after_volumes_freed(pod: PodInfo, old: t.Pod, new: None) -> Hint:
    return queue_if(is_placed_or_nominated(old) and any(_may_be_attached(volume) for volume in old.spec.volumes))


def _may_be_attached(volume: t.Volume) -> bool:
    claimed = volume.persistent_volume_claim is not None or volume.ephemeral is not None
    return claimed or migration_of(volume) is not None


def _after_detachment(pod: PodInfo, old: t.VolumeAttachment, new: None) -> Hint:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        attached = inline_handle(volume, pod.namespace)
        if attached is not None and attached[0] == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP
