"""Prefer placements that take more pods of a group.

Not built yet: pods of groups are rejected earlier.

Upstream: pkg/scheduler/framework/plugins/podgrouppodscount.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.framework.interface import PlacementScorePlugin
from stowplan.framework.status import Status, error
from stowplan.in_tree.common.not_built import NOT_BUILT, PODS_OF_GROUPS
from stowplan.in_tree.pod_group_pods_count.declaration import DECLARATION

if TYPE_CHECKING:
    from stowplan.framework.cycle_state import CycleState


class PodGroupPodsCount(PlacementScorePlugin):
    name = "PodGroupPodsCount"
    declaration = DECLARATION

    def score_placement(self, group_state: CycleState, group: Any, assignments: Any) -> int | Status:
        return error(str(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name)))
