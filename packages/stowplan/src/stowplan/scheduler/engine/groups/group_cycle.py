"""The scheduling cycle of a pod group, whose members are popped together; with its metrics and stories.

Since 1.37 a group is an entry of the queue; until 1.36 its pods that can be tried are popped along with the first. They
are tried together (`group_trials`), in order of importance. The result determines what happens to each: if the group
can be scheduled, its pods are assumed one by one, like single pods; all others fail, with the group's message or their
own. What is left of the group then returns to the queue.

`GroupScheduling` has the parts that the feature gates ask for. Without the gate GenericWorkload it is empty, and pods
of a group are scheduled one by one.

Upstream: pkg/scheduler/schedule_one_podgroup.go, pkg/scheduler/metrics/profile_metrics.go (stories: none);
docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from stowplan.kube.config import FeatureGates
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.pod_groups import is_composite
from stowplan.scheduler.cluster.pod_info import group_key, scheduler_name_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE
from stowplan.scheduler.engine.groups.group_preemption import GroupPreemption
from stowplan.scheduler.engine.groups.group_progress import rejected
from stowplan.scheduler.engine.groups.group_questions import GroupQuestion
from stowplan.scheduler.engine.groups.group_statuses import GroupStatuses
from stowplan.scheduler.engine.groups.group_trials import GroupTrial, GroupTrials, TriedPod
from stowplan.scheduler.engine.groups.group_validation import group_problem
from stowplan.scheduler.engine.groups.tree_trials import TreeTrials
from stowplan.scheduler.engine.schedule_one import Attempt, Failure, SchedulingCycle, failure_from_decision
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error, raised
from stowplan.scheduler.inspection.stories import Stories
from stowplan.scheduler.queue.group_entries import TrialEnd
from stowplan.scheduler.queue.queued_pod import QueuedGroup, QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.eviction.evictions import Evictions
    from stowplan.scheduler.engine.suspension.suspended import SuspendableCycle
    from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles

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
        features: FeatureGates,
    ) -> None:
        """`preemption` of None: the pods of a group preempt individually."""
        self._features = features
        self._outcome = _outcome_by_permit if features.emulated_version < V1_37 else _outcome_by_feasibility
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
        group = popped.name if isinstance(popped, QueuedGroup) else group_key(popped.pod.pod)
        members = self._pods_to_try(group, popped)
        framework = self._common_profile(group, members, started)
        if framework is None:
            return
        tried = []
        for queued in members:
            if self._cycle.skip_pod_schedule(framework, queued.pod):
                # It was popped with the others: left in flight, it would hold the record of events for ever.
                self._queue.done(queued.pod.uid)
            else:
                tried.append(queued)
        if not tried:
            # Nothing failed: pods that came meanwhile are tried without a backoff.
            self._queue.end_trial(group, TrialEnd.SCHEDULED)
            return
        if framework.metrics is not None and framework.metrics.traced:
            framework.metrics.parts = []
        steps = self._decide(framework, group, tried, started)
        # May call `finish` before it returns, or keep the trial until it has what it waits for.
        self._suspended.begin_group(self, framework, group, tried, steps, started=started)

    def _decide(
        self, framework: Framework, group: str, tried: Sequence[QueuedPod], started: float
    ) -> CycleSteps[GroupTrial]:
        """Try the group, and look for pods to evict if it does not fit."""
        for _ in range(MAX_TRIES):
            trial = yield from self._trials.run(framework, group, tried)
            # The trial is undone by now. Its pods are placed by `finish`, in the step in which these steps end, so that
            # nothing comes in between.
            self._metrics.decided(started)
            try:
                if self._preemption is not None:
                    yield from self._preemption.help(framework, group, tried, trial)
            # The victims or the room are gone: nothing of the trial holds any more.
            except ClusterChangedError:
                continue
            return trial
        # Others were faster each time. An error, so that the group returns after its backoff without an event.
        return self._failed(group, error(GIVEN_UP))

    def _failed(self, group: str, status: Status) -> GroupTrial:
        """The trial of a group, or of a tree, that failed as a whole."""
        # A tree's pods get their results by leaf (`by_group`): without these, none of them would return to the queue.
        leaves = self._state.group_trees.leaves(group) if is_composite(group) else ()
        return GroupTrial(status, members={leaf: GroupTrial(status) for leaf in leaves})

    def finish(self, cycle: SuspendableCycle, trial: GroupTrial) -> None:
        """The group was decided: its pods proceed or fail."""
        framework, group, tried, started = cycle.framework, cycle.group, cycle.members, cycle.started
        refused = False
        if trial.plan is not None:
            # First: PreEnqueue must hold the pods back when they return to the queue.
            self._evictions.carry_out(trial.plan, framework.handle.event_recorder)
        for leaf, result in trial.by_group(group).items():
            pods = [queued for queued in tried if group_key(queued.pod.pod) == leaf] if trial.members else tried
            # Not `refused or …`, which would leave the pods of further groups in flight.
            refused |= self._submit(framework, pods, result, started)
            self._log(leaf, len(pods), result)
            record_trial(self._stories, leaf, result)
            self._statuses.write(leaf, result.status)
        self._metrics.ended(trial, profile=framework.profile_name, started=started)
        # Last: pods that return before it are set aside, and come back together as one entry.
        # If the rest was refused by Reserve or Permit, it would be again.
        self._queue.end_trial(group, TrialEnd.REJECTED if refused else _end_of(trial.status))

    def fail(self, cycle: SuspendableCycle, cause: BaseException) -> None:
        """The trial ended with an unexpected exception; only this attempt fails."""
        _log.error(cause, "the trial of a pod group failed", trace=True, podGroup=cycle.group)
        # As after any trial, because every pod has to return to the queue.
        self.finish(cycle, self._failed(cycle.group, raised(cause)))

    def _pods_to_try(self, group: str, popped: QueuedPod) -> list[QueuedPod]:
        """The pods to try, including the popped one, in order."""
        if isinstance(popped, QueuedGroup):
            # As of the pop. Pods that come during the trial wait for its end.
            return sorted(popped.members.values(), key=_order)
        others = (info for info in self._state.pod_groups.unscheduled(group) if info.key != popped.pod.key)
        # Also pods in backoff and unschedulable ones: `pop_specific` activates them. Those that are gated stay.
        members = [popped, *(queued for info in others if (queued := self._queue.pop_specific(info)) is not None)]
        return sorted(members, key=_order_by_first_attempt)

    def _common_profile(self, group: str, members: Sequence[QueuedPod], started: float) -> Framework | None:
        """The profile of all pods; None if the group is invalid: they have then failed."""
        framework = self._trials.algorithm.framework_for(members[0].pod)
        text = group_problem(self._state, group, [queued.pod for queued in members], self._features)
        if framework is not None and not text:
            return framework
        text = text or f'profile not found for scheduler name "{scheduler_name_of(members[0].pod.pod)}"'
        for queued in members:
            # Each with its own profile: the pods of an invalid group need not have the same.
            own = self._trials.algorithm.framework_for(queued.pod)
            if own is None:
                # A pod of another scheduler: its failure is not ours to report.
                self._queue.done(queued.pod.uid)
            else:
                if own.metrics is not None and own.metrics.traced:
                    own.metrics.parts = []
                self._cycle.handle_outcome(own, queued, Failure(status=error(text)), started=started)
        if self._features.emulated_version >= V1_37 and self._state.group_trees.get(group) is not None:
            for leaf in self._state.group_trees.leaves(group):
                self._statuses.write(leaf, error(text))
        # As in `finish`, after all of its pods have returned.
        self._queue.end_trial(group, TrialEnd.FAILED)
        return None

    # -- outcome -------------------------------------------------------------------------------------------------------

    def _submit(self, framework: Framework, members: Sequence[QueuedPod], trial: GroupTrial, started: float) -> bool:
        """Let each pod proceed, or fail; return whether Reserve or Permit refused one that was to proceed."""
        refused = False
        tried = {pod.queued.pod.uid: pod for pod in trial.pods}
        for queued in members:
            pod = tried.get(queued.pod.uid)
            if framework.metrics is not None and framework.metrics.traced:
                # The framework's list is that of the pod that was tried last.
                framework.metrics.parts = [] if pod is None or pod.parts is None else pod.parts
            if pod is not None:
                # What was decided on trial, also if the pod fails below because others of its group do.
                self._cycle.record(framework, queued, pod.decision, started=started)
            outcome: Attempt | Failure | None = self._outcome(trial, queued, pod)
            # On the real cluster now, where the pods before it are: each of these may still be refused.
            if outcome is None:
                assert pod is not None
                outcome = self._cycle.assume_and_reserve(framework, queued, pod.decision, started=started)
                refused = refused or isinstance(outcome, Failure)
            self._cycle.handle_outcome(framework, queued, outcome, started=started)
        return refused

    def _log(self, group: str, tried: int, trial: GroupTrial) -> None:
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
            why = {} if self._features.emulated_version < V1_37 else {"err": trial.status.message}
            verbose.info(text, podGroup=group, unschedulablePods=tried, **why)


# -- what becomes of each pod; None: it proceeds to its node ----------------------------------------------------------


def _own_failure(pod: TriedPod) -> Failure | None:
    """Why the pod itself got no node."""
    if pod.failed is not None or pod.decision.status is None:
        return pod.failed
    return failure_from_decision(pod.decision)


def _outcome_by_feasibility(trial: GroupTrial, queued: QueuedPod, pod: TriedPod | None) -> Failure | None:
    """Since 1.37. `pod`: None if it was not tried."""
    own = None if pod is None else _own_failure(pod)
    if trial.status.code == Code.Error:
        # A trial that ended with an error says nothing of the pods after it: all are retried as after an error.
        return _failure_of_group(trial, own or Failure(status=trial.status))
    if own is not None or pod is None:
        # A pod that was not tried keeps its nomination (None): nothing is known against it.
        own = own or Failure(status=trial.before_preemption or trial.status, nominated_node_name=None)
        # Preemption for the group was decided after the pod, so its nomination wins.
        nominated = trial.nominations.get(queued.pod.uid, own.nominated_node_name)
        return msgspec.structs.replace(own, nominated_node_name=nominated)
    if trial.status.code == Code.Success:
        return None
    if trial.waiting:
        # It fits, but waits for the others' victims: without a nomination, lesser pods could take its node.
        return Failure(status=trial.status, nominated_node_name=trial.nominations.get(queued.pod.uid))
    return Failure(status=rejected(trial.status.message))


def _outcome_by_permit(trial: GroupTrial, queued: QueuedPod, pod: TriedPod | None) -> Failure | None:
    """Until 1.36. `pod`: None if it was not tried."""
    if pod is None:
        return _failure_of_group(trial, Failure(status=trial.status))
    own = _own_failure(pod)
    if own is not None:
        return _failure_of_group(trial, own, needs_preemption=pod.needs_preemption, wait=pod.wait)
    if trial.status.code == Code.Success:
        return None
    if trial.waiting:
        return Failure(status=trial.status, nominated_node_name=pod.host)
    if trial.status.code == Code.Error:
        return Failure(status=trial.status)
    return Failure(status=_held_back(pod.wait))


def _failure_of_group(
    trial: GroupTrial, own: Failure, *, needs_preemption: bool = False, wait: Status | None = None
) -> Failure:
    """The failure of a pod without a node: its own if it explains the result, otherwise the group's."""
    if trial.status.code == Code.Error:
        # An error of its own says more than that of the group, and may be the cause of it.
        return own if own.status.code == Code.Error else Failure(status=trial.status, plan=own.plan)
    if needs_preemption and trial.status.rejected and not trial.waiting:
        # Its victims are evicted, but it is not nominated to the node.
        return Failure(status=_held_back(wait), plan=own.plan)
    return own


