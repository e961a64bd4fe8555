"""A verdict's record with the details of each rejection.

Details are computed on the cluster as the verdict saw it. In a list of verdicts, maps by node only have the best nodes:
three hundred pods on two thousand nodes would be a hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.ask.explain.suggestions.explanations import Explanations, VerdictInspection, inspecting
from stowplan.ask.explain.verdicts.verdict import Verdict, refusals
from stowplan.scheduler.framework.explanations.remedy import Refusal
from stowplan.scheduler.inspection.records import RefusalRecord, VerdictRecord

if TYPE_CHECKING:
    from stowplan.scheduler.engine.engine import Engine

#: Number of nodes that are listed if not all are.
_NAMED = 10


def detailed(engine: Engine, verdict: Verdict) -> VerdictRecord:
    """The record with details of each node. Advice must have been requested before. Raises StaleVerdictError."""
    record = verdict.record()
    if verdict.diagnosis is None or verdict.gated is not None or verdict.error is not None:
        return record
    with inspecting(engine, verdict) as at:
        explanations, groups = Explanations(at), refusals(verdict.diagnosis)
        details = _details(at, explanations, groups)
        rejected = {node: replace(status, detail=details.get(node, "")) for node, status in record.rejected.items()}
        rests_on = {node: explanations.of_scores(at.table.row_of[node]) for node in record.feasible}
        return replace(
            record,
            refusals=_refusals(at, explanations, groups),
            rejected=rejected,
            score_details={node: details for node, details in rests_on.items() if details},
            facts=tuple(explanations.facts()),
        )


def summarized(engine: Engine, verdict: Verdict, alike: Sequence[str] = ()) -> VerdictRecord:
    """The record as one of many: nodes are grouped, and only the best are listed. Raises StaleVerdictError."""
    record = verdict.record(most=_NAMED)
    if verdict.diagnosis is not None and verdict.gated is None and verdict.error is None:
        with inspecting(engine, verdict) as at:
            groups = refusals(verdict.diagnosis)
            record = replace(record, refusals=_refusals(at, Explanations(at), groups))
    preemption = record.preemption
    if preemption is not None:
        kept = (*preemption.selected, *preemption.candidates)[:_NAMED]
        candidates = {name: found for name, found in preemption.candidates.items() if name in kept}
        preemption = replace(preemption, candidates=candidates)
    return replace(record, alike=tuple(alike), preemption=preemption)


def _refusals(
    at: VerdictInspection, explanations: Explanations, groups: Sequence[Refusal]
) -> tuple[RefusalRecord, ...]:
    return tuple(
        RefusalRecord(
            plugin=group.plugin,
            code=group.code.name,
            reasons=tuple(map(str, group.reasons)),
            detail=explanations.of_group(group),
            nodes=len(group.rows),
            names=tuple(at.named(group.rows[:_NAMED])),
        )
        for group in groups
    )


def _details(at: VerdictInspection, explanations: Explanations, groups: Sequence[Refusal]) -> dict[str, str]:
    return {at.names[row]: explanations.of_node(group, row) for group in groups for row in group.rows.tolist()}
