"""Evict lower-priority pods to make room for a pod, or for a whole pod group.

The result is an eviction plan, which the live scheduler carries out in the background. In the meantime the pod itself
is held back; afterwards it waits for its victims to leave.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and framework/preemption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.events import Action, ClusterEventWithHint, Hint, on, pod_events
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PodGroupPostFilterSteps,
    PostFilterPlugin,
    PostFilterResult,
    PostFilterSteps,
    PreEnqueuePlugin,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.scheduler.in_tree.default_preemption.declaration import DECLARATION
from stowplan.scheduler.preemption.candidates import Candidates
from stowplan.scheduler.preemption.dry_run import dry_run
from stowplan.scheduler.preemption.eligibility import (
    NEVER,
    ONGOING,
    ineligible_in_group,
    ineligible_reason,
    never_preempts,
    ongoing_preemption,
)
from stowplan.scheduler.preemption.extenders import ask_extenders, interested_extenders
from stowplan.scheduler.preemption.workloads import victims_of

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanations.preemption import Preemption


GROUP_PREEMPTING = Reason("PreemptionUnderWay", "waiting for the preemption for this pod group to be finished")
PREEMPTING = Reason("PreemptionUnderWay", "waiting for the preemption for this pod to be finished")
_GROUP_PREFIX = "pod group preemption: "

#: Named after the folder, by which --vmodule selects the plugin.
_log = get_logger(__name__.rpartition(".")[0])
#: Upstream's name of the logger of these lines.
_LOGGER = "PostFilter.DefaultPreemption"


class PreemptionOutcome(PlainStruct, frozen=True):
    """Why a pod may not preempt, or the result of the dry run."""

    ineligible_reason: str = ""
    run: Candidates | None = None


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin, EnqueueExtensions):
    declaration = DECLARATION
    effect_free = True

    @property
    def _framework(self) -> Framework:
        """The dry run takes more of the framework than the contract with plugins has."""
        framework = self.handle.framework
        assert isinstance(framework, Framework)
        return framework

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        preemptions = self.handle.preemptions
        if preemptions is None:
            return None
        if pod.pod.spec.scheduling_group is not None and self.handle.features.enabled("WorkloadAwarePreemption"):
            trees = self.handle.cluster.group_trees
            group = trees.get(trees.root(group_key(pod.pod)))
            waits = group is not None and preemptions.group_under_way(group)
            return unresolvable(GROUP_PREEMPTING) if waits else None
        return unresolvable(PREEMPTING) if preemptions.under_way(pod) else None

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult | PostFilterSteps:
        if self.handle.metrics is not None and not state.asking:
            self.handle.metrics.preemption_attempts_total.inc()
        reason = ineligible_in_group(self.handle.cluster, pod, self.handle.features) or ineligible_reason(
            self.handle.cluster, pod, diagnosis, self.handle.features
        )
        if reason:
            _log_ineligible(pod, reason)
            outcome = PreemptionOutcome(reason)
            return PostFilterResult(unschedulable(f"preemption: {reason}"), self._present_nomination(pod), outcome)
        run = dry_run(self._framework, state, pod, diagnosis)
        if not len(run):
            if run.error is None:
                _log_without_candidates(pod, run)
            return self._without_candidates(pod, run)
        # Questions do not call extenders.
        extenders = () if state.asking else interested_extenders(self.handle.extenders(), pod)
        return self._asking_extenders(state, pod, run, extenders) if extenders else self._selected(state, pod, run)

    def repeats(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> bool:
        return result.plan is None and result.status.code == Code.Unschedulable and result.detail is not None

    def repeated(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> None:
        if self.handle.metrics is not None:
            self.handle.metrics.preemption_attempts_total.inc(len(pods))
        for pod in pods if _log.v(2).enabled else ():
            if result.detail.run is None:
                _log_ineligible(pod, result.detail.ineligible_reason)
            else:
                _log_without_candidates(pod, result.detail.run)

    def _asking_extenders(
        self, state: CycleState, pod: PodInfo, run: Candidates, extenders: Sequence[Extender]
    ) -> PostFilterSteps:
        left = yield from ask_extenders(self._framework, pod, run, extenders)
        if isinstance(left, Candidates):
            return self._selected(state, pod, left)
        status = error(f"preemption: {left.message}") if left.code == Code.Error else left
        return PostFilterResult(status, self._present_nomination(pod), PreemptionOutcome(run=run))

    def _selected(self, state: CycleState, pod: PodInfo, run: Candidates) -> PostFilterResult:
        selected = run.candidate_on(self._chosen(state, run.best))
        text = "the target node for the preemption is determined"
        _log.v(2).info(text, **_log.named(_LOGGER), pod=pod, node=selected.node_name)
        plan = EvictionPlan(
            preemptor=pod,
            node_name=selected.node_name,
            victims=selected.victims,
            plugin=self.name,
            pdb_violations=selected.pdb_violations,
        )
        return PostFilterResult(Status(Code.Success), selected.node_name, PreemptionOutcome(run=run), plan)

    def _chosen(self, state: CycleState, best: Sequence[str]) -> str:
        """One of several equally good nodes: a random one, or the first without a random source."""
        random = None if state.asking else self.handle.random
        return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]

    def _present_nomination(self, pod: PodInfo) -> str | None:
        """The current nomination, including one that is not in the API server yet."""
        return self.handle.nominator.node_of(pod.uid) or None

    def _without_candidates(self, pod: PodInfo, run: Candidates) -> PostFilterResult:
        outcome = PreemptionOutcome(run=run)
        if run.error is not None:
            return PostFilterResult(error(f"preemption: {run.error.message}"), self._present_nomination(pod), outcome)
        return PostFilterResult(unschedulable(f"preemption: {run.message}"), "", outcome)

    def pod_group_post_filter(
        self, group: AnyGroup, pods: Sequence[PodInfo], *, pods_only_take_room: bool
    ) -> PodGroupPostFilterSteps:
        cluster, features = self.handle.cluster, self.handle.features
        named = features.emulated_version >= V1_37
        if never_preempts(group, pods, features):
            status = unschedulable(NEVER)
            return PodGroupPostFilterResult(_prefixed(status) if named else status)
        if named and (nominations := ongoing_preemption(cluster, group, pods)):
            status = Status(Code.Success, (f"{_GROUP_PREFIX}{ONGOING}",))
            return PodGroupPostFilterResult(status, nominations=nominations)
        found = yield from victims_of(cluster, group, features, at_once=pods_only_take_room)
        if isinstance(found, Status):
            return PodGroupPostFilterResult(_prefixed(found) if named else found)
        plan = GroupEvictionPlan(
            group=group,
            pods=tuple(pods),
            victims=found.pods,
            plugin=self.name,
            pdb_violations=found.pdb_violations if named else 0,
        )
        text = f"{_GROUP_PREFIX}found a placement for podgroup, preempting {len(found.pods)} victims"
        return PodGroupPostFilterResult(Status(Code.Success, (text,) if named else ()), plan)

    def preemption(self, result: PostFilterResult) -> Preemption:
        from stowplan.scheduler.in_tree.default_preemption.outcome import preemption_of

        return preemption_of(result.detail)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        # Never requeues; registered so that gated preemptors are re-evaluated.
        return (on(pods.assigned, Action.Delete, lambda pod, old, new: Hint.SKIP, by_shape=True),)


def _prefixed(status: Status) -> Status:
    text = f"{_GROUP_PREFIX}{status.message}" if status.message else ""
    return error(text) if status.code == Code.Error else Status(status.code, (text,) if text else ())


def _log_ineligible(pod: PodInfo, reason: str) -> None:
    _log.v(5).info("Pod is not eligible for preemption", **_log.named(_LOGGER), pod=pod, reason=reason)


def _log_without_candidates(pod: PodInfo, run: Candidates) -> None:
    if not run.tried:
        _log.v(3).info("Preemption will not help schedule pod on any node", **_log.named(_LOGGER), pod=pod)
    text = "No preemption candidate is found; preemption is not helpful for scheduling"
    _log.v(2).info(text, **_log.named(_LOGGER), pod=pod)
