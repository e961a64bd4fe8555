"""Explain disk conflicts and ReadWriteOncePod claims in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.pod_info import Disk, PodInfo, PodShape
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import pods_text
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Remedy, Way, move
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.volume_restrictions.plugin import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions


class VolumeRestrictionsExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: VolumeRestrictions) -> None:
        super().__init__(inspection)
        self._lonely = plugin.lonely_claims(inspection.pod)

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code != DISK_CONFLICT.code:
            return ""
        taken = [disk for disk in self.inspection.pod.shape.disks if self._holders(row, disk)]
        return "; ".join(f"{_disk_text(disk)} is mounted by {pods_text(self._holders(row, disk))}" for disk in taken)

    def depends_on(self, reason: Reason) -> Columns | None:
        return None if reason.code == DISK_CONFLICT.code else []

    def _holders(self, row: int, disk: Disk) -> list[PodInfo]:
        pods = self.inspection.cluster.row_pods[row]
        return [info for info in pods if any(disk.conflicts(held) for held in info.shape.disks)]

    def holders(self, row: int) -> list[PodInfo]:
        """Pods of a node that mount one of the pod's disks."""
        found = [info for disk in self.inspection.pod.shape.disks for info in self._holders(row, disk)]
        return list({info.key: info for info in found}.values())

    def users(self, claim: str) -> list[PodInfo]:
        """Placed pods that use a claim of the pod."""
        namespace = self.inspection.pod.namespace

        def uses(shape: PodShape) -> bool:
            return shape.namespace == namespace and claim in shape.claim_names

        return self.inspection.pods_like(uses)

    def rivals(self) -> list[PodInfo]:
        """Pods that use a ReadWriteOncePod claim of the pod."""
        found = [info for claim in self._lonely for info in self.users(claim)]
        return list({info.key: info for info in found}.values())

    def obstacles(self) -> Iterator[str]:
        if not self.inspection.refused_for(VolumeRestrictions.name, CLAIM_IN_USE).any():
            return
        for claim in self._lonely:
            users = self.users(claim)
            if users:
                where = f"{pods_text(users)} on {users[0].node_name}"
                yield f"claim {claim} is for one pod at a time (ReadWriteOncePod), and {where} uses it"

    def remedy(self, mask: Mask) -> Remedy:
        return _MovePods(self, mask)


class _MovePods(Remedy):
    """For disks, each node needs its own pods moved; if only a claim is in use, all nodes need the same."""

    def __init__(self, explanation: VolumeRestrictionsExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        on_disks = self.inspection.refused_for(VolumeRestrictions.name, DISK_CONFLICT) & mask
        for rows in (np.flatnonzero(on_disks), np.flatnonzero(mask & ~on_disks)):
            if len(rows):
                self.add_class(rows)

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        leaving = {info.key: info for info in self._explanation.rivals()}
        leaving |= {info.key: info for info in self._explanation.holders(int(rows[0]))}
        return [(move(list(leaving.values())),)] if leaving else []


def _disk_text(disk: Disk) -> str:
    return " ".join((disk.kind, *disk.rest, *sorted(disk.names)))