def _held_back(wait: Status | None) -> Status:
    """The status of a pod that fits, in a group that cannot be scheduled."""
    reasons = () if wait is None else wait.shown_reasons
    # `FailureHandler` recognizes the error by its text, and logs a pod of a group instead of a failure.
    return Status(Code.Unschedulable, tuple(reasons), error=RuntimeError(GROUP_UNSCHEDULABLE))


def _end_of(status: Status) -> TrialEnd:
    if status.code == Code.Success:
        return TrialEnd.SCHEDULED
    return TrialEnd.REJECTED if status.rejected else TrialEnd.FAILED


def _order(queued: QueuedPod) -> tuple[int, int, float, str]:
    return -queued.pod.priority, -queued.attempts, queued.timestamp, queued.key


def _order_by_first_attempt(queued: QueuedPod) -> tuple[int, float, int]:
    """Until 1.36."""
    first = queued.initial_attempt_timestamp
    return -queued.pod.priority, float("-inf") if first is None else first, queued.arrival


class GroupMetrics:
    def __init__(self, metrics: SchedulerMetrics | None, *, now: Callable[[], float]) -> None:
        """None: nothing is counted."""
        self._metrics = metrics
        self._now = now

    def decided(self, started: float) -> None:
        if self._metrics is not None:
            self._metrics.podgroup_scheduling_algorithm_duration_seconds.observe(self._now() - started)

    def ended(self, trial: GroupTrial, *, profile: str, started: float) -> None:
        if self._metrics is None:
            return
        result = "error"
        if trial.status.code == Code.Success:
            result = "scheduled"
        elif trial.status.rejected:
            result = "waiting_on_preemption" if trial.waiting else "unschedulable"
        self._metrics.podgroup_schedule_attempts_total.with_label_values(result, profile).inc()
        durations = self._metrics.podgroup_scheduling_attempt_duration_seconds
        durations.with_label_values(result, profile).observe(self._now() - started)


