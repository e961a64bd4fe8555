"""What pods and nodes use of cpu and memory, by the workloads' `usage`; without it, half of what is requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stowplan.ask.rebalance.policy.measured_use import MeasuredUse
from stowplan.kube.api.pod import PodSpec
from stowplan_cluster.reconcile.usage import (
    RESOURCES,
    Consumer,
    ContainerAmounts,
    Load,
    amounts_of,
    measured,
    running_containers,
)
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.nodes.running_pods import Kubelets
from stowplan_lab.simulation.simulation_context import SimulationContext


class ModelledUse:
    def __init__(self, context: SimulationContext, fleet: Fleet, kubelets: Kubelets) -> None:
        self._context = context
        self._fleet = fleet
        self._kubelets = kubelets
        #: By workload.
        self.loads: Mapping[str, Load] = {}
        #: By the spec's id; it is kept, so that the id stays valid.
        self._containers: dict[int, tuple[PodSpec, Sequence[ContainerAmounts]]] = {}

    @property
    def is_given(self) -> bool:
        """Whether the scenario says what any workload uses."""
        return any(self.loads.values())

    def now(self) -> MeasuredUse:
        """Of running pods, and of nodes whose kubelets work."""
        now = self._context.now
        running = [entry for entry in self._context.ledger.entries() if entry.node and entry.starts <= now]
        sharing = Counter(entry.origin.workload for entry in running)
        #: Equal pods of a workload use the same.
        known: dict[tuple[str, int], dict[str, int]] = {}
        works = self._kubelets.works
        found = MeasuredUse({name: {"cpu": 0, "memory": 0} for name in self._fleet.nodes if works(name)}, {})
        for entry in (one for one in running if works(one.node)):
            workload, spec = entry.origin.workload, entry.pod.spec
            used = known.get((workload, id(spec)))
            if used is None:
                used = known[workload, id(spec)] = self._of_pod(spec, workload, sharing[workload])
            found.pods[entry.key] = used
            of_node = found.nodes[entry.node]
            for name, amount in used.items():
                of_node[name] += amount
        return found

    def busiest(self) -> dict[str, float]:
        """Resource -> the highest load of a node, as a share of what it can allocate."""
        table, nodes = self._context.state.table, self.now().nodes
        rows = [(table.row_of[name], used) for name, used in nodes.items() if name in table.row_of]
        found = {}
        for name in RESOURCES:
            have = table.allocatable[table.resources[name]].tolist()
            found[name] = round(max((used[name] / have[row] for row, used in rows if have[row]), default=0.0), 6)
        return found

    def _of_pod(self, spec: PodSpec, workload: str, sharing: int) -> dict[str, int]:
        """CPU in milli-units, memory in bytes."""
        kept = self._containers.get(id(spec))
        if kept is None:
            containers = amounts_of(running_containers(spec.containers, spec.init_containers))
            kept = self._containers[id(spec)] = spec, containers
        now = self._context.now
        consumer = Consumer("", kept[1], now, ready=True)
        found = measured(consumer, self.loads.get(workload, {}), sharing, now).containers.values()
        used = {name: sum(one.get(name, 0) for one in found) for name in RESOURCES}
        used["memory"] //= 1000
        return used
