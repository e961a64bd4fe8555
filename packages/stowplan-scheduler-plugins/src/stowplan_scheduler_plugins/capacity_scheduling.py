"""Quotas that can be borrowed: a namespace may use more than its minimum as long as others do not need theirs.

PreFilter refuses a pod beyond its namespace's maximum, and if all namespaces together would use more than all minimums.
PostFilter takes back what was borrowed: a namespace within its minimum evicts pods of those beyond theirs, whatever
their priorities; one beyond it evicts pods of its own, of lower priority. What is used follows from the pods on nodes.

Upstream: pkg/capacityscheduling in scheduler-plugins.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from stowplan.plugins import (
    ASSIGNED_POD,
    Action,
    ClusterEventWithHint,
    Code,
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    Explanation,
    Handle,
    Inspection,
    NodeInfo,
    Nodes,
    NotFoundError,
    PodInfo,
    PreFilterPlugin,
    Reason,
    ReservePlugin,
    Status,
    TemplateSigned,
    error,
    on,
    unresolvable,
    unschedulable,
)
from stowplan.plugins.arguments import aggregate
from stowplan.plugins.objects import PodDisruptionBudget
from stowplan.plugins.preemption import (
    Candidate,
    Candidates,
    exceeding_budgets,
    least_important_first,
    most_important_first,
    ranked,
    trial_on,
)
from stowplan_scheduler_plugins.elastic_quotas import Amounts, ElasticQuota, Ledger, Quota, Quotas, plus, request_of
from stowplan_scheduler_plugins.preempting import STILL_TERMINATING, PreemptingPlugin

OVER_MAX = Reason("OverQuotaMax", "Pod {pod} is rejected in PreFilter because ElasticQuota {quota} is more than Max")
OVER_MIN = Reason(
    "OverAllQuotas", "Pod {pod} is rejected in PreFilter because total ElasticQuota used is more than min"
)
EXCEEDED = "global quota max exceeded"
NO_STATE = "not eligible due to failed to read from cycleState"


class Asked(NamedTuple):
    """What PreFilter leaves for PostFilter."""

    quotas: Quotas
    request: Amounts
    #: With nominated pods that come first: those that count for the pod's own quota, and for all.
    in_quota: Amounts
    in_total: Amounts


class CapacityScheduling(PreFilterPlugin, PreemptingPlugin, ReservePlugin, TemplateSigned, EnqueueExtensions):
    name = "CapacityScheduling"
    needs_kinds = (ElasticQuota,)
    reads_kinds = (PodDisruptionBudget,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ledger = Ledger(handle)

    def quotas(self) -> Quotas:
        """All quotas, with what the pods on nodes use."""
        return self._ledger.quotas()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        quotas, request = self.quotas(), request_of(pod)
        own = quotas.get(pod.namespace)
        if own is None:
            state.write(self.name, Asked(quotas, request, request, request))
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
        asked = Asked(quotas, request, plus(*in_quota), plus(*in_total))
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
        return self._dry_run(state, pod, diagnosis, asked)

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

    def _dry_run(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, asked: Asked) -> Candidates:
        found: list[Candidate] = []
        failures: Counter[str] = Counter()
        errors: dict[str, None] = {}
        tried = 0
        for node in self.handle.nodes():
            status = diagnosis.status(self.handle.cluster.table.row_of[node.name])
            if status is None or status.code != Code.Unschedulable:
                continue
            tried += 1
            answer = self._victims_on(state, pod, node, asked)
            if isinstance(answer, Candidate):
                found.append(answer)
            elif answer.code == Code.Error:
                errors[answer.message] = None
            else:
                failures.update(answer.shown_reasons)
        run = ranked(self.handle, found, diagnosis)
        run.tried = tried
        run.failures.update(failures)
        if errors:
            run.error = error(aggregate(errors))
        return run

    def _victims_on(self, state: CycleState, pod: PodInfo, node: NodeInfo, asked: Asked) -> Candidate | Status:
        cluster, quotas = self.handle.cluster, asked.quotas.trial()
        trial = trial_on(self.handle, state, pod, node.name)

        def move(victim: PodInfo, sign: int) -> None:
            (trial.add if sign > 0 else trial.remove)(victim)
            quotas.move(victim, sign)

        def over_quota(request: Amounts, total: Amounts) -> bool:
            own = quotas.get(pod.namespace)
            return own is not None and (own.over_max_with(request) or quotas.over_min_together(total))

        own = quotas.get(pod.namespace)
        more_than_min = own is not None and own.over_min_with(asked.in_quota)
        potential = []
        for other in least_important_first(cluster, node.pods):
            if _may_evict(pod, other, own, quotas.get(other.namespace), more_than_min=more_than_min):
                move(other, -1)
                potential.append(other)
        if not potential:
            return unresolvable(f"No victims found on node {node.name} for preemptor pod {pod.name}")
        refusal = trial.refusal()
        if refusal is not None:
            return refusal
        if over_quota(asked.request, asked.request):
            return unschedulable(EXCEEDED)
        judged = most_important_first(cluster, potential)
        violating = exceeding_budgets(cluster, judged)
        in_order = sorted(zip(judged, violating, strict=True), key=lambda one: not one[1])
        victims, violations = [], 0
        for other, violates in in_order:
            move(other, 1)
            fits = trial.refusal() is None
            if not fits:
                move(other, -1)
            over = over_quota(asked.in_quota, asked.in_total)
            if over and not fits:
                # Parity: it is removed twice, which is an error.
                return error(f"no corresponding pod {other.name} in pods of node {node.name}")
            if over:
                move(other, -1)
            if over or not fits:
                victims.append(other)
                violations += violates and not fits
        if any(violating) and not all(violating):
            victims = most_important_first(cluster, victims)
        return Candidate(node.name, tuple(victims), violations)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        # Assumed pods count as pods on nodes.
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(ASSIGNED_POD, Action.Delete), on(ElasticQuota.resource, Action.All))


def _may_evict(pod: PodInfo, other: PodInfo, own: Quota | None, quota: Quota | None, *, more_than_min: bool) -> bool:
    if own is None:
        return quota is None and other.priority < pod.priority
    if quota is None:
        return False
    if more_than_min:
        return other.namespace == pod.namespace and other.priority < pod.priority
    return other.namespace != pod.namespace and quota.over_min()
