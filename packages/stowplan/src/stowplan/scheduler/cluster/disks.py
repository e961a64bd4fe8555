"""Inline disks in use, per node.

VolumeRestrictions asks which nodes mount one of a pod's disks. Few pods have inline disks, and few rows share one, so
the index maps disks to rows. A disk with several names (the monitors of an RBD image) is indexed under each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stowplan.scheduler.cluster.pod_info import Disk


class DiskIndex:
    """(kind, name) -> row -> disk -> number of mounts."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[int, Counter[Disk]]] = {}

    def add(self, row: int, disks: Iterable[Disk]) -> None:
        for disk in disks:
            for name in disk.names:
                self._rows.setdefault((disk.kind, name), {}).setdefault(row, Counter())[disk] += 1

    def remove(self, row: int, disks: Iterable[Disk]) -> None:
        for disk in disks:
            for name in disk.names:
                self._take(row, (disk.kind, name), disk)

    def _take(self, row: int, key: tuple[str, str], disk: Disk) -> None:
        rows = self._rows[key]
        mounts = rows[row]
        mounts[disk] -= 1
        if mounts[disk]:
            return
        del mounts[disk]
        if not mounts:
            del rows[row]
        if not rows:
            del self._rows[key]

    def conflicting_rows(self, wanted: Iterable[Disk]) -> list[int]:
        """Rows on which a mount excludes mounting some wanted disk; may contain duplicates."""
        return [
            row
            for disk in wanted
            for name in disk.names
            for row, mounts in self._rows.get((disk.kind, name), {}).items()
            if any(disk.conflicts(mounted) for mounted in mounts)
        ]
