"""Explain the dry run: candidates, or why preemption does not help."""

from __future__ import annotations

from stowplan.scheduler.framework.explanations.formatting import count, joined
from stowplan.scheduler.framework.explanations.preemption import Preemption, eviction
from stowplan.scheduler.in_tree.default_preemption.plugin import PreemptionOutcome
from stowplan.scheduler.preemption.candidates import NO_VICTIMS, NOT_HELPFUL, Candidates


def preemption_of(outcome: PreemptionOutcome) -> Preemption:
    """All details, computed for the current cluster."""
    run = outcome.run
    if run is None:
        return Preemption(outcome.ineligible_reason)
    found = run.candidates.items()
    return Preemption(
        error="" if run.error is None else run.error.message,
        candidates={name: eviction(name, candidate.victims, candidate.pdb_violations) for name, candidate in found},
        best=tuple(run.best),
        unhelpful=_unhelpful(run),
    )


def _unhelpful(run: Candidates) -> str:
    parts = []
    for reason, number in sorted(run.failures.items(), key=lambda item: (-item[1], item[0])):
        nodes = count(number, "node")
        if reason == NO_VICTIMS:
            parts.append(f"no pod of lower priority on {nodes}")
        else:
            parts.append(f'still "{reason}" on {nodes} without all pods of lower priority')
    untried = run.nodes_total - run.tried + run.failures.get(NOT_HELPFUL, 0)
    if untried:
        parts.append(f"nothing that eviction could change on {count(untried, 'node')}")
    return joined(parts) if parts else "there is no pod to evict"
