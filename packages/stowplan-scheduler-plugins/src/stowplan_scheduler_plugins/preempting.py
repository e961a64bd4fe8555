"""What plugins that preempt by rules of their own have in common: the order of PostFilter, and what is shown of it."""

from abc import abstractmethod
from typing import NamedTuple

from stowplan.plugins import (
    Code,
    CycleState,
    Diagnosis,
    EvictionPlan,
    NodeInfo,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    Preemption,
    Status,
    error,
    eviction,
    unschedulable,
)
from stowplan.plugins.preemption import Candidates, preempts_with_group

NEVER = "not eligible due to preemptionPolicy=Never."
WITH_ITS_GROUP = "not eligible as its group is scheduled as a whole."
STILL_TERMINATING = "not eligible due to a terminating pod on the nominated node."


class Outcome(NamedTuple):
    """Why the pod may not preempt, or the result of the dry run."""

    ineligible: str = ""
    run: Candidates | None = None


class PreemptingPlugin(PostFilterPlugin):
    effect_free = True

    @abstractmethod
    def ineligible(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt although its policy allows it; "" if it may."""

    @abstractmethod
    def try_evictions(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Candidates:
        """The nodes that would fit the pod after evictions."""

    def nominated_node(self, pod: PodInfo, diagnosis: Diagnosis) -> NodeInfo | None:
        """The node on which the pod may be waiting for victims to terminate."""
        # A nomination in memory may not have reached the API server yet.
        name = self.handle.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
        node = self.handle.node(name) if name else None
        if node is None:
            return None
        status = diagnosis.status(self.handle.cluster.table.row_of[name])
        # If that can no longer fit the pod, it preempts elsewhere.
        return None if status is not None and status.code == Code.UnschedulableAndUnresolvable else node

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if self.handle.metrics is not None and not state.asking:
            self.handle.metrics.preemption_attempts_total.inc()
        reason = NEVER if pod.pod.spec.preemption_policy == "Never" else ""
        reason = reason or (WITH_ITS_GROUP if preempts_with_group(self.handle, pod) else "")
        reason = reason or self.ineligible(state, pod, diagnosis)
        if reason:
            return PostFilterResult(unschedulable(reason), detail=Outcome(reason))
        run = self.try_evictions(state, pod, diagnosis)
        outcome = Outcome(run=run)
        if not len(run):
            if run.error is not None:
                return PostFilterResult(error(run.error.message), detail=outcome)
            return PostFilterResult(unschedulable(run.message), "", outcome)
        selected = run.candidate_on(self._chosen(state, run.best))
        plan = EvictionPlan(
            preemptor=pod,
            node_name=selected.node_name,
            victims=selected.victims,
            plugin=self.name,
            pdb_violations=selected.pdb_violations,
        )
        return PostFilterResult(Status(Code.Success), selected.node_name, outcome, plan)

    def _chosen(self, state: CycleState, best: list[str]) -> str:
        random = None if state.asking else self.handle.random
        return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]

    def preemption(self, result: PostFilterResult) -> Preemption:
        outcome: Outcome = result.detail
        run = outcome.run
        if run is None:
            return Preemption(outcome.ineligible)
        return Preemption(
            error="" if run.error is None else run.error.message,
            candidates={name: eviction(name, one.victims, one.pdb_violations) for name, one in run.candidates.items()},
            best=tuple(run.best),
        )
