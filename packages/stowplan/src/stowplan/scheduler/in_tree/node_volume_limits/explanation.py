"""Explain attach limits: which volumes count, and by how much a node exceeds its limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import count, sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Refusal, Remedy, Way, move
from stowplan.scheduler.framework.status import Reason, Status
from stowplan.scheduler.in_tree.node_volume_limits.plugin import TOO_MANY_VOLUMES, NodeVolumeLimits
from stowplan.scheduler.in_tree.node_volume_limits.volumes import CsiVolume


class Excess(NamedTuple):
    """One driver on one node."""

    driver: str
    used: int
    new: int
    limit: int
    #: Attached volumes that no pod uses.
    idle: int

    @property
    def over(self) -> int:
        return self.used + self.new - self.limit

    def __str__(self) -> str:
        idle = f", {self.idle} of them by no pod" if self.idle else ""
        return f"{self.driver}: {self.used} attached{idle}, {self.new} more wanted, limit {self.limit}"


class NodeVolumeLimitsExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: NodeVolumeLimits) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._columns = plugin.columns()
        brought = plugin.brought(inspection.pod, migrated=True)
        self._brought: dict[str, list[CsiVolume]] = {} if isinstance(brought, Status) else brought

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code != TOO_MANY_VOLUMES.code:
            return ""
        return sentence(str(excess) for excess in self.excesses(row))

    def depends_on(self, reason: Reason) -> Columns | None:
        return None if reason.code == TOO_MANY_VOLUMES.code else []

    def of_group(self, refusal: Refusal) -> str:
        """Represented by the node that exceeds its limit the least."""
        if len(refusal.rows) == 1 or all(reason.code != TOO_MANY_VOLUMES.code for reason in refusal.reasons):
            return super().of_group(refusal)
        row = self.closest(refusal.rows)
        return f"closest: {self.inspection.names[row]}, {sentence(str(excess) for excess in self.excesses(row))}"

    def excesses(self, row: int) -> list[Excess]:
        """The drivers whose limit the pod would exceed on a node."""
        found = []
        mounted = self._columns.mounted(row)
        for driver, volumes in self._brought.items():
            limits = self._columns.limits(driver)
            if limits is None:
                continue
            used, new = int(self._plugin.used(driver)[row]), int(self._plugin.new(volumes)[row])
            if new and used + new > limits[row]:
                idle = sum(v.driver == driver and v not in mounted for v in self._columns.attached(row))
                found.append(Excess(driver, used, new, int(limits[row]), idle))
        return found

    def over(self, rows: Rows) -> Ints:
        """By how many volumes the pod would exceed each row's limit."""
        total = np.zeros(len(rows), np.int64)
        for driver, volumes in self._brought.items():
            limits = self._columns.limits(driver)
            if limits is not None:
                new = self._plugin.new(volumes)[rows]
                # In this order, because a missing limit is the largest integer.
                short = new - (limits[rows] - self._plugin.used(driver)[rows])
                total += np.where((new > 0) & (short > 0), short, 0)
        return total

    def closest(self, rows: Rows) -> int:
        return int(rows[int(self.over(rows).argmin())])

    def obstacles(self) -> Iterator[str]:
        valid = np.flatnonzero(self.inspection.valid)
        for driver, volumes in self._brought.items():
            limits = self._columns.limits(driver)
            if limits is None or not len(valid):
                continue
            largest = int(valid[int(limits[valid].argmax())])
            limit = int(limits[largest])
            if limit < len(volumes):
                name = self.inspection.names[largest]
                wanted = count(len(volumes), "volume")
                yield f"the pod has {wanted} of {driver}, and the highest limit of a node ({name}) is {limit}"

    def remedy(self, mask: Mask) -> Remedy:
        return _MovePods(self, mask)

    def freeing(self, row: int) -> list[PodInfo] | None:
        """The fewest pods to remove so that the pod fits a node's limits; None if there are not enough."""
        leaving: list[PodInfo] = []
        for excess in self.excesses(row):
            need = excess.over
            if need > excess.used - excess.idle:
                return None
            alone = self._alone(row, excess.driver)
            for info in sorted(alone, key=lambda info: (-alone[info], info.priority, info.key)):
                if need > 0 and info not in leaving:
                    leaving.append(info)
                    need -= alone[info]
            if need > 0:
                return None
        return leaving

    def _alone(self, row: int, driver: str) -> dict[PodInfo, int]:
        """Pods of the node -> volumes of the driver that no other pod there uses."""
        mounted, attached = self._columns.mounted(row), self._columns.attached(row)
        found: dict[PodInfo, int] = {}
        for info in self.inspection.cluster.row_pods[row]:
            volumes = {self._columns.behind(use).volume for use in info.volume_uses} - {None}
            freed = sum(
                v.driver == driver and mounted.get(v) == 1 and v not in attached for v in volumes if v is not None
            )
            if freed:
                found[info] = freed
        return found


class _MovePods(Remedy):
    """A class for the nodes on which removing pods helps."""

    def __init__(self, explanation: NodeVolumeLimitsExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        rows = np.flatnonzero(mask)
        over = explanation.over(rows)
        for amount in np.unique(over[over > 0]).tolist():
            self.add_class(rows[over == amount])

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        for row in rows.tolist():
            leaving = self._explanation.freeing(row)
            if leaving:
                return [(move(leaving),)]
        return []
