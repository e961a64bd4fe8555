"""Reject nodes outside the zones of the pod's volumes.

A bound volume has labels with its zones or regions, and so have nodes. A volume's requirement is a label and a set of
values. Few of these are distinct, so each is compared with the table's label column once, for all nodes and all pods.
Pods are signed with the requirements of their volumes, so those of a StatefulSet in one zone share results though each
has a claim of its own.

Upstream: pkg/scheduler/framework/plugins/volumezone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.kube.claims.claim_terms import class_name_of
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, SignPlugin
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import ClusterEventWithHint
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, unresolvable
from stowplan.scheduler.in_tree.volume_zone.declaration import DECLARATION
from stowplan.scheduler.in_tree.volume_zone.hints import ZONE_LABELS, events, zones_of

#: A label, and its allowed values.
Demand = tuple[str, frozenset[str]]

PRE_FILTER_STATE = "PreFilterVolumeZone"

ZONE_CONFLICT = Reason("VolumeZoneConflict", "node(s) had no available volume zone")
NO_CLAIM_NAME = Reason("ClaimHasNoName", "PersistentVolumeClaim had no name")
CLAIM_MISSING = Reason("ClaimNotFound", 'persistentvolumeclaim "{claim}" not found')
NOTHING_TO_BIND = Reason("ClaimHasNoClass", "PersistentVolumeClaim had no pv name and storageClass name")
CLASS_MISSING = Reason("ClassNotFound", 'storageclass.storage.k8s.io "{storage_class}" not found')
NO_BINDING_MODE = Reason("ClassHasNoBindingMode", 'VolumeBindingMode not set for StorageClass "{storage_class}"')
UNBOUND = Reason("ClaimUnbound", "PersistentVolume had no name")
VOLUME_MISSING = Reason("VolumeNotFound", 'persistentvolume "{volume}" not found')

_WAITS = "WaitForFirstConsumer"

_TODAYS_LABEL = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))


class VolumeZone(PreFilterPlugin, FilterPlugin, SignPlugin, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    # The labels of the volumes are in the signature.
    reads = Reads.NODES

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        demands = self.demands(pod)
        if isinstance(demands, Status):
            return demands
        if not demands:
            return SKIP
        state.write(PRE_FILTER_STATE, demands)
        return None

    def ignores(self, shape: PodShape) -> bool:
        return not shape.claim_names

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        if not pod.shape.claim_names:
            return {}
        demands = self.demands(pod)
        return {"refused": demands.message} if isinstance(demands, Status) else {"demands": demands}

    def demands(self, pod: PodInfo) -> tuple[Demand, ...] | Status:
        """The requirements of the pod's volumes, or why they cannot be determined."""
        found: dict[Demand, None] = {}
        for name in pod.shape.claim_names:
            volume = self._volume(pod, name)
            if isinstance(volume, Status):
                return volume
            found.update(dict.fromkeys(zones_of(volume) if volume is not None else ()))
        return tuple(found)

    def volumes(self, pod: PodInfo) -> Iterator[tuple[str, PersistentVolume]]:
        """The pod's bound volumes, each with the name of its claim."""
        for name in pod.shape.claim_names:
            volume = self._volume(pod, name)
            if isinstance(volume, PersistentVolume):
                yield name, volume

    def _volume(self, pod: PodInfo, name: str) -> PersistentVolume | Status | None:
        """The volume of a claim; None while the claim waits for the pod's node."""
        objects = self.handle.cluster.objects
        if not name:
            return unresolvable(NO_CLAIM_NAME)
        claim = objects.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
        if claim is None:
            return unresolvable(CLAIM_MISSING.of(claim=name))
        if not claim.spec.volume_name:
            return self._unbound(claim)
        volume = objects.get(PersistentVolume, claim.spec.volume_name)
        return unresolvable(VOLUME_MISSING.of(volume=claim.spec.volume_name)) if volume is None else volume

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        class_name = class_name_of(claim)
        if not class_name:
            return unresolvable(NOTHING_TO_BIND)
        storage_class = self.handle.cluster.objects.get(StorageClass, class_name)
        if storage_class is None:
            return unresolvable(CLASS_MISSING.of(storage_class=class_name))
        if storage_class.volume_binding_mode is None:
            return unresolvable(NO_BINDING_MODE.of(storage_class=class_name))
        return None if storage_class.volume_binding_mode == _WAITS else unresolvable(UNBOUND)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        demands: tuple[Demand, ...] | Status | None = state.get(PRE_FILTER_STATE)
        if demands is None:
            demands = self.demands(pod)
        if isinstance(demands, Status):
            refused = np.ones(len(nodes), np.bool_)
            return Rejections.where(refused, demands.records[0], demands.code) if len(nodes) else None
        mask = nodes.take(elsewhere(nodes.table, demands))
        if not mask.any():
            return None
        return Rejections.where(mask, ZONE_CONFLICT, Code.UnschedulableAndUnresolvable)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events()


def elsewhere(table: NodeTable, demands: Sequence[Demand]) -> Mask:
    """Rows with zone labels that do not meet some requirement."""
    found = np.zeros(table.n, np.bool_)
    for demand in demands:
        found |= _unmet(table, demand)
    return found


def _unmet(table: NodeTable, demand: Demand) -> Mask:
    found: Mask = table.memo(("VolumeZone", demand), lambda: _somewhere(table) & ~_met(table, *demand))
    return found


def _somewhere(table: NodeTable) -> Mask:
    """Rows with zone labels."""

    def look() -> Mask:
        labelled: Mask = np.logical_or.reduce([table.label(key).codes[: table.n] != 0 for key in ZONE_LABELS])
        return labelled

    found: Mask = table.memo("VolumeZone: labelled", look)
    return found


def _met(table: NodeTable, key: str, values: frozenset[str]) -> Mask:
    """Rows whose label has one of the values. Where a legacy label is missing, its successor is used."""
    met, codes = _has_one_of(table, key, values), table.label(key).codes[: table.n]
    if key in _TODAYS_LABEL:
        met |= (codes == 0) & _has_one_of(table, _TODAYS_LABEL[key], values)
    return met


def _has_one_of(table: NodeTable, key: str, values: frozenset[str]) -> Mask:
    column = table.label(key)
    wanted = np.zeros(column.size, np.bool_)
    wanted[[column.code(value) for value in values]] = True
    wanted[0] = False
    found: Mask = wanted[column.codes[: table.n]]
    return found
