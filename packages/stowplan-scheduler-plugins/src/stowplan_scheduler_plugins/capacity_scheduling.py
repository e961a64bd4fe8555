"""Quotas that can be borrowed: a namespace may use more than its minimum as long as others do not need theirs.

PreFilter refuses a pod beyond its namespace's maximum, and if all namespaces together would use more than all minimums.
PostFilter takes back what was borrowed: a namespace within its minimum evicts pods of those beyond theirs, whatever
their priorities; one beyond it evicts pods of its own, of lower priority. What is used follows from the pods on nodes.

Upstream: pkg/capacityscheduling in scheduler-plugins.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from stowplan.plugins import (
    ASSIGNED_POD,
    Action,
    AnyGroup,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    Explanation,
    Handle,
    Inspection,
    Nodes,
    NotFoundError,
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PodGroupPostFilterSteps,
    PodInfo,
    PreFilterPlugin,
    QuotaUse,
    Reason,
    ReservePlugin,
    Status,
    TemplateSigned,
    on,
    unschedulable,
)
from stowplan.plugins.objects import PodDisruptionBudget, PodGroup
from stowplan.plugins.preemption import Candidates, dry_run_by_node, evict_for_group
from stowplan_scheduler_plugins.elastic_quotas import Ledger, Quotas, plus, request_of
from stowplan_scheduler_plugins.kinds import ElasticQuota
from stowplan_scheduler_plugins.preempting import NEVER, STILL_TERMINATING, PreemptingPlugin
from stowplan_scheduler_plugins.quota_evictions import Asked, QuotaEvictions
from stowplan_scheduler_plugins.quota_uses import quota_uses
from stowplan_scheduler_plugins.quotas_of_groups import GroupEvictions

OVER_MAX = Reason("OverQuotaMax", "Pod {pod} is rejected in PreFilter because ElasticQuota {quota} is more than Max")
OVER_MIN = Reason(
    "OverAllQuotas", "Pod {pod} is rejected in PreFilter because total ElasticQuota used is more than min"
)
NO_STATE = "not eligible due to failed to read from cycleState"


class CapacityScheduling(
    PreFilterPlugin,
    PreemptingPlugin,
    PodGroupPostFilterPlugin,
    ReservePlugin,
    TemplateSigned,
    EnqueueExtensions,
):
    name = "CapacityScheduling"
    needs_kinds = (ElasticQuota,)
    reads_kinds = (PodDisruptionBudget,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ledger = Ledger(handle)

    def quotas(self) -> Quotas:
        """All quotas, with what the pods on nodes use."""
        return self._ledger.quotas()

    def quota_uses(self) -> Iterator[QuotaUse]:
        return quota_uses(self.quotas())

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        quotas, request = self.quotas(), request_of(pod)
        own = quotas.get(pod.namespace)
        if own is None:
            state.write(self.name, Asked(quotas=quotas, request=request, in_quota=request, in_total=request))
            return None
        in_quota, in_total = [request], [request]
        nominator = self.handle.nominator
        for name in nominator.nodes():
            for other in nominator.on(name):
                quota = quotas.get(other.namespace)
                if quota is None or other.uid == pod.uid:
                    continue
                if quota is own and other.priority >= pod.priority:
                    in_quota.append(request_of(other))
                    in_total.append(request_of(other))
                elif quota is not own and not quota.over_min():
                    in_total.append(request_of(other))
        asked = Asked(quotas=quotas, request=request, in_quota=plus(*in_quota), in_total=plus(*in_total))
        state.write(self.name, asked)
        if own.over_max_with(asked.in_quota):
            return unschedulable(OVER_MAX.of(pod=pod.key, quota=pod.namespace))
        if quotas.over_min_together(asked.in_total):
            return unschedulable(OVER_MIN.of(pod=pod.key))
        return None

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.capacity_scheduling_explanation import CapacitySchedulingExplanation

        return CapacitySchedulingExplanation(inspection, self)

    def ineligible(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> str:
        try:
            asked: Asked = state.read(self.name)
        except NotFoundError:
            return NO_STATE
        return STILL_TERMINATING if self._waits_for_victims(pod, diagnosis, asked) else ""

    def try_evictions(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Candidates:
        asked: Asked = state.read(self.name)
        rules = QuotaEvictions(pod, asked, self.handle.cluster.table.n)
        return dry_run_by_node(self.handle, state, pod, diagnosis, rules)

    def pod_group_post_filter(
        self, group: AnyGroup, pods: Sequence[PodInfo], *, pods_only_take_room: bool
    ) -> PodGroupPostFilterResult | PodGroupPostFilterSteps:
        if any(pod.pod.spec.preemption_policy == "Never" for pod in pods):
            return PodGroupPostFilterResult(unschedulable(NEVER))
        gang = group.spec.scheduling_policy.gang if isinstance(group, PodGroup) else None
        rules = GroupEvictions(self.quotas(), pods, len(pods) if gang is None else gang.min_count)
        return evict_for_group(self, group, pods, rules.may_evict, pods_only_take_room=pods_only_take_room)

    def _waits_for_victims(self, pod: PodInfo, diagnosis: Diagnosis, asked: Asked) -> bool:
        node = self.nominated_node(pod, diagnosis)
        if node is None:
            return False
        own = asked.quotas.get(pod.namespace)
        more_than_min = own is not None and own.over_min_with(asked.in_quota)
        for other in node.pods:
            if other.pod.metadata.deletion_timestamp is None:
                continue
            quota = asked.quotas.get(other.namespace)
            if own is None:
                leaving = quota is None and other.priority < pod.priority
            elif quota is own:
                leaving = other.priority < pod.priority
            else:
                leaving = quota is not None and not more_than_min and quota.over_min()
            if leaving:
                return True
        return False

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        # Assumed pods count as pods on nodes.
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(ASSIGNED_POD, Action.Delete), on(ElasticQuota.resource, Action.All))
