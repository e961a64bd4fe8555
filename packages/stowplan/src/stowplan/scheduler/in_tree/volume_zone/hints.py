"""Queueing hints of VolumeZone.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/volumezone.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api import types as t
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import (
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
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, names_claim

#: Labels with the zone or region of a volume.
ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)


def events() -> tuple[ClusterEventWithHint, ...]:
    return (
        on(STORAGE_CLASS, Action.Add, _after_storage_class_added, by_shape=True),
        on(NODE, Action.Add | Action.UpdateNodeLabel),
        on(PVC, Action.Add | Action.Update, _after_claim_change, by_shape=True, named=CLAIMS_OF_POD),
        on(PV, Action.Add | Action.Update, _after_volume_change, by_shape=True),
    )


def _after_storage_class_added(pod: PodInfo, old: None, new: t.StorageClass) -> Hint:
    return queue_if(new.volume_binding_mode == "WaitForFirstConsumer")


def _after_claim_change(pod: PodInfo, old: Any, new: t.PersistentVolumeClaim) -> Hint:
    return queue_if(names_claim(pod, new))


def _after_volume_change(pod: PodInfo, old: t.PersistentVolume | None, new: t.PersistentVolume) -> Hint:
    return queue_if(old is None or zones_of(old) != zones_of(new))


def zones_of(volume: t.PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """(label, values) for each zone or region label of the volume; invalid values are omitted."""
    labels = volume.metadata.labels
    parsed = [(key, [part.strip() for part in labels[key].split("__")]) for key in ZONE_LABELS if key in labels]
    return [(key, frozenset(parts)) for key, parts in parsed if all(parts)]
