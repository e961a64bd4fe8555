"""Whether the pods of a group can be scheduled together at all.

They must have one scheduler; since 1.37 also the priority of their group (in a tree, of its root), and one preemption
policy, and those of the group that are on nodes already count as well.

Upstream: validatePodGroup in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.declared_groups import is_declared
from stowplan.scheduler.cluster.pod_groups import AnyGroup, not_found
from stowplan.scheduler.cluster.pod_info import PodInfo, scheduler_name_of
from stowplan.scheduler.cluster.state import ClusterState


def group_problem(state: ClusterState, group: str, pods: Sequence[PodInfo], features: FeatureGates) -> str:
    """Why these pods of a group are not tried together; "" if they are."""
    since_137 = features.emulated_version >= V1_37
    found = state.group_trees.get(group) if since_137 else None
    if since_137 and found is None:
        return not_found(group)
    first = scheduler_name_of(pods[0].pod)
    for info in (*pods, *state.group_trees.placed(group)) if since_137 else pods:
        if (name := scheduler_name_of(info.pod)) != first:
            common = "all pods in a single pod group should have the same .spec.schedulerName set, "
            return f'{common}got: "{name}" and "{first}"'
        if found is not None and not is_declared(found) and (text := _differs(found, info, pods[0], features)):
            return text
    return ""


def _differs(group: AnyGroup, pod: PodInfo, first: PodInfo, features: FeatureGates) -> str:
    """What a pod does not have in common with its group, or with the first pod of it."""
    priority = group.spec.priority or 0
    if pod.priority != priority:
        common = "all pods in a single pod group should have the same priority as the pod group's priority, "
        return f"{common}got {pod.priority} and {priority}"
    policy, common = _policy(first.pod.spec.preemption_policy), "the same preemption policy"
    if features.enabled("PodGroupPreemptionPolicy"):
        policy = _policy(group.spec.preemption_policy)
        common += " as the pod group's preemption policy"
    own = _policy(pod.pod.spec.preemption_policy)
    return "" if own == policy else f"all pods in a single pod group should have {common}, got {own} and {policy}"


def _policy(given: str | None) -> str:
    return given or "PreemptLowerPriority"
