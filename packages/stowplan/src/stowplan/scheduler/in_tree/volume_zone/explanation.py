"""Explain zone conflicts between volumes and nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import count, joined, sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.status import Reason, Status
from stowplan.scheduler.in_tree.volume_zone.hints import ZONE_LABELS, zones_of
from stowplan.scheduler.in_tree.volume_zone.plugin import ZONE_CONFLICT, Demand, VolumeZone, elsewhere

_SHORT = {"topology.kubernetes.io/zone": "zone", "topology.kubernetes.io/region": "region"}


class VolumeZoneExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: VolumeZone) -> None:
        super().__init__(inspection)
        demands = plugin.demands(inspection.pod)
        self._demands: tuple[Demand, ...] = () if isinstance(demands, Status) else demands
        self._volumes = [
            (f"volume {volume.metadata.name} of claim {claim}", zones_of(volume))
            for claim, volume in plugin.volumes(inspection.pod)
        ]

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code != ZONE_CONFLICT.code:
            return ""
        return sentence(
            f"{name} is in {_demand_text(demand)}, {self._where(row, demand[0])}"
            for name, demands in self._volumes
            for demand in demands
            if self._elsewhere(demand)[row]
        )

    def depends_on(self, reason: Reason) -> Columns:
        return [self.inspection.table.label(key).codes for key in ZONE_LABELS]

    def _where(self, row: int, key: str) -> str:
        node = self.inspection.domain(key, row) or self.inspection.domain(_todays(key), row)
        return f"the node in {node}" if node else f"the node says no {_SHORT[_todays(key)]}"

    def _elsewhere(self, demand: Demand) -> Mask:
        return elsewhere(self.inspection.table, (demand,))

    def obstacles(self) -> Iterator[str]:
        valid = self.inspection.valid
        if not self._demands or not valid.any():
            return
        lost = [demand for demand in self._demands if not (valid & ~self._elsewhere(demand)).any()]
        for name, demands in self._volumes:
            for demand in demands:
                if demand in lost:
                    yield f"{name} is in {_demand_text(demand)}, and no node is there"
        there = valid & ~elsewhere(self.inspection.table, self._demands)
        if lost:
            return
        if not there.any():
            yield f"no node is where all of the pod's volumes are: {joined(self._places())}"
        elif not (there & self._taking()).any():
            yield self._full(there)

    def _places(self) -> list[str]:
        return [
            f"{name} in {joined([_demand_text(demand) for demand in demands])}"
            for name, demands in self._volumes
            if demands
        ]

    def _taking(self) -> Mask:
        """Rows that no plugin rejects."""
        refused = np.zeros(self.inspection.table.n, np.bool_)
        for mask in self.inspection.masks.values():
            refused |= mask
        return ~refused

    def _full(self, there: Mask) -> str:
        """Why none of the nodes in the volumes' zones is feasible."""
        by_plugin = {name: int((mask & there).sum()) for name, mask in self.inspection.masks.items()}
        ranked = sorted(((n, name) for name, n in by_plugin.items() if n), key=lambda item: (-item[0], item[1]))
        refusing = joined([f"{name} ({n:,})" for n, name in ranked])
        number = int(there.sum())
        where = f"where the pod's volumes are ({'; '.join(self._places())})"
        if number == 1:
            return f"the only node {where} does not take the pod: refused by {refusing}"
        return f"none of the {count(number, 'node')} {where} takes the pod: refused by {refusing}"


def _todays(key: str) -> str:
    return ZONE_LABELS[2] if key.endswith("/zone") else ZONE_LABELS[3]


def _demand_text(demand: Demand) -> str:
    key, values = demand
    return f"{_SHORT[_todays(key)]} {' or '.join(sorted(values))}"
