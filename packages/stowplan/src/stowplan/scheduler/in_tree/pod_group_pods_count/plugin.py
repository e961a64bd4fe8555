"""Prefer placements that fit more pods of the group.

Upstream: pkg/scheduler/framework/plugins/podgrouppodscount.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import MAX_SCORE, PlacementScorePlugin, PodGroupAssignments, PodGroupInfo
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.in_tree.common.pod_groups import without_state
from stowplan.scheduler.in_tree.pod_group_pods_count.declaration import DECLARATION


class PodGroupPodsCount(PlacementScorePlugin):
    declaration = DECLARATION

    def score_placement(
        self, group_state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int | Status:
        key, trees = group.key, self.handle.cluster.group_trees
        if not trees.known(key):
            return without_state(key)
        return len(trees.placed(key)) + len(assignments.proposed)

    def normalize_placements(
        self, group_state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> Sequence[int] | Status:
        most = max(scores)
        if not most:
            return error("no pods from pod group are assigned to any of the candidate placements")
        return [MAX_SCORE * score // most for score in scores]