SCHEDULED, REFUSED = "scheduled", "not scheduled"
WAITS, FAILED = "waits for preemption", "failed"


def story_key(group: str) -> str:
    """The key of a group's story; a pod's key contains one slash."""
    return f"podgroup/{group}"


def record_trial(stories: Stories, group: str, trial: GroupTrial) -> None:
    """Record a completed trial."""
    if not stories.kept:
        return
    what = FAILED
    if trial.status.code == Code.Success:
        what = SCHEDULED
    elif trial.status.rejected:
        what = WAITS if trial.waiting else REFUSED
    placed = sum(pod.placed for pod in trial.pods)
    message = f": {trial.status.message}" if trial.status.message else ""
    key = story_key(group)
    stories.step(key, key, what, f"{placed:,} of {len(trial.pods):,} pods fit together{message}")


class GroupScheduling:
    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SchedulingAlgorithm,
        features: FeatureGates,
        cycle: SchedulingCycle,
        evictions: Evictions,
        suspended: SuspendedCycles,
        metrics: SchedulerMetrics | None,
    ) -> None:
        self._algorithm = algorithm
        version = features.emulated_version
        self.statuses = GroupStatuses(context.outbox, context.state, version=version)
        self.trials: GroupTrials | None = None
        #: None: the pods of a group preempt individually.
        self.preemption: GroupPreemption | None = None
        #: None: pods of a group are tried one by one.
        self.cycle: GroupCycle | None = None
        if not features.enabled("GenericWorkload"):
            return
        placements = features.enabled("TopologyAwareWorkloadScheduling")
        of_trees = TreeTrials if context.state.group_trees.exist else GroupTrials
        self.trials = trials = of_trees(
            algorithm, context.state, context.reporter, placements=placements, permits=version < V1_37
        )
        if features.enabled("WorkloadAwarePreemption"):
            self.preemption = GroupPreemption(trials, version=version)
        self.cycle = GroupCycle(
            context,
            trials=trials,
            suspended=suspended,
            preemption=self.preemption,
            evictions=evictions,
            cycle=cycle,
            statuses=self.statuses,
            metrics=GroupMetrics(metrics, now=context.stopwatch.now),
            features=features,
        )

    def question(self, group: str, version: tuple[int, ...]) -> GroupQuestion:
        """A question about the group in the cluster at this version."""
        return GroupQuestion(self._algorithm, self.trials, self.preemption, group, version=version)

    def unfinished(self) -> list[str]:
        """What is in progress and prevents a dump."""
        return self.statuses.unfinished
