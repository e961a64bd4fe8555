"""Explain cordoned nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.kube.api.taints import UNSCHEDULABLE
from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Change, Remedy, Way, one_or_all, replace
from stowplan.scheduler.framework.status import Reason


class NodeUnschedulableExplanation(Explanation):
    def detail(self, row: int, reason: Reason) -> str:
        return "cordoned"

    def depends_on(self, reason: Reason) -> Columns:
        return []

    def remedy(self, mask: Mask) -> Remedy:
        return _Uncordon(self.inspection, mask)


class _Uncordon(Remedy):
    def __init__(self, inspection: Inspection, mask: Mask) -> None:
        super().__init__(inspection, mask)
        if mask.any():
            self.add_class(np.flatnonzero(mask))

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        return one_or_all(self.inspection, rows, _uncordon)


def _uncordon(nodes: Sequence[Node]) -> Change:
    names = [node.metadata.name for node in nodes]
    what = names[0] if len(names) == 1 else f"{count(len(names), 'node')} ({listed(names)})"
    return Change(
        "cordon", f"uncordon {what}", {"uncordon": names}, on_node=_opened, nodes=tuple(names), cost=len(names)
    )


def _opened(node: Node) -> Node:
    kept = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
    return replace(node, spec=replace(node.spec, taints=kept, unschedulable=False))
