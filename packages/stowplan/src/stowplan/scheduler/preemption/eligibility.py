"""Which pods may preempt.

Upstream: PodEligibleToPreemptOthers in pkg/scheduler/framework/plugins/defaultpreemption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.kube.api.types import Pod, PodGroup
from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.status import Code

NO_GROUP = "pod group for pod not found"
PLACED_GROUP = "not eligible due to placement-based pod group scheduling limitation"
WITH_ITS_GROUP = "not eligible due to workload aware preemption enabled"
NEVER = "not eligible due to preemptionPolicy=Never."
ONGOING = "ongoing preemption on nominated nodes"
STILL_TERMINATING = "not eligible due to a terminating pod on the nominated node."


def ineligible_in_group(cluster: ClusterState, pod: PodInfo, features: FeatureGates) -> str:
    """Why a pod that is scheduled with its group may not preempt by itself; "" if it may."""
    if pod.pod.spec.scheduling_group is None:
        return ""
    if features.emulated_version < V1_37 and features.enabled("TopologyAwareWorkloadScheduling"):
        group = cluster.objects.get(PodGroup, group_key(pod.pod))
        if group is None:
            return NO_GROUP
        if group.spec.scheduling_constraints is not None:
            return PLACED_GROUP
    return WITH_ITS_GROUP if features.enabled("WorkloadAwarePreemption") else ""


def ineligible_reason(cluster: ClusterState, pod: PodInfo, diagnosis: Diagnosis, features: FeatureGates) -> str:
    """Why the pod may not preempt; "" if it may."""
    if pod.pod.spec.preemption_policy == "Never":
        return NEVER
    # A nomination in memory may not have reached the API server yet: ignoring it would preempt twice.
    nominated = cluster.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
    if not nominated:
        return ""
    row = cluster.table.row_of.get(nominated)
    status = diagnosis.status(row) if row is not None else diagnosis.absent
    if status is not None and status.code == Code.UnschedulableAndUnresolvable:
        # The nominated node can no longer fit the pod: preempt elsewhere.
        return ""
    victims = cluster.row_pods[row] if row is not None else ()
    by_group = features.emulated_version >= V1_37 and features.enabled("GenericWorkload")
    if any(
        _terminates_by_preemption(v.pod)
        and (disruption_priority(cluster, v) if by_group else v.priority) < pod.priority
        for v in victims
    ):
        return STILL_TERMINATING
    return ""


def never_preempts(group: AnyGroup, pods: Sequence[PodInfo], features: FeatureGates) -> bool:
    if features.enabled("PodGroupPreemptionPolicy"):
        return group.spec.preemption_policy == "Never"
    return any(info.pod.spec.preemption_policy == "Never" for info in pods)


def ongoing_preemption(cluster: ClusterState, group: AnyGroup, pods: Sequence[PodInfo]) -> dict[str, str]:
    """The nominations of a group's pods, by UID, while less important pods terminate on one of these nodes."""
    priority = group.spec.priority or 0
    return nominated_with_victims(cluster, pods, lambda victim: disruption_priority(cluster, victim) < priority)


def nominated_with_victims(
    cluster: ClusterState, pods: Sequence[PodInfo], may_evict: Callable[[PodInfo], bool]
) -> dict[str, str]:
    """The nominations of pods, by UID, while pods terminate on one of these nodes that they may have evicted."""
    nominated = {info.uid: cluster.nominator.node_of(info.uid) or info.pod.status.nominated_node_name for info in pods}
    nominated = {uid: node for uid, node in nominated.items() if node}
    rows = (cluster.table.row_of.get(node) for node in dict.fromkeys(nominated.values()))
    victims = (info for row in rows if row is not None for info in cluster.row_pods[row])
    return nominated if any(_terminates_by_preemption(v.pod) and may_evict(v) for v in victims) else {}


def disruption_priority(cluster: ClusterState, pod: PodInfo) -> int:
    """The priority with which a pod on a node resists preemption, from 1.37 on: that of its group or tree, if any."""
    key = group_key(pod.pod)
    priority = cluster.group_trees.priority(key) if key else None
    return pod.priority if priority is None else priority


def _terminates_by_preemption(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
