"""Preemption by rules of a plugin's own.

    run = dry_run(self.handle, state, pod, diagnosis, rules)

`rules` say which pods of lower priority may be evicted (`EvictionRules`). The dry run is DefaultPreemption's: it
removes these pods from each node whose rejection that may resolve, and adds them back, most important first, as long as
the pod fits. `run.best` are the nodes that the selection rules rank equal, `run.candidate_on(name)` has the victims.

Where the choice of a victim depends on those chosen before, a plugin tries a node itself (`trial_on`), and has the
candidates ranked (`ranked`).
"""

from collections.abc import Sequence

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import EvictionRules, dry_run_by_rules
from stowplan.scheduler.preemption.node_trial import (
    NodeTrial,
    exceeding_budgets,
    least_important_first,
    most_important_first,
)

__all__ = [
    "Candidate",
    "Candidates",
    "EvictionRules",
    "NodeTrial",
    "dry_run",
    "exceeding_budgets",
    "least_important_first",
    "most_important_first",
    "ranked",
    "trial_on",
]


def dry_run(handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: EvictionRules) -> Candidates:
    """The nodes that would fit the pod after evictions that the rules allow. Nothing is changed."""
    return dry_run_by_rules(rules, _framework(handle), state, pod, diagnosis)


def trial_on(handle: Handle, state: CycleState, pod: PodInfo, node_name: str) -> NodeTrial:
    """A copy of a node from which pods can be removed."""
    return NodeTrial(_framework(handle), state, pod, handle.cluster.table.row_of[node_name])


def ranked(handle: Handle, candidates: Sequence[Candidate], diagnosis: Diagnosis) -> Candidates:
    """Candidates that a plugin found by itself; `failures` of it are counted in its `message`."""
    return Candidates.of(handle.cluster, candidates, diagnosis.nodes)


def _framework(handle: Handle) -> Framework:
    framework = handle.framework
    assert isinstance(framework, Framework)
    return framework
