"""The scheduling cycle of a pod group, whose members are popped together.

The group itself is not in the queue. Its pods that can be tried are popped along with the first, in order of
importance, and tried together (`group_trial`). The result determines what happens to each: if the group can be
scheduled, its pods are assumed one by one, like single pods; all others fail, with the group's message or their own.

Upstream: pkg/scheduler/schedule_one_podgroup.go; docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import group_key, scheduler_name_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.groups.group_metrics import GroupMetrics
from stowplan.scheduler.engine.groups.group_preemption import GroupPreemption
from stowplan.scheduler.engine.groups.group_statuses import GroupStatuses
from stowplan.scheduler.engine.groups.group_stories import record_trial
from stowplan.scheduler.engine.groups.group_trial import GroupTrial, TriedPod
from stowplan.scheduler.engine.groups.group_trials import GroupTrials
from stowplan.scheduler.engine.schedule_one import Attempt, Failure, SchedulingCycle, failure_from_decision
from stowplan.scheduler.engine.suspension.suspended import SuspendableCycle
from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error, raised
from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


class GroupCycle:
    def __init__(
        self,
        context: EngineContext,
        *,
        trials: GroupTrials,
        suspended: SuspendedCycles,
        preemption: GroupPreemption | None,
        evictions: Evictions,
        cycle: SchedulingCycle,
        statuses: GroupStatuses,
        metrics: GroupMetrics,
    ) -> None:
        """`preemption` of None: the pods of a group preempt individually."""
        self._state = context.state
        self._queue = context.queue
        self._stories = context.stories
        self._trials = trials
        self._suspended = suspended
        self._preemption = preemption
        self._evictions = evictions
        self._cycle = cycle
        self._statuses = statuses
        self._metrics = metrics

    def run(self, popped: QueuedPod, *, started: float) -> None:
        """Try the group of a popped pod."""
        group = group_key(popped.pod.pod)
        members = self._pods_to_try(group, popped)
        framework = self._common_profile(members, started)
        if framework is None:
            return
        tried = []
        for queued in members:
            if self._cycle.skip_pod_schedule(framework, queued.pod):
                self._queue.done(queued.pod.uid)
            else:
                tried.append(queued)
        if not tried:
            return
        steps = self._decide(framework, group, tried, started)
        self._suspended.begin_group(self, framework, group, tried, steps, started=started)

    def _decide(
        self, framework: Framework, group: str, tried: Sequence[QueuedPod], started: float
    ) -> CycleSteps[GroupTrial]:
        """Try the group, and look for pods to evict if it does not fit."""
        for _ in range(MAX_TRIES):
            trial = yield from self._trials.run(framework, group, tried)
            self._metrics.decided(started)
            try:
                if self._preemption is not None:
                    yield from self._preemption.help(framework, group, tried, trial)
            except ClusterChangedError:
                continue
            return trial
        return GroupTrial(error(GIVEN_UP))

    def finish(self, cycle: SuspendableCycle, trial: GroupTrial) -> None:
        """The group was decided: its pods proceed or fail."""
        framework, group, tried, started = cycle.framework, cycle.group, cycle.members, cycle.started
        self._submit(framework, tried, trial, started)
        self._log(group, len(tried), trial)
        record_trial(self._stories, group, trial)
        self._metrics.ended(trial, profile=framework.profile_name, started=started)
        self._statuses.write(group, trial.status)

    def fail(self, cycle: SuspendableCycle, cause: BaseException) -> None:
        """The trial ended with an unexpected exception; only this attempt fails."""
        _log.error(cause, "the trial of a pod group failed", trace=True, podGroup=cycle.group)
        self.finish(cycle, GroupTrial(raised(cause)))

    def _pods_to_try(self, group: str, popped: QueuedPod) -> list[QueuedPod]:
        """The pods to try, including the popped one, in order."""
        others = (info for info in self._state.pod_groups.unscheduled(group) if info.key != popped.pod.key)
        members = [popped, *(queued for info in others if (queued := self._queue.pop_specific(info)) is not None)]
        return sorted(members, key=_order)

    def _common_profile(self, members: Sequence[QueuedPod], started: float) -> Framework | None:
        """The profile of all pods; None if they have several, or an unknown one: they have then failed."""
        first = scheduler_name_of(members[0].pod.pod)
        other = next((name for queued in members if (name := scheduler_name_of(queued.pod.pod)) != first), None)
        framework = self._trials.algorithm.framework_for(members[0].pod)
        if framework is not None and other is None:
            return framework
        text = f'profile not found for scheduler name "{first}"'
        if other is not None:
            text = (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{other}" and "{first}"'
            )
        for queued in members:
            own = self._trials.algorithm.framework_for(queued.pod)
            if own is None:
                self._queue.done(queued.pod.uid)
            else:
                self._cycle.handle_outcome(own, queued, Failure(status=error(text)), started=started)
        return None

    # -- outcome -------------------------------------------------------------------------------------------------------

    def _submit(self, framework: Framework, members: Sequence[QueuedPod], trial: GroupTrial, started: float) -> None:
        """Let each pod proceed, or fail."""
        if trial.plan is not None:
            # First: PreEnqueue must hold the pods back when they return to the queue.
            self._evictions.carry_out(trial.plan, framework.handle.event_recorder)
        tried = {pod.queued.pod.uid: pod for pod in trial.pods}
        for queued in members:
            pod = tried.get(queued.pod.uid)
            outcome: Attempt | Failure
            if pod is None:
                outcome = _failure_of_group(trial, Failure(status=trial.status))
            else:
                self._cycle.record(framework, queued, pod.decision, started=started)
                outcome = self._outcome(framework, pod, trial, started)
            self._cycle.handle_outcome(framework, queued, outcome, started=started)

    def _outcome(self, framework: Framework, pod: TriedPod, trial: GroupTrial, started: float) -> Attempt | Failure:
        own = pod.failed
        if own is None and pod.decision.status is not None:
            own = failure_from_decision(pod.decision)
        if own is not None:
            return _failure_of_group(trial, own, needs_preemption=pod.needs_preemption, wait=pod.wait)
        if trial.status.code == Code.Success:
            return self._cycle.assume_and_reserve(framework, pod.queued, pod.decision, started=started)
        if trial.waiting:
            return Failure(status=trial.status, nominated_node_name=pod.host)
        if trial.status.code == Code.Error:
            return Failure(status=trial.status)
        return Failure(status=_held_back(pod.wait))

    @staticmethod
    def _log(group: str, tried: int, trial: GroupTrial) -> None:
        verbose, code = _log.v(2), trial.status.code
        if code == Code.Error:
            _log.unhandled(trial.status.message, "Error scheduling pod group", podGroup=group, errorPods=tried)
        elif not verbose.enabled:
            return
        elif code == Code.Success:
            placed = sum(pod.placed and not pod.needs_preemption for pod in trial.pods)
            text = "Successfully scheduled a pod group"
            verbose.info(text, podGroup=group, scheduledPods=placed, unschedulablePods=tried - placed)
        else:
            text = "Pod group is waiting for preemption" if trial.waiting else "Unable to schedule a pod group"
            verbose.info(text, podGroup=group, unschedulablePods=tried)


def _failure_of_group(
    trial: GroupTrial, own: Failure, *, needs_preemption: bool = False, wait: Status | None = None
) -> Failure:
    """The failure of a pod without a node: its own if it explains the result, otherwise the group's."""
    if trial.status.code == Code.Error:
        return own if own.status.code == Code.Error else Failure(status=trial.status, plan=own.plan)
    if needs_preemption and trial.status.rejected and not trial.waiting:
        # Its victims are evicted, but it is not nominated to the node.
        return Failure(status=_held_back(wait), plan=own.plan)
    return own


def _held_back(wait: Status | None) -> Status:
    """The status of a pod that fits, in a group that cannot be scheduled."""
    reasons = () if wait is None else wait.shown_reasons
    return Status(Code.Unschedulable, tuple(reasons), error=RuntimeError(GROUP_UNSCHEDULABLE))


def _order(queued: QueuedPod) -> tuple[int, float, int]:
    first = queued.initial_attempt_timestamp
    return -queued.pod.priority, float("-inf") if first is None else first, queued.arrival
