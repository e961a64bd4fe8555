"""Reject nodes that cannot attach the pod's CSI volumes.

Limits and numbers of attached volumes are columns of `AttachedVolumes`; a pod adds its volumes, except those that
another pod has attached already. A pod's volumes depend on its claims, and pods of a StatefulSet have claims of their
own; but volumes that are attached nowhere only differ in their driver. So pods are signed with the number of volumes
per driver, and share results.

Preemption removes and adds pods on many nodes at once: `_Worlds` has the hypothetical mounts of the affected rows.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import field

from stowplan.kube.api import types as t
from stowplan.kube.api.types import CSIDriver, Pod
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods, Reads, ReadsNoObjects, SignPlugin
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
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
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin, PodExtensions, PreFilterPlugin
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status
from stowplan.scheduler.in_tree.common.csi_migration import inline_handle, migration_of
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, after_claim_change
from stowplan.scheduler.in_tree.node_volume_limits.columns import AttachedVolumes
from stowplan.scheduler.in_tree.node_volume_limits.declaration import DECLARATION
from stowplan.scheduler.in_tree.node_volume_limits.volumes import CsiVolume, VolumeBehind

#: Driver -> volumes of a pod.
Volumes = dict[str, list[CsiVolume]]
#: A pod's volumes on nodes with a CSINode, and on other nodes; or why it cannot have a volume.
Brought = tuple[Volumes | Status, Volumes | Status]


TOO_MANY_VOLUMES = Reason("TooManyVolumes", "node(s) exceed max volume count")
DRIVER_MISSING = Reason("DriverNotInstalled", "{driver} CSI driver is not installed on the node")

_STATE = "PreFilterNodeVolumeLimits"


class _Worlds(PlainStruct):
    """Hypothetical rows, with pods with volumes added or removed."""

    #: Of the columns that the result is based on.
    version: int
    #: Rows that exceed a limit; None: there may be other rejections.
    over: Mask | None = None
    #: Row -> volumes that its pods would use, and how often.
    mounted: dict[int, Counter[CsiVolume]] = field(default_factory=dict)
    #: Driver -> change of each row's count.
    counts: dict[str, Ints] = field(default_factory=dict)
    #: Volume -> row -> whether a pod there would use it; only where that differs from the current state.
    moved: dict[CsiVolume, dict[int, bool]] = field(default_factory=dict)

    def clone(self) -> _Worlds:
        if not self.moved:
            return _Worlds(self.version, self.over)
        mounted = {row: Counter(volumes) for row, volumes in self.mounted.items()}
        counts = {driver: column.copy() for driver, column in self.counts.items()}
        moved = {volume: dict(rows) for volume, rows in self.moved.items()}
        return _Worlds(self.version, self.over, mounted, counts, moved)


class NodeVolumeLimits(
    PreFilterPlugin, FilterPlugin, PodExtensions, CountsPods, ReadsNoObjects, SignPlugin, EnqueueExtensions
):
    declaration = DECLARATION
    # The columns track what they depend on, so there is nothing else to declare.
    reads = Reads.CLUSTER_PODS

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scaling = handle.features.enabled("VolumeLimitScaling")
        self._columns = AttachedVolumes(handle.cluster)
        #: The last pod's volumes, with the version of the objects: requested several times per cycle.
        self._brought: tuple[Pod, int, Brought] | None = None

    # -- the pod ------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.volume_uses:
            return SKIP
        self._columns.refresh()
        state.write(_STATE, _Worlds(self._columns.version))
        return None

    def ignores(self, shape: PodShape) -> bool:
        return shape.volume_uses == ()

    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        worlds: _Worlds | None = state.get(_STATE)
        if worlds is None:
            return not pod.volume_uses
        self._columns.refresh()
        version = self._columns.version
        if worlds.version != version:
            if not self._refuses_the_same(worlds, pod):
                return False
            worlds.version = version
        return True

    def _refuses_the_same(self, worlds: _Worlds, pod: PodInfo) -> bool:
        """Whether the same rows are rejected after the changes: usually one row got another volume."""
        brought = self.brought(pod, migrated=True)
        if isinstance(brought, Status) or self._scaling:
            return False
        if not brought:
            return True
        rows = self._columns.rows_since(worlds.version)
        if rows is None or worlds.over is None or self._columns.problems or rows[-1] >= len(worlds.over):
            return False
        over: list[bool] = worlds.over.take(rows).tolist()
        return over == self._over_on(rows, brought)

    def _over_on(self, rows: list[int], brought: Volumes) -> list[bool]:
        """`_over` for a few rows in their current state."""
        over = [False] * len(rows)
        for driver, volumes in brought.items():
            limits, counts = self._columns.limits(driver), self._columns.counts(driver)
            if limits is None:
                continue
            users = [there for volume in volumes if (there := self._columns.rows_of(volume))]
            for i, row in enumerate(rows):
                new = len(volumes) - (sum(row in there for there in users) if users else 0)
                used = 0 if counts is None else counts[row]
                over[i] = over[i] or bool(new and used + new > limits[row])
        return over

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """Volumes that are attached somewhere by name; of the others the number per driver."""
        if not pod.volume_uses:
            return {}
        self._columns.refresh()
        everywhere, without = self._all_brought(pod)
        signed = self._signed(everywhere)
        return {"volumes": (signed, signed if without is everywhere else self._signed(without))}

    def _signed(self, brought: Volumes | Status) -> object:
        if isinstance(brought, Status):
            return brought.code, brought.message
        return tuple(
            (driver, len(volumes), tuple(volume for volume in volumes if self._columns.rows_of(volume)))
            for driver, volumes in brought.items()
        )

    def brought(self, pod: PodInfo, *, migrated: bool) -> Volumes | Status:
        """The pod's volumes by driver, or why it cannot have one; `migrated`: on nodes with a CSINode."""
        return self._all_brought(pod)[0 if migrated else 1]

    def _all_brought(self, pod: PodInfo) -> Brought:
        version, known = self.handle.cluster.objects.total_version, self._brought
        if known is not None and known[0] is pod.pod and known[1] == version:
            return known[2]
        found = [self._columns.behind(use) for use in pod.volume_uses]
        everywhere = _by_driver(found)
        in_tree = any(behind.migrated for behind in found)
        brought = everywhere, _by_driver(b for b in found if not b.migrated) if in_tree else everywhere
        self._brought = pod.pod, version, brought
        return brought

    # -- the nodes ----------------------------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        self._columns.refresh()
        worlds: _Worlds = state.get(_STATE) or _Worlds(self._columns.version)
        entries: list[Entry] = []
        for migrated, brought in zip((True, False), self._all_brought(pod), strict=True):
            if self._says_nothing(brought, migrated=migrated):
                continue
            known = nodes.take(self._columns.known)
            found = self._judged(brought, nodes, known if migrated else ~known, worlds, migrated=migrated)
            if isinstance(found, Status):
                return found
            entries += found
        if not entries:
            return None
        return Rejections(np.logical_or.reduce([entry.mask for entry in entries]), entries)

    def _says_nothing(self, brought: Volumes | Status, *, migrated: bool) -> bool:
        """Whether the result is the same on all nodes: without a CSINode, or without volumes, there are no limits."""
        return not isinstance(brought, Status) and not self._scaling and not (migrated and brought)

    def _judged(
        self, brought: Volumes | Status, nodes: Nodes, rows: Mask, worlds: _Worlds, *, migrated: bool
    ) -> list[Entry] | Status:
        """The result for some of the view's rows: those with a CSINode, or those without."""
        if isinstance(brought, Status):
            if brought.rejected:
                return [Entry(rows, brought.code, brought.records[0])] if rows.any() else []
            return brought if self._candidate_rows(nodes, rows) else []
        entries = list(self._not_installed(nodes, rows, brought)) if self._scaling else []
        if not migrated or not brought:
            return entries
        if self._columns.problems:
            broken = rows & nodes.take(self._columns.broken)
            for entry in entries:
                broken &= ~entry.mask
            if broken.any() and (candidates := self._candidate_rows(nodes, broken)):
                return self._columns.problems[nodes.row(candidates[0])]
        over = self._over(nodes, brought, worlds)
        if nodes.rows is None and not worlds.moved:
            worlds.over = over
        over = over & rows
        for entry in entries:
            over &= ~entry.mask
        return [*entries, Entry(over, Code.Unschedulable, TOO_MANY_VOLUMES)] if over.any() else entries

    def _candidate_rows(self, nodes: Nodes, rows: Mask) -> list[int]:
        """The subset of rows that are candidate nodes: errors of others do not count."""
        candidates = rows & nodes.take(self.handle.cluster.table.valid)
        if nodes.candidates is not None:
            candidates &= nodes.candidates
        found: list[int] = np.flatnonzero(candidates).tolist()
        return found

    def _not_installed(self, nodes: Nodes, rows: Mask, brought: Volumes) -> Iterator[Entry]:
        """Nodes without a driver that the pod requires."""
        left = rows
        for driver in sorted(brought):
            csi_driver = self.handle.cluster.objects.get(CSIDriver, driver)
            if csi_driver is not None and csi_driver.spec.prevent_pod_scheduling_if_missing:
                missing = left & ~nodes.take(self._columns.listed(driver))
                if missing.any():
                    left = left & ~missing
                    yield Entry(missing, Code.Unschedulable, DRIVER_MISSING.of(driver=driver))

    def _over(self, nodes: Nodes, brought: Volumes, worlds: _Worlds) -> Mask:
        """Nodes on which the volumes of some driver would exceed the limit."""
        over = np.zeros(len(nodes), np.bool_)
        for driver, volumes in brought.items():
            limits = self._columns.limits(driver)
            if limits is not None:
                used, new = self.used(driver, worlds), self.new(volumes, worlds)
                over |= nodes.take((used + new > limits) & (new > 0))
        return over

    def used(self, driver: str, worlds: _Worlds | None = None) -> Ints:
        """Number of volumes of the driver per row."""
        used = self._columns.counts(driver)
        if used is None:
            used = np.zeros(self.handle.cluster.table.n, np.int64)
        differs = None if worlds is None else worlds.counts.get(driver)
        return used if differs is None else used + differs

    def new(self, volumes: Sequence[CsiVolume], worlds: _Worlds | None = None) -> Ints:
        """How many of a pod's volumes no pod of the row uses yet."""
        new = np.empty(self.handle.cluster.table.n, np.int64)
        new.fill(len(volumes))
        for volume in volumes:
            there = self._columns.rows_of(volume)
            moved = None if worlds is None else worlds.moved.get(volume)
            if moved:
                there = {row for row in there if moved.get(row, True)}
                there.update(row for row, comes in moved.items() if comes)
            if there:
                new[list(there)] -= 1
        return new

    # -- hypothetical pods ---------------------------------------------------------------------------------------------

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        if all(shape.volume_uses == () for shape in shift.shapes):
            return None
        worlds: _Worlds = state.read(_STATE)
        for row, shifted in zip(shift.rows.tolist(), shift.pods, strict=True):
            for use in shifted.volume_uses:
                volume = self._columns.behind(use).volume
                if volume is not None:
                    self._shift(worlds, row, volume, shift.sign)
        return None

    def _shift(self, worlds: _Worlds, row: int, volume: CsiVolume, sign: int) -> None:
        """Add a use of the volume on the row, or remove one."""
        mounted = worlds.mounted.get(row)
        if mounted is None:
            mounted = worlds.mounted[row] = Counter(self._columns.mounted(row))
        before = mounted[volume] > 0
        mounted[volume] += sign
        after = mounted[volume] > 0
        if before == after:
            return
        worlds.moved.setdefault(volume, {})[row] = after
        if volume in self._columns.attached(row):
            return
        if volume.driver not in worlds.counts:
            worlds.counts[volume.driver] = np.zeros(self.handle.cluster.table.n, np.int64)
        worlds.counts[volume.driver][row] += int(after) - int(before)

    def columns(self) -> AttachedVolumes:
        """The current columns."""
        self._columns.refresh()
        return self._columns

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(self.handle.features.emulated_version)


def _by_driver(found: Iterable[VolumeBehind]) -> Volumes | Status:
    """Distinct volumes by driver, or the first problem."""
    volumes: Volumes = {}
    for behind in found:
        if behind.problem is not None:
            return behind.problem
        if behind.volume is not None:
            of_driver = volumes.setdefault(behind.volume.driver, [])
            if behind.volume not in of_driver:
                of_driver.append(behind.volume)
    return volumes


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
