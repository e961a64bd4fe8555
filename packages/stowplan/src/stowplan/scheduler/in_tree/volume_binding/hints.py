"""Queueing hints of VolumeBinding, which depend on objects alone.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from stowplan.kube.api import types as t
from stowplan.kube.api.quantity import parse_quantity, value
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PV,
    PVC,
    STORAGE_CLASS,
    Action,
    ClusterEventWithHint,
    Hint,
    on,
    queue_if,
)
from stowplan.scheduler.in_tree.common.annotations import MIGRATED_PLUGINS
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, after_claim_change


def events() -> tuple[ClusterEventWithHint, ...]:
    return (
        on(STORAGE_CLASS, Action.Add | Action.Update, _after_storage_class_change, by_shape=True),
        on(PVC, Action.Add | Action.Update, after_claim_change, named=CLAIMS_OF_POD),
        on(PV, Action.Add | Action.Update),
        on(NODE, Action.Add | Action.UpdateNodeLabel),
        on(CSI_NODE, Action.Add | Action.Update, _after_migration_change, by_shape=True),
        on(CSI_DRIVER, Action.Update, _after_driver_update, by_shape=True),
        on(CSI_STORAGE_CAPACITY, Action.Add | Action.Update, _after_capacity_change, by_shape=True),
    )


def _after_storage_class_change(pod: PodInfo, old: t.StorageClass | None, new: t.StorageClass) -> Hint:
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_migration_change(pod: PodInfo, old: t.CSINode | None, new: t.CSINode) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
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
