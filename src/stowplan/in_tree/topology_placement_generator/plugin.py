"""Propose placements of a pod group, one per topology domain.

Not built yet: groups are rejected.

Upstream: pkg/scheduler/framework/plugins/topologyaware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.framework.interface import PlacementGeneratePlugin
from stowplan.framework.status import Status, unresolvable
from stowplan.in_tree.common.not_built import NOT_BUILT, PODS_OF_GROUPS
from stowplan.in_tree.topology_placement_generator.declaration import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.framework.cycle_state import CycleState


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    name = "TopologyPlacementGenerator"
    declaration = DECLARATION

    def generate_placements(self, group_state: CycleState, group: Any, parent: Any) -> Sequence[Any] | Status:
        return unresolvable(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name))
