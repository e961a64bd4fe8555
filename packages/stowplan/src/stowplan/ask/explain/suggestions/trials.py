"""Try changes on the cluster in a transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.ask.explain.suggestions.inspection import VerdictInspection
    from stowplan.kube.api.types import Node, Pod
    from stowplan.scheduler.framework.explanations.changes import Change


#: Maximum number of changes that are tried for one pod.
TRIES = 400


@dataclass
class Trials:
    """Evaluates changes, and counts the trials, whose number is limited."""

    inspection: VerdictInspection
    limit: int = TRIES
    #: The rows to gain; None: any.
    only: npt.NDArray[np.bool_] | None = None
    tries: int = field(default=0, init=False)

    @property
    def exhausted(self) -> bool:
        return self.tries >= self.limit

    def changed(self, changes: Sequence[Change]) -> Pod:
        pod = self.inspection.pod.pod
        for change in changes:
            pod = pod if change.on_pod is None else change.on_pod(pod)
        return pod

    def _changed_nodes(self, changes: Sequence[Change]) -> list[Node]:
        found: dict[str, Node] = {}
        table = self.inspection.table
        for change in changes:
            for name in change.nodes:
                node = found.get(name) or table.nodes[table.row_of[name]]
                if node is not None and change.on_node is not None:
                    found[name] = change.on_node(node)
        return list(found.values())

    def feasible(self, changes: Sequence[Change]) -> npt.NDArray[np.intp]:
        """Rows that are feasible after the changes."""
        self.tries += 1
        cluster = self.inspection.cluster
        with cluster.transaction():
            for node in self._changed_nodes(changes):
                cluster.update_node(node)
            for uid in dict.fromkeys(info.uid for change in changes for info in change.leaving):
                cluster.remove_pod(uid)
            for obj in (obj for change in changes for obj in change.objects):
                cluster.put_object(obj)
            feasible = self.inspection.question.feasible(cluster.pod_info(self.changed(changes)))
            return np.flatnonzero(feasible if self.only is None else feasible & self.only)
