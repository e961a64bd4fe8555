"""Explain host port conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.ports import Port, ports_conflict
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import joined, pods_text, port_text
from stowplan.scheduler.framework.explanations.remedy import Change, Remedy, Way, replace, with_spec
from stowplan.scheduler.framework.status import Reason


class NodePortsExplanation(Explanation):
    def detail(self, row: int, reason: Reason) -> str:
        cluster = self.inspection.cluster
        used = cluster.ports.on(row)
        taken = [port for port in self.inspection.pod.shape.host_ports if ports_conflict((port,), used)]
        holders = [p for p in cluster.row_pods[row] if ports_conflict(taken, p.shape.host_ports)]
        return f"{' '.join(port_text(port) for port in taken)} held by {pods_text(holders)}"

    def depends_on(self, reason: Reason) -> Columns:
        return [self.taken(port) for port in self.inspection.pod.shape.host_ports]

    def taken(self, port: Port) -> Mask:
        """Rows on which a host port is in use."""
        found = np.zeros(self.inspection.table.n, np.bool_)
        found[self.inspection.cluster.ports.conflicting_rows((port,))] = True
        return found

    def remedy(self, mask: Mask) -> Remedy:
        return _DropPorts(self, mask)


class _DropPorts(Remedy):
    def __init__(self, explanation: NodePortsExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        ports = self.inspection.pod.shape.host_ports
        taken = [explanation.taken(port) for port in ports]
        self._parts: dict[int, list[Port]] = {}
        for part in self.alike(np.flatnonzero(mask), taken):
            held = [port for port, column in zip(ports, taken, strict=True) if column[part[0]]]
            if held:
                self._parts[self.add_class(part)] = held

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        return [(_drop_ports(self._parts[kind]),)]


def _drop_ports(ports: Sequence[Port]) -> Change:
    """Drop host ports; the containers keep listening on their own addresses."""
    wanted = {(protocol, number) for _, protocol, number in ports}
    texts = [port_text(port) for port in ports]

    def freed(container: Any) -> Any:
        kept = tuple(
            p if (p.protocol or "TCP", p.host_port) not in wanted else replace(p, host_port=0) for p in container.ports
        )
        return replace(container, ports=kept)

    def edited(pod: Pod) -> Pod:
        spec = pod.spec
        return with_spec(
            pod,
            containers=tuple(freed(c) for c in spec.containers),
            init_containers=tuple(freed(c) for c in spec.init_containers),
        )

    noun = "hostPort" if len(texts) == 1 else "hostPorts"
    text = f"do without {noun} {joined(texts)}"
    return Change("hostPorts", text, {"drop": texts}, edited, cost=len(texts), gives_up=True)
