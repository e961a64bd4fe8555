"""Compare one bind of another scheduler with our verdict on the same state.

They agree if the node is among the best here. If there are several best nodes, the choice is random: a tie. If they do
not agree, the reason is determined: the plugins that score the two nodes differently, or the one that rejects the other
scheduler's node.

Two kinds of pods are excluded, because there is no valid comparison: those for which an extender is interested that was
not called, and those for which all better nodes may have been outside of the other scheduler's sample
(percentageOfNodesToScore). The sample itself is unknown, only its size: a pod is a difference as soon as one of the
better nodes must have been in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import numpy as np
from msgspec import field
from msgspec.structs import replace

from stowplan.ask.explain.judging import judged
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.questions import is_interested
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework


class Kind(Enum):
    #: The same node, and the only best one.
    SAME = "same"
    #: The other scheduler's node is one of several best ones.
    TIE = "tie"
    #: Another node has a higher score.
    SCORE = "score"
    #: A plugin rejects the other scheduler's node.
    REFUSED = "refused"
    #: No node is feasible.
    NOWHERE = "nowhere"
    #: The other scheduler's node is unknown.
    UNKNOWN_NODE = "unknown node"
    #: A plugin failed.
    ERROR = "error"
    #: Another node has a higher score, but may not have been in the other scheduler's sample.
    SAMPLE = "sample"
    #: An extender is interested, and was not called.
    EXTENDER = "extender"

    @property
    def agrees(self) -> bool:
        return self in (Kind.SAME, Kind.TIE)

    @property
    def differs(self) -> bool:
        return not self.agrees and self not in (Kind.SAMPLE, Kind.EXTENDER)


class Comparison(PlainStruct, frozen=True, kw_only=True):
    kind: Kind
    #: The other scheduler's node, and the best one here; the first of several.
    node: str
    best: str = ""
    #: Number of best nodes here.
    equals: int = 0
    #: Plugin -> by how much it scores the best node higher than the other scheduler's, weighted; non-zero ones only.
    by_plugin: dict[str, int] = field(default_factory=dict)
    #: The rejecting plugin, and its message.
    plugin: str = ""
    reason: str = ""
    #: Whether extenders were called.
    extenders_called: bool = False

    def text(self) -> str:
        """Why they differ."""
        if self.kind in (Kind.SCORE, Kind.SAMPLE):
            plugins = ", ".join(f"{name} {points:+}" for name, points in self.by_plugin.items())
            return f"{self.best} scores {sum(self.by_plugin.values()):+} over {self.node}: {plugins}"
        if self.kind is Kind.EXTENDER:
            return f"extender {self.plugin} is interested in it, and was not called"
        if self.kind is Kind.REFUSED:
            return f"{self.plugin} refuses {self.node}: {self.reason}"
        return {Kind.NOWHERE: f"no node takes the pod: {self.reason}", Kind.ERROR: self.reason}.get(
            self.kind, f"node {self.node} is not known" if self.kind is Kind.UNKNOWN_NODE else ""
        )


def compared(
    engine: Engine, framework: Framework, pod: PodInfo, node: str, *, ask: Callable[[Ask], Outcome] | None = None
) -> Comparison:
    """The pod must not be on a node in the engine's state; no side effects. `ask` of None: skip extenders."""
    table = engine.state.table
    row = table.row_of.get(node)
    if row is None:
        return Comparison(kind=Kind.UNKNOWN_NODE, node=node)
    for extender in framework.handle.extenders():
        if (extender.filters or extender.prioritizes) and is_interested(extender, pod):
            if ask is None:
                return Comparison(kind=Kind.EXTENDER, node=node, plugin=extender.name)
            return _with_extenders(engine, framework, pod, row, ask)
    evaluation = engine.algorithm.evaluation(framework, pod)
    outcome = evaluation.filter(pod)
    if outcome.error is not None:
        return Comparison(kind=Kind.ERROR, node=node, reason=outcome.error.message)
    feasible = outcome.feasible
    if not feasible[row]:
        # Cached evaluations have no reasons.
        evaluation, outcome = engine.algorithm.filtered(framework, pod)
        return _refused(table.names, row, feasible, outcome.diagnosis or evaluation.diagnosis(outcome.refused))
    if np.count_nonzero(feasible) == 1 or engine.algorithm.row_tried_first(pod) == row:
        # It is chosen without scoring.
        return Comparison(kind=Kind.SAME, node=node, best=node, equals=1)
    scored = engine.algorithm.score(framework, evaluation, pod, feasible)
    if scored.error is not None:
        return Comparison(kind=Kind.ERROR, node=node, reason=scored.error.message)
    return _by_score(engine, framework, row, scored.ranked, scored.by_plugin())


def _with_extenders(
    engine: Engine, framework: Framework, pod: PodInfo, row: int, ask: Callable[[Ask], Outcome]
) -> Comparison:
    names = engine.state.table.names
    verdict = judged(engine, pod, ask=ask)
    failed = verdict.error or verdict.gated
    if failed is not None:
        return Comparison(kind=Kind.ERROR, node=names[row], reason=failed.message, extenders_called=True)
    feasible = verdict.feasible
    if not feasible[row]:
        assert verdict.diagnosis is not None, "some node was refused"
        return replace(_refused(names, row, feasible, verdict.diagnosis), extenders_called=True)
    if np.count_nonzero(feasible) == 1 or (verdict.nominated and verdict.node_name == names[row]):
        return Comparison(kind=Kind.SAME, node=names[row], best=names[row], equals=1, extenders_called=True)
    ranked = np.where(feasible, verdict.totals, INFEASIBLE)
    return replace(_by_score(engine, framework, row, ranked, verdict.scores), extenders_called=True)


def _by_score(
    engine: Engine,
    framework: Framework,
    row: int,
    ranked: Ints,
    scores: Mapping[str, Ints],
) -> Comparison:
    """`ranked`: INFEASIBLE for infeasible rows."""
    table = engine.state.table
    best = int(ranked.argmax())
    equals = int(np.count_nonzero(ranked == ranked[best]))
    if ranked[row] == ranked[best]:
        kind = Kind.SAME if equals == 1 else Kind.TIE
        return Comparison(kind=kind, node=table.names[row], best=table.names[best], equals=equals)
    more = {name: int(points[best] - points[row]) for name, points in scores.items()}
    differing = sorted((one for one in more.items() if one[1]), key=lambda one: -abs(one[1]))
    no_better = int(np.count_nonzero((ranked <= ranked[row]) & (ranked != INFEASIBLE)))
    fills_a_sample = no_better >= engine.algorithm.sampling.wanted(framework, table.count)
    return Comparison(
        kind=Kind.SAMPLE if fills_a_sample else Kind.SCORE,
        node=table.names[row],
        best=table.names[best],
        equals=equals,
        by_plugin=dict(differing),
        plugin=differing[0][0],
    )


def _refused(names: Sequence[str], row: int, feasible: Mask, diagnosis: Diagnosis) -> Comparison:
    """Why the other scheduler's node is infeasible."""
    status = diagnosis.status(row)
    plugin = "" if status is None else status.plugin
    if not feasible.any():
        return Comparison(kind=Kind.NOWHERE, node=names[row], plugin=plugin, reason=diagnosis.message())
    reason = "" if status is None else status.message
    best = names[int(feasible.argmax())]
    return Comparison(kind=Kind.REFUSED, node=names[row], best=best, plugin=plugin, reason=reason)
