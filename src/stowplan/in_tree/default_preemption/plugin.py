"""Make room for a pod by evicting less important ones.

The answer is an `EvictionPlan`; the live scheduler carries it out in the background. Until it is through, the pod
itself is held back; after that it waits for its victims to leave.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and framework/preemption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan.framework.events import POD, Action, Hint, on
from stowplan.framework.eviction_plan import EvictionPlan
from stowplan.framework.interface import EnqueueExtensions, PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from stowplan.framework.status import Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.klog import get_logger
from stowplan.preemption.dry_run import Candidate, DryRun, dry_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.api.types import Pod
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.events import ClusterEventWithHint

NEVER = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING = "not eligible due to a terminating pod on the nominated node."
PREEMPTING = Reason("PreemptionUnderWay", "waiting for the preemption for this pod to be finished")

#: Named after the folder, as --vmodule knows the plugin by it.
_log = get_logger(__name__.rpartition(".")[0])


@dataclass(frozen=True, slots=True)
class PreemptionOutcome:
    """What preemption found, for people: candidates and the choice."""

    ineligible_reason: str = ""
    run: DryRun | None = None
    selected: Candidate | None = None


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, EnqueueExtensions):
    name = "DefaultPreemption"
    effect_free = True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        preemptions = self.handle.preemptions
        return unresolvable(PREEMPTING) if preemptions is not None and preemptions.under_way(pod) else None

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if self.handle.metrics is not None and not state.asking:
            self.handle.metrics.scheduler.preemption_attempts_total.inc()
        reason = self.ineligible_reason(pod, diagnosis)
        if reason:
            if not state.asking:
                _log.v(5).info("Pod is not eligible for preemption", pod=pod, reason=reason)
            outcome = PreemptionOutcome(reason)
            return PostFilterResult(unschedulable(f"preemption: {reason}"), self._as_promised(pod), outcome)
        run = dry_run(self.handle.framework, state, pod, diagnosis)
        if not len(run):
            if run.error is None and not state.asking:
                _log_without_candidates(pod, run)
            return self._without_candidates(pod, run)
        selected = run.candidate_on(self._chosen(state, run.best))
        if not state.asking:
            text = "the target node for the preemption is determined"
            _log.v(2).info(text, pod=pod, node=selected.node_name)
        outcome = PreemptionOutcome(run=run, selected=selected)
        return PostFilterResult(Status(Code.Success), selected.node_name, outcome, self._plan(pod, selected))

    def _chosen(self, state: CycleState, best: Sequence[str]) -> str:
        """One of equally good nodes: any, or the first when there is no chance to draw on."""
        random = None if state.asking else self.handle.random
        return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]

    def _plan(self, pod: PodInfo, selected: Candidate) -> EvictionPlan:
        return EvictionPlan(
            preemptor=pod,
            node_name=selected.node_name,
            victims=selected.victims,
            plugin=self.name,
            pdb_violations=selected.pdb_violations,
        )

    def _as_promised(self, pod: PodInfo) -> str | None:
        """The nomination as it is, also one that the API server has yet to hear of."""
        return self.handle.nominator.node_of(pod.uid) or None

    def _without_candidates(self, pod: PodInfo, run: DryRun) -> PostFilterResult:
        outcome = PreemptionOutcome(run=run)
        if run.error is not None:
            return PostFilterResult(error(f"preemption: {run.error.message}"), self._as_promised(pod), outcome)
        return PostFilterResult(unschedulable(f"preemption: {run.message()}"), "", outcome)

    def ineligible_reason(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt; "" when it may."""
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        # What is promised in memory may be on its way to the API server yet: ignoring it would make room twice.
        nominated = self.handle.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
        if not nominated:
            return ""
        row = self.handle.cluster.table.row_of.get(nominated)
        status = diagnosis.status(row) if row is not None else diagnosis.absent
        if status is not None and status.code == Code.UnschedulableAndUnresolvable:
            # The promised node is no longer possible at all: try elsewhere.
            return ""
        victims = self.handle.cluster.row_pods[row] if row is not None else ()
        if any(v.priority < pod.priority and _terminates_by_preemption(v.pod) for v in victims):
            return STILL_TERMINATING
        return ""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Never worth a try by itself; registered so that gated preemptors are looked at again.
        return (on(POD, Action.Delete, lambda pod, old, new: Hint.SKIP, by_shape=True),)


def _log_without_candidates(pod: PodInfo, run: DryRun) -> None:
    if not run.tried:
        _log.v(3).info("Preemption will not help schedule pod on any node", pod=pod)
    _log.v(2).info("No preemption candidate is found; preemption is not helpful for scheduling", pod=pod)


def _terminates_by_preemption(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
