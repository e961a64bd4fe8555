"""Preemption by rules of a plugin's own.

    run = dry_run(self.handle, state, pod, diagnosis, rules)

`rules` say which pods of lower priority may be evicted (`EvictionRules`). The dry run is DefaultPreemption's: it
removes these pods from each node whose rejection that may resolve, and adds them back, most important first, as long as
the pod fits. `run.best` are the nodes that the selection rules rank equal, `run.candidate_on(name)` has the victims.

Where the choice of a victim depends on those chosen before, or limits hold beside the filters, `NodeRules` count what
is evicted on each node (`dry_run_by_node`), in arrays over all nodes.
"""

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import EvictionRules, NodeRules, dry_run_by_rules
from stowplan.scheduler.preemption.dry_run import dry_run_by_node as _dry_run_by_node
from stowplan.scheduler.preemption.victims import PodsOnNodes

__all__ = [
    "Candidate",
    "Candidates",
    "EvictionRules",
    "NodeRules",
    "PodsOnNodes",
    "dry_run",
    "dry_run_by_node",
]


def dry_run(handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: EvictionRules) -> Candidates:
    """The nodes that would fit the pod after evictions that the rules allow. Nothing is changed."""
    return dry_run_by_rules(rules, _framework(handle), state, pod, diagnosis)


def dry_run_by_node(
    handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: NodeRules
) -> Candidates:
    """The same, by rules that count what is evicted on each node."""
    return _dry_run_by_node(rules, _framework(handle), state, pod, diagnosis)


def _framework(handle: Handle) -> Framework:
    framework = handle.framework
    assert isinstance(framework, Framework)
    return framework
