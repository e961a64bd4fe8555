"""Preemption by rules of a plugin's own.

    run = dry_run(self.handle, state, pod, diagnosis, rules)

`rules` say which pods of lower priority may be evicted (`EvictionRules`). The dry run is DefaultPreemption's: it
removes these pods from each node whose rejection that may resolve, and adds them back, most important first, as long as
the pod fits. `run.best` are the nodes that the selection rules rank equal, `run.candidate_on(name)` has the victims.
"""

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import EvictionRules, dry_run_by_rules

__all__ = ["Candidates", "EvictionRules", "dry_run"]


def dry_run(handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: EvictionRules) -> Candidates:
    """The nodes that would fit the pod after evictions that the rules allow. Nothing is changed."""
    framework = handle.framework
    assert isinstance(framework, Framework)
    return dry_run_by_rules(rules, framework, state, pod, diagnosis)
