"""Attached volumes and limits per node, one column per CSI driver.

A volume counts once per node, however many of its pods use it, and also while it is only attached (VolumeAttachment).
The columns follow the cluster: a row is recomputed if its pods' volumes changed, if a claim, volume or class behind one
of them changed, or if its CSINode or an attachment changed. This happens on demand (`refresh`), for the affected rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import field

from stowplan.kube.api.types import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.cluster.columns import grown
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.volumes import VolumeUse
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.in_tree.node_volume_limits.volumes import CsiVolume, VolumeBehind, behind

#: Represents a missing limit.
UNLIMITED = np.iinfo(np.int64).max

_NOTHING: dict[CsiVolume, int] = {}
_MAX_FRESH = 1024
_FOLLOWED = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment)


class _Row(PlainStruct):
    """What a row's columns were computed from."""

    uses: frozenset[VolumeUse] = frozenset()
    #: Volumes used by pods -> number of uses.
    mounted: dict[CsiVolume, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    csi_node: CSINode | None = None


class AttachedVolumes:
    """The columns, and what they are computed from."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._objects = cluster.objects
        #: Rows with changes; -1 means all.
        self._written: ChangeLog[int] = ChangeLog()
        self._forget()

    def _forget(self) -> None:
        capacity = max(64, self._cluster.table.n)
        self._written.append(-1)
        #: Driver -> number of attached volumes per row.
        self._counts: dict[str, Ints] = {}
        #: Driver -> limit per row.
        self._limits: dict[str, Ints] = {}
        #: Driver -> rows whose CSINode lists it.
        self._listed: dict[str, Mask] = {}
        #: Rows with a CSINode; with a CSINode that limits some driver; with a pod whose volumes cannot be resolved.
        self._known = np.zeros(capacity, np.bool_)
        self._limited = np.zeros(capacity, np.bool_)
        self._broken = np.zeros(capacity, np.bool_)
        #: Row -> why its volumes cannot be resolved.
        self.problems: dict[int, Status] = {}
        #: Volume -> rows whose pods use it.
        self._rows_of: dict[CsiVolume, set[int]] = defaultdict(set)
        self._rows: dict[int, _Row] = {}
        self._names: list[str] = []
        #: The generation of the table with the names below.
        self._names_of = -1
        #: Versions of the mounted volumes, the objects and the nodes at the last update.
        self._stamp: tuple[int, int, int] | None = None
        self._positions: dict[type[Any], int] = {}
        self._behind: dict[VolumeUse, VolumeBehind] = {}
        #: Resolutions of uses that need not be on any row, valid for one version of the objects.
        self._fresh: dict[VolumeUse, VolumeBehind] = {}
        self._fresh_of = -1
        self._rows_with: dict[VolumeUse, set[int]] = defaultdict(set)
        #: (type, key) -> uses whose resolution depends on the object.
        self._uses_of: dict[tuple[type[Any], str], set[VolumeUse]] = defaultdict(set)
        #: Key of an attachment -> (node, attached volume, PersistentVolume).
        self._attachments: dict[str, tuple[str, CsiVolume | None, str]] = {}
        #: Node -> its attachments; PersistentVolume -> its attachments.
        self._attached_to: dict[str, set[str]] = defaultdict(set)
        self._attachments_of: dict[str, set[str]] = defaultdict(set)

    # -- queries -------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Changes with any change here; never reused."""
        return self._written.position

    def rows_since(self, version: int) -> list[int] | None:
        """Rows that changed since; None if any may have."""
        rows = self._written.since(version)
        return None if rows is None or rows[:1] == [-1] else rows

    def counts(self, driver: str) -> Ints | None:
        """Number of attached volumes of the driver per row; None: there are none."""
        found = self._counts.get(driver)
        return None if found is None else found[: self._cluster.table.n]

    def limits(self, driver: str) -> Ints | None:
        """Volume limit per node; None if no CSINode has one."""
        found = self._limits.get(driver)
        return None if found is None else found[: self._cluster.table.n]

    def listed(self, driver: str) -> Mask:
        """Rows whose CSINode lists the driver."""
        rows = self._cluster.table.n
        found = self._listed.get(driver)
        return np.zeros(rows, np.bool_) if found is None else found[:rows]

    @property
    def known(self) -> Mask:
        """Rows with a CSINode."""
        return self._known[: self._cluster.table.n]

    @property
    def broken(self) -> Mask:
        """Rows with limits, and with a pod whose volumes cannot be resolved (see `problems`)."""
        return (self._broken & self._limited)[: self._cluster.table.n]

    def rows_of(self, volume: CsiVolume) -> set[int]:
        """Rows with a pod that uses the volume."""
        return self._rows_of.get(volume, set())

    def mounted(self, row: int) -> Mapping[CsiVolume, int]:
        """Volumes that the row's pods use, and how often."""
        found = self._rows.get(row)
        return _NOTHING if found is None else found.mounted

    def attached(self, row: int) -> set[CsiVolume]:
        """Volumes attached to the row's node, whether or not a pod uses them."""
        return self._attached_on(self._cluster.table.names[row])

    def behind(self, use: VolumeUse) -> VolumeBehind:
        """The resolution of a use."""
        found = self._behind.get(use)
        return self._looked_up(use) if found is None else found

    def _looked_up(self, use: VolumeUse) -> VolumeBehind:
        """The resolution for a pod that is not on its node yet."""
        version = self._objects.total_version
        if self._fresh_of != version or len(self._fresh) >= _MAX_FRESH:
            self._fresh.clear()
            self._fresh_of = version
        found = self._fresh.get(use)
        if found is None:
            found = self._fresh[use] = behind(use, self._objects)
        return found

    # -- updates -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Process all changes."""
        cluster = self._cluster
        stamp = cluster.volumes.changes.position, self._objects.total_version, cluster.table.generation
        if stamp == self._stamp:
            return
        remounted = None if self._stamp is None else cluster.volumes.changes.since(self._stamp[0])
        changed = None if remounted is None else self._followed()
        if remounted is None or changed is None:
            self._forget()
            remounted = cluster.volumes.rows()
            changed = {kind: list(self._keys(kind)) for kind in _FOLLOWED}
        self._grow()
        renamed = self._rows_renamed()
        rows = renamed.union(remounted)
        if changed:
            rows |= self._after_objects(changed)
        for row in renamed:
            self._write_limits(row)
        for row in rows:
            self._write(row)
        self._stamp = stamp

    def _after_objects(self, changed: dict[type[Any], list[str]]) -> set[int]:
        """Process changed objects that affect nodes; return the rows to recompute because of changed volumes."""
        rows: set[int] = set()
        for kind, keys in changed.items():
            for key in keys:
                if kind is CSINode:
                    for row in self._row_of(key):
                        self._write_limits(row)
                elif kind is VolumeAttachment:
                    rows |= self._reattached(key)
                else:
                    rows |= self._outdated(kind, key)
            self._positions[kind] = self._objects.changes(kind).position
        if changed[CSIDriver]:
            self._written.append(-1)
        return rows

    def _keys(self, kind: type[Any]) -> Iterable[str]:
        if kind is VolumeAttachment:
            return (attachment.metadata.name for attachment in self._objects.all(VolumeAttachment))
        # Resolutions are found with the rows, and so are the nodes' limits.
        return ()

    def _followed(self) -> dict[type[Any], list[str]] | None:
        """Keys of changed objects by kind, empty if none did; None if unknown."""
        if self._stamp is not None and self._stamp[1] == self._objects.total_version:
            return {}
        found = {}
        for kind in _FOLLOWED:
            log = self._objects.changes(kind)
            keys = log.since(self._positions[kind]) if kind in self._positions else None
            if keys is None:
                return None
            found[kind] = keys
        return found

    def _grow(self) -> None:
        table = self._cluster.table
        if table.n <= len(self._known):
            return
        capacity = table.capacity
        for columns in (self._counts, self._listed):
            for driver, column in columns.items():
                columns[driver] = grown(column, capacity)
        for driver, column in self._limits.items():
            self._limits[driver] = np.concatenate((column, np.full(capacity - len(column), UNLIMITED)))
        self._known, self._limited, self._broken = (
            grown(column, capacity) for column in (self._known, self._limited, self._broken)
        )

    def _row_of(self, node: str) -> tuple[int, ...]:
        row = self._cluster.table.row_of.get(node)
        return () if row is None else (row,)

    def _rows_renamed(self) -> set[int]:
        """Rows that were reassigned to another node."""
        if self._names_of == self._cluster.table.generation:
            return set()
        self._names_of = self._cluster.table.generation
        names, known = self._cluster.table.names, self._names
        if names == known:
            return set()
        self._names = list(names)
        # The table shrinks when a transaction is undone.
        known = known + [""] * (len(names) - len(known))
        names = names + [""] * (len(known) - len(names))
        return {row for row, (old, new) in enumerate(zip(known, names, strict=True)) if old != new}

    def _outdated(self, kind: type[Any], key: str) -> set[int]:
        """Rows that a change of an object may affect."""
        rows = set()
        for use in list(self._uses_of.get((kind, key), ())):
            old = self._behind[use]
            if old != self._look(use):
                rows |= self._rows_with[use]
        if kind is PersistentVolume:
            for attachment in list(self._attachments_of.get(key, ())):
                rows |= self._reattached(attachment)
        return rows

    # -- resolution of uses --------------------------------------------------------------------------------------------

    def _look(self, use: VolumeUse) -> VolumeBehind:
        """Resolve a use and record the objects that the result depends on."""
        old, new = self._behind.get(use), self._looked_up(use)
        if old is not None:
            for place in _read(use, old):
                self._uses_of[place].discard(use)
                if not self._uses_of[place]:
                    del self._uses_of[place]
        for place in _read(use, new):
            self._uses_of[place].add(use)
        self._behind[use] = new
        return new

    def _drop(self, use: VolumeUse) -> None:
        """No pod has this use any more."""
        for place in _read(use, self._behind.pop(use)):
            self._uses_of[place].discard(use)
            if not self._uses_of[place]:
                del self._uses_of[place]
        del self._rows_with[use]

    # -- attachments --------------------------------------------------------------------------------------------------

    def _reattached(self, key: str) -> set[int]:
        """Read an attachment again; return the affected rows."""
        node, volume, name = self._attachments.pop(key, ("", None, ""))
        attachment = self._objects.get(VolumeAttachment, key)
        new_node, new_volume, new_name = ("", None, "") if attachment is None else self._attachment(attachment)
        self._attached_to[node].discard(key)
        self._attachments_of[name].discard(key)
        if attachment is not None:
            self._attachments[key] = new_node, new_volume, new_name
            self._attached_to[new_node].add(key)
            self._attachments_of[new_name].add(key)
        for index, of in ((self._attached_to, node), (self._attachments_of, name)):
            if not index[of]:
                del index[of]
        if (node, volume) == (new_node, new_volume):
            return set()
        return {*self._row_of(node), *self._row_of(new_node)}

    def _attachment(self, attachment: VolumeAttachment) -> tuple[str, CsiVolume | None, str]:
        spec = attachment.spec
        name = spec.source.persistent_volume_name or ""
        volume = self._objects.get(PersistentVolume, name) if spec.attacher and name else None
        if volume is None or volume.spec.csi is None:
            return spec.node_name, None, name
        return spec.node_name, CsiVolume(spec.attacher, volume.spec.csi.volume_handle), name

    def _attached_on(self, node: str) -> set[CsiVolume]:
        keys = self._attached_to.get(node, ())
        return {volume for key in keys if (volume := self._attachments[key][1]) is not None}

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _write(self, row: int) -> None:
        """Recompute the attached volumes of a row."""
        table = self._cluster.table
        mounts = self._cluster.volumes.on(row)
        known = self._row(row)
        uses = frozenset(mounts)
        for use in uses - known.uses:
            self._rows_with[use].add(row)
            if use not in self._behind:
                self._look(use)
        mounted: dict[CsiVolume, int] = {}
        problem = None
        for use, number in mounts.items():
            found = self._behind[use]
            if found.volume is not None:
                mounted[found.volume] = mounted.get(found.volume, 0) + number
            elif found.problem is not None and not found.missing:
                problem = problem or found.problem
        for use in known.uses - uses:
            self._rows_with[use].discard(row)
            if not self._rows_with[use]:
                self._drop(use)
        for volume in mounted.keys() - known.mounted.keys():
            self._rows_of[volume].add(row)
        for volume in known.mounted.keys() - mounted.keys():
            self._rows_of[volume].discard(row)
            if not self._rows_of[volume]:
                del self._rows_of[volume]
        attached = self._attached_on(table.names[row]) if self._attached_to and row < table.n else set()
        counts: dict[str, int] = {}
        for volume in attached | mounted.keys() if attached else mounted:
            counts[volume.driver] = counts.get(volume.driver, 0) + 1
        self._write_counts(row, known.counts, counts)
        self._broken[row] = problem is not None
        self.problems.pop(row, None)
        if problem is not None:
            self.problems[row] = problem
        known.uses, known.mounted, known.counts = uses, mounted, counts
        self._written.append(row)

    def _row(self, row: int) -> _Row:
        known = self._rows.get(row)
        if known is None:
            known = self._rows[row] = _Row()
        return known

    def _write_counts(self, row: int, old: dict[str, int], new: dict[str, int]) -> None:
        for driver in old.keys() | new.keys():
            if driver not in self._counts:
                self._counts[driver] = np.zeros(len(self._known), np.int64)
            self._counts[driver][row] = new.get(driver, 0)

    def _write_limits(self, row: int) -> None:
        """Store the limits in the CSINode of a row."""
        table = self._cluster.table
        name = table.names[row] if row < table.n else ""
        known = self._row(row)
        old, new = known.csi_node, self._objects.get(CSINode, name) if name else None
        if old is new:
            return
        for driver in old.spec.drivers if old is not None else ():
            self._listed[driver.name][row] = False
        for limited in limits_of(old):
            self._limits[limited][row] = UNLIMITED
        limits = limits_of(new)
        for driver in new.spec.drivers if new is not None else ():
            if driver.name not in self._listed:
                self._listed[driver.name] = np.zeros(len(self._known), np.bool_)
            self._listed[driver.name][row] = True
        for limited, limit in limits.items():
            if limited not in self._limits:
                self._limits[limited] = np.full(len(self._known), UNLIMITED)
            self._limits[limited][row] = limit
        self._known[row], self._limited[row] = new is not None, bool(limits)
        known.csi_node = new
        self._written.append(row)


def limits_of(node: CSINode | None) -> dict[str, int]:
    """Driver -> the limit in a CSINode; drivers without one are omitted."""
    if node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _read(use: VolumeUse, found: VolumeBehind) -> Iterable[tuple[type[Any], str]]:
    """The objects that were read to resolve a use."""
    if use.claim is not None:
        yield PersistentVolumeClaim, f"{use.namespace}/{use.claim}"
    if found.volume_name:
        yield PersistentVolume, found.volume_name
    if found.class_name:
        yield StorageClass, found.class_name
