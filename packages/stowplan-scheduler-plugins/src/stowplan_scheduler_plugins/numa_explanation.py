"""What the cells of a node have of what a pod requests."""

from stowplan.plugins import Explanation, Inspection, Reason
from stowplan_scheduler_plugins.elastic_quotas import quantities
from stowplan_scheduler_plugins.node_topologies import effective_request
from stowplan_scheduler_plugins.numa_columns import MAX_CELLS
from stowplan_scheduler_plugins.numa_fit import STALE
from stowplan_scheduler_plugins.topology_caches import Cache


class NumaExplanation(Explanation):
    def __init__(self, inspection: Inspection, topologies: Cache) -> None:
        super().__init__(inspection)
        self._topologies = topologies
        self._resources = [name for name, wanted in effective_request(inspection.pod).items() if wanted]

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code == STALE.code:
            return "pods were placed there that its agent has not measured yet"
        cells = self._topologies.known(self.inspection.names[row]).cells()[:MAX_CELLS]
        if not cells:
            return "it has no cells"
        parts = []
        for name in self._resources:
            unit = 10**6 if name == "cpu" else 10**9
            having = [quantities({name: cell.available.get(name, 0) // unit})[name] for cell in cells]
            parts.append(f"{', '.join(having)} {name}")
        return f"its cells have {' and '.join(parts)}"
