"""Score nodes along a line over their utilization: RequestedToCapacityRatio of Kubernetes up to 1.22.

Used by policies and configurations of those releases that score by several strategies of NodeResourcesFit.
"""

from __future__ import annotations

from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.in_tree.common.legacy_allocation import LegacyAllocation
from stowplan.scheduler.in_tree.common.shape_score import ShapePoints, mean_of_positive
from stowplan.scheduler.in_tree.legacy_requested_to_capacity_ratio.declaration import (
    DECLARATION,
    LegacyRequestedToCapacityRatioArgs,
)


class LegacyRequestedToCapacityRatio(LegacyAllocation):
    declaration = DECLARATION
    short_name = "ratio"

    def __init__(self, args: LegacyRequestedToCapacityRatioArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._curve = ShapePoints.scaled(args.shape)

    def mean(self, free: Ints, used: Ints) -> Ints:
        return mean_of_positive(self._curve(100 - free), self.weights)
