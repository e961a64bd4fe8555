"""Prefer nodes with high utilization: NodeResourcesMostAllocated of Kubernetes up to 1.22.

Used by policies and configurations of those releases that score by several strategies of NodeResourcesFit.
"""

from __future__ import annotations

from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.in_tree.common.legacy_allocation import LegacyAllocation
from stowplan.scheduler.in_tree.legacy_node_resources_most_allocated.declaration import DECLARATION


class LegacyNodeResourcesMostAllocated(LegacyAllocation):
    declaration = DECLARATION
    short_name = "most"

    def mean(self, free: Ints, used: Ints) -> Ints:
        return self.weighted_mean(used)
