"""Explain untolerated taints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from stowplan.kube.api.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE, tolerates
from stowplan.kube.api.types import Node, Taint, Toleration
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import count, joined, listed, taint_text
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Change, Remedy, Way, one_or_all, replace, with_spec
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.taint_toleration.plugin import TaintToleration

#: Prefixes of taints for node conditions: they are removed when the node recovers, and should not be tolerated.
CONDITION_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class TaintTolerationExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: TaintToleration) -> None:
        super().__init__(inspection)
        self._compares = plugin.handle.features.enabled("TaintTolerationComparisonOperators")

    def detail(self, row: int, reason: Reason) -> str:
        return " ".join(taint_text(taint) for taint in self.untolerated(row))

    def depends_on(self, reason: Reason) -> Columns:
        return [self.inspection.table.taint_set]

    def remedy(self, mask: Mask) -> Remedy:
        return _Tolerate(self, mask)

    def untolerated(self, row: int) -> tuple[Taint, ...]:
        """Taints that make a node infeasible."""
        tolerations = self.inspection.pod.pod.spec.tolerations
        return tuple(
            taint
            for taint in self.inspection.table.taints(row)
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE)
            and not any(tolerates(t, taint, self._compares) for t in tolerations)
        )


class _Tolerate(Remedy):
    """Ordinary taints can be tolerated; those for conditions are removed when the node recovers."""

    def __init__(self, explanation: TaintTolerationExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        table = self.inspection.table
        self._found: dict[int, tuple[Taint, ...]] = {}
        for part in self.alike(np.flatnonzero(mask), (table.taint_set, table.unschedulable)):
            taints = explanation.untolerated(int(part[0]))
            if table.unschedulable[part[0]]:
                # The taint of a cordon is removed with the cordon.
                taints = tuple(taint for taint in taints if taint.key != UNSCHEDULABLE)
            if taints:
                self._found[self.add_class(part)] = taints
            else:
                self.classes[part] = 0

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        conditions = [t for t in self._found[kind] if t.key.startswith(CONDITION_PREFIXES)]
        others = [t for t in self._found[kind] if not t.key.startswith(CONDITION_PREFIXES)]
        tolerating: Way = (_tolerate(others),) if others else ()
        if not conditions:
            return [tolerating]
        recover: Callable[[Sequence[Node]], Change] = partial(_recover, taints=conditions)
        return [(*way, *tolerating) for way in one_or_all(self.inspection, rows, recover)]


def _tolerate(taints: Sequence[Taint]) -> Change:
    tolerations = tuple(
        Toleration(key=t.key, operator="Equal" if t.value else "Exists", value=t.value, effect=t.effect) for t in taints
    )
    return Change(
        "taints",
        f"tolerate {joined([taint_text(taint) for taint in taints])}",
        {"tolerate": [{"key": t.key, "value": t.value, "effect": t.effect} for t in taints]},
        lambda pod: with_spec(pod, tolerations=(*pod.spec.tolerations, *tolerations)),
        cost=len(taints),
    )


def _recover(nodes: Sequence[Node], taints: Sequence[Taint]) -> Change:
    """Remove taints for conditions from nodes."""
    names = [node.metadata.name for node in nodes]
    what = names[0] if len(names) == 1 else f"{count(len(names), 'node')} ({listed(names)})"
    gone = {(taint.key, taint.effect) for taint in taints}

    def healed(node: Node) -> Node:
        kept = tuple(taint for taint in node.spec.taints if (taint.key, taint.effect) not in gone)
        return replace(node, spec=replace(node.spec, taints=kept))

    conditions = joined(list(dict.fromkeys(taint.key.rpartition("/")[2] for taint in taints)))
    data = {"recover": names, "taints": [taint_text(taint) for taint in taints]}
    text = f"get {what} out of {conditions}"
    return Change("nodeCondition", text, data, on_node=healed, nodes=tuple(names), cost=len(names))
