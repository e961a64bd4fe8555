"""What preemption would do about a pod, as plain data: a dry run's candidates name pods that may move on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.preemption.candidates import Candidate
    from stowplan.preemption.plan import PreemptionOutcome


@dataclass(frozen=True)
class Victim:
    """A pod that would be evicted."""

    key: str
    priority: int


@dataclass(frozen=True)
class Eviction:
    """A node that would take the pod once its victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[Victim, ...]
    pdb_violations: int


@dataclass(frozen=True)
class Preemption:
    """The outcome of a dry run over all nodes, or why there was none."""

    #: Why the pod may not preempt; "" when it may.
    ineligible_reason: str = ""
    #: What stopped the dry run; "" when nothing did.
    error: str = ""
    #: By node.
    candidates: Mapping[str, Eviction] = field(default_factory=dict)
    #: The nodes among which the rules leave the choice.
    best: tuple[str, ...] = ()
    #: The choice; None when eviction does not help.
    selected: Eviction | None = None
    #: Reason -> nodes that were tried in vain.
    failures: Mapping[str, int] = field(default_factory=dict)
    #: Nodes on which eviction was tried, of all nodes.
    tried: int = 0
    nodes: int = 0


def preemption_of(outcome: PreemptionOutcome) -> Preemption:
    """Everything worked out as the cluster is now."""
    run, selected = outcome.run, outcome.selected
    if run is None:
        return Preemption(outcome.ineligible_reason)
    return Preemption(
        error="" if run.error is None else run.error.message,
        candidates={name: _eviction(candidate) for name, candidate in run.candidates.items()},
        best=tuple(run.best),
        selected=None if selected is None else _eviction(selected),
        failures=dict(run.failures),
        tried=run.tried,
        nodes=run.nodes_total,
    )


def _eviction(candidate: Candidate) -> Eviction:
    victims = tuple(Victim(info.key, info.priority) for info in candidate.victims)
    return Eviction(candidate.node_name, victims, candidate.pdb_violations)
