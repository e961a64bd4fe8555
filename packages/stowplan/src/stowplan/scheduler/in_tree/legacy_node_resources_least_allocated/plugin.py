"""Prefer nodes with low utilization: NodeResourcesLeastAllocated of Kubernetes up to 1.22.

Used by policies and configurations of those releases that score by several strategies of NodeResourcesFit.
"""

from __future__ import annotations

from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.in_tree.common.legacy_allocation import LegacyAllocation
from stowplan.scheduler.in_tree.legacy_node_resources_least_allocated.declaration import DECLARATION


class LegacyNodeResourcesLeastAllocated(LegacyAllocation):
    declaration = DECLARATION
    short_name = "least"

    def mean(self, free: Ints, used: Ints) -> Ints:
        return self.weighted_mean(free)
