"""Compare one bind of another scheduler with our verdict on the same state.

They agree where the node is among the best here. If several are, which one it is is chance: a tie. Where they do not
agree, the reason is named: the plugins that score the two nodes differently, or the one that refuses the other's node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from stowplan.engine.algorithm import row_tried_first, scored_nodes

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.engine import Engine
    from stowplan.framework.runtime import Framework


class Kind(Enum):
    #: The same node, and the only best one.
    SAME = "same"
    #: The other's node is one of several that are equally good.
    TIE = "tie"
    #: Another node has a higher score.
    SCORE = "score"
    #: A plugin refuses the other's node.
    REFUSED = "refused"
    #: No node takes the pod.
    NOWHERE = "nowhere"
    #: The other's node is not known.
    UNKNOWN_NODE = "unknown node"
    #: A plugin failed.
    ERROR = "error"

    @property
    def agrees(self) -> bool:
        return self in (Kind.SAME, Kind.TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    kind: Kind
    #: The other's node, and the best one here; the first of several.
    node: str
    best: str = ""
    #: How many are equally good here.
    equals: int = 0
    #: Plugin -> what it gives the best node more than the other's, weighted; where they differ.
    by_plugin: dict[str, int] = field(default_factory=dict)
    #: The plugin that refuses, and its words.
    plugin: str = ""
    reason: str = ""

    def text(self) -> str:
        """Why they differ."""
        if self.kind is Kind.SCORE:
            plugins = ", ".join(f"{name} {points:+}" for name, points in self.by_plugin.items())
            return f"{self.best} scores {sum(self.by_plugin.values()):+} over {self.node}: {plugins}"
        if self.kind is Kind.REFUSED:
            return f"{self.plugin} refuses {self.node}: {self.reason}"
        return {Kind.NOWHERE: f"no node takes the pod: {self.reason}", Kind.ERROR: self.reason}.get(
            self.kind, f"node {self.node} is not known" if self.kind is Kind.UNKNOWN_NODE else ""
        )


def compared(engine: Engine, framework: Framework, pod: PodInfo, node: str) -> Comparison:
    """The pod is not in the engine's state with a node; nothing changes."""
    algorithm, table = engine.algorithm, engine.state.table
    row = table.row_of.get(node)
    if row is None:
        return Comparison(kind=Kind.UNKNOWN_NODE, node=node)
    evaluation = algorithm.evaluation(framework, pod)
    outcome = evaluation.filter(pod)
    if outcome.error is not None:
        return Comparison(kind=Kind.ERROR, node=node, reason=outcome.error.message)
    feasible = outcome.feasible
    if not feasible[row]:
        return _refused(engine, framework, pod, row, feasible)
    count = int(np.count_nonzero(feasible))
    if count == 1 or row_tried_first(engine.state, pod) == row:
        # It is taken without scoring.
        return Comparison(kind=Kind.SAME, node=node, best=node, equals=1)
    scored = scored_nodes(framework, evaluation, pod, feasible)
    if scored.error is not None:
        return Comparison(kind=Kind.ERROR, node=node, reason=scored.error.message)
    ranked = scored.ranked
    best = int(ranked.argmax())
    equals = int(np.count_nonzero(ranked == ranked[best]))
    if ranked[row] == ranked[best]:
        kind = Kind.SAME if equals == 1 else Kind.TIE
        return Comparison(kind=kind, node=node, best=table.names[best], equals=equals)
    more = {name: int(points[best] - points[row]) for name, points in scored.by_plugin().items()}
    differing = sorted((one for one in more.items() if one[1]), key=lambda one: -abs(one[1]))
    return Comparison(
        kind=Kind.SCORE,
        node=node,
        best=table.names[best],
        equals=equals,
        by_plugin=dict(differing),
        plugin=differing[0][0],
    )


def _refused(
    engine: Engine, framework: Framework, pod: PodInfo, row: int, feasible: npt.NDArray[np.bool_]
) -> Comparison:
    """Why the other's node is none of the feasible ones."""
    node = engine.state.table.names[row]
    # Evaluations that are kept up to date have no reasons.
    evaluation, outcome = engine.algorithm.filtered(framework, pod)
    diagnosis = outcome.diagnosis or evaluation.diagnosis(outcome.refused)
    status = diagnosis.status(row)
    plugin = "" if status is None else status.plugin
    if not feasible.any():
        return Comparison(kind=Kind.NOWHERE, node=node, plugin=plugin, reason=diagnosis.message())
    reason = "" if status is None else status.message
    best = engine.state.table.names[int(feasible.argmax())]
    return Comparison(kind=Kind.REFUSED, node=node, best=best, plugin=plugin, reason=reason)
