"""Generate placements of a pod group, one per topology domain.

A domain is the set of nodes with one value of the label in the group's constraint. Once pods of the group are placed,
their domain is the only one.

Upstream: pkg/scheduler/framework/plugins/topologyaware.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.pod_groups import not_found
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import Placement, PlacementGeneratePlugin, PodGroupInfo
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.in_tree.common.pod_groups import without_state
from stowplan.scheduler.in_tree.topology_placement_generator.declaration import DECLARATION

_UNDETERMINED = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    declaration = DECLARATION

    def generate_placements(
        self, group_state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        key, trees = group.key, self.handle.cluster.group_trees
        found = trees.get(key)
        if found is None:
            return error(not_found(key))
        constraints = found.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [parent]
        if not trees.known(key):
            return without_state(key)
        label = constraints.topology[0].key
        required = self._required_domain(key, label)
        if isinstance(required, Status):
            return required
        return self._domains(parent, label, required)

    def _required_domain(self, group: str, label: str) -> str | Status | None:
        """The domain of the group's placed pods; None if there are none."""
        domains = set()
        for pod in self.handle.cluster.group_trees.placed(group):
            node = self.handle.node(pod.node_name)
            if node is None:
                return error(
                    f'{_UNDETERMINED}getting node for pod {pod.key}: nodeinfo not found for node name "{pod.node_name}"'
                )
            domain = node.node.metadata.labels.get(label)
            if domain is None:
                return error(f"{_UNDETERMINED}no topology domain found for pod {pod.key}")
            domains.add(domain)
        if len(domains) > 1:
            return error(f"{_UNDETERMINED}more than 1 domain found for pod group: {', '.join(sorted(domains))}")
        return domains.pop() if domains else None

    @staticmethod
    def _domains(parent: Placement, label: str, required: str | None) -> list[Placement]:
        """The domains within the parent, ordered by their first node there."""
        codes, values = parent.nodes.codes(label), parent.nodes.label(label).values
        # Code 0 means that the node lacks the label.
        firsts = dict.fromkeys(code for code in codes.tolist() if code)
        wanted = [(code, values[code]) for code in firsts if required in (None, values[code])]
        return [parent.restricted(np.asarray(codes == code), value) for code, value in wanted]
