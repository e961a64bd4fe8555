"""Preemption by rules of a plugin's own.

    run = dry_run(self.handle, state, pod, diagnosis, rules)

`rules` say which pods of lower priority may be evicted (`EvictionRules`). The dry run is DefaultPreemption's: it
removes these pods from each node whose rejection that may resolve, and adds them back, most important first, as long as
the pod fits. `run.best` are the nodes that the selection rules rank equal, `run.candidate_on(name)` has the victims.

Where the choice of a victim depends on those chosen before, or limits hold beside the filters, `NodeRules` count what
is evicted on each node (`dry_run_by_node`), in arrays over all nodes.

For a group of pods that are scheduled as a whole, `evict_for_group` finds the plan.
"""

from collections.abc import Callable, Sequence

from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.eviction_plan import Candidate, GroupEvictionPlan
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PodGroupPostFilterSteps,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import EvictionRules, NodeRules, dry_run_by_rules
from stowplan.scheduler.preemption.dry_run import dry_run_by_node as _dry_run_by_node
from stowplan.scheduler.preemption.eligibility import ONGOING, ineligible_in_group, nominated_with_victims
from stowplan.scheduler.preemption.victims import PodsOnNodes
from stowplan.scheduler.preemption.workloads import Unit, units_for, victims_among

__all__ = [
    "Candidate",
    "Candidates",
    "EvictionRules",
    "NodeRules",
    "PodsOnNodes",
    "dry_run",
    "dry_run_by_node",
    "evict_for_group",
    "preempts_with_group",
]


def dry_run(handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: EvictionRules) -> Candidates:
    """The nodes that would fit the pod after evictions that the rules allow. Nothing is changed."""
    return dry_run_by_rules(rules, _framework(handle), state, pod, diagnosis)


def dry_run_by_node(
    handle: Handle, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, rules: NodeRules
) -> Candidates:
    """The same, by rules that count what is evicted on each node."""
    return _dry_run_by_node(rules, _framework(handle), state, pod, diagnosis)


def preempts_with_group(handle: Handle, pod: PodInfo) -> bool:
    """Whether the pod's group is helped as a whole (`evict_for_group`), so that the pod must not preempt by itself."""
    return bool(ineligible_in_group(handle.cluster, pod, handle.features))


def evict_for_group(
    plugin: PodGroupPostFilterPlugin,
    group: AnyGroup,
    pods: Sequence[PodInfo],
    may_evict: Callable[[PodInfo], bool],
    *,
    pods_only_take_room: bool,
) -> PodGroupPostFilterSteps:
    """The result of `pod_group_post_filter`: evict as few and as unimportant pods as possible, if the group then fits.

    `may_evict` is asked about each pod on a node that is not of the group, the least important one first, so that it
    may count. While pods that were evicted for the group terminate, nothing more is evicted.
    """
    cluster, features = plugin.handle.cluster, plugin.handle.features
    if nominations := nominated_with_victims(cluster, pods, lambda victim: True):
        return PodGroupPostFilterResult(Status(Code.Success, (ONGOING,)), nominations=nominations)
    units = sorted(units_for(cluster, group, features), key=Unit.importance, reverse=True)
    evictable = [unit for unit in units if all(may_evict(pod) for pod in unit.pods)]
    found = yield from victims_among(evictable, cluster, features, pods_only_take_room)
    if isinstance(found, Status):
        return PodGroupPostFilterResult(found)
    plan = GroupEvictionPlan(
        group=group,
        pods=tuple(pods),
        victims=found.pods,
        plugin=plugin.name,
        pdb_violations=found.pdb_violations,
    )
    return PodGroupPostFilterResult(Status(Code.Success), plan)


def _framework(handle: Handle) -> Framework:
    framework = handle.framework
    assert isinstance(framework, Framework)
    return framework
