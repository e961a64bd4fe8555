"""Schedule one pod, from the queue to its binding cycle. Read it from the top.

    ScheduleOne        pop a pod, prepare its attempt, and drive it through these steps
    schedule_pod       find nodes, score, choose; PostFilter if there is none (the parts: `decision/algorithm.py`)
    SchedulingCycle    assume, reserve, permit
    BindingCycle       wait on Permit, PreBind, Bind, PostBind; done or failed (`binding_cycle.py`)
    FailureHandler     requeue, nomination, Event, pod condition

Unless an extender or plugin has to be waited for, everything up to the binding cycle happens at once: nothing else
changes the cluster state between the pod's pop and the end of its scheduling cycle. The decision is a generator. One
that yields, because it has to wait, is handed to `SuspendedCycles` (`suspension/`), which resumes it with what it
needs, and passes its result back to `SchedulingCycle.finish`. Pods of a group are tried together (`groups/`).

Upstream: pkg/scheduler/schedule_one.go; docs/reference/behaviour.md, The scheduling cycle, Assume, Reserve, Permit,
bind, and Failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from stowplan.kube.api.types import Pod, PodCondition
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.kube.klog.value_text import stack_trace
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.arrays import Rows
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key, scheduler_name_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
from stowplan.scheduler.engine.decision.attempt_outcome import attempt_outcome
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps
from stowplan.scheduler.engine.decision.decision import (
    GROUP_UNSCHEDULABLE,
    NO_NODES,
    Decision,
    fits_nowhere,
    without_nodes,
)
from stowplan.scheduler.engine.decision.error_locations import LoggedLocations
from stowplan.scheduler.engine.decision.extender_cycle import ExtenderCycle
from stowplan.scheduler.engine.decision.post_filters import run_post_filters, without_post_filter
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.inputs import Schedule
from stowplan.scheduler.engine.suspension.suspended import SuspendableCycle
from stowplan.scheduler.framework.boundary import Ended, resume
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import histogram_text
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.extender import ClusterChangedError, Extender
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.framework.runtime.binding import run_assumed, run_permit, run_reserve, run_unreserve
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import Part
from stowplan.scheduler.framework.status import Code, Status, error, raised
from stowplan.scheduler.framework.unfinished import unfinished_of
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.binding_cycle import BindingCycles
    from stowplan.scheduler.engine.deferred_resizes import DeferredResizes
    from stowplan.scheduler.engine.groups.group_cycle import GroupCycle
    from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles

_log = get_logger(__name__)

_NOBODY: frozenset[str] = frozenset()


@mypyc_attr(native_class=True)
class Attempt(PlainStruct, kw_only=True, eq=False):
    """A popped pod on its way to a node."""

    queued: QueuedPod
    framework: Framework
    #: The pod as the cluster has it; updated by the watch once it is assumed. The pod as of the start of the attempt is
    #: `queued.pod`.
    pod: PodInfo
    node_name: str
    #: When the attempt began.
    started: float
    #: The attempt's own state, not shared.
    state: CycleState
    #: Permit plugins that make the pod wait -> timeout in seconds.
    permit_timeouts: Mapping[str, float] = field(default_factory=dict)
    evaluated: int = 0
    feasible: int = 0
    #: Whether its binding cycle starts with Bind: there is no Permit wait, no PreBind work, and no metrics for either.
    skip_to_bind: bool = False
    #: What it has been through so far; None if it is not traced.
    parts: list[Part] | None = None


class Failure(PlainStruct, frozen=True, kw_only=True):
    """How an attempt ended without binding the pod, and the consequences."""

    status: Status
    #: Plugins that rejected the pod, whose events requeue it. If empty, the pod failed with an error.
    unschedulable_plugins: frozenset[str] = _NOBODY
    pending_plugins: frozenset[str] = _NOBODY
    #: The node that the pod is nominated to; "" removes the nomination; None keeps it.
    nominated_node_name: str | None = ""
    #: The evictions that clear that node.
    plan: EvictionPlan | None = None

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return "Unschedulable" if self.status.rejected else "SchedulerError"

    @property
    def message(self) -> str:
        return self.status.message


class DecisionListener(Protocol):
    """Follows decisions: a simulation, or `Cluster.schedule`."""

    def decided(self, decision: Decision, /) -> None:
        """Called after a node was chosen for the pod, or none was found."""

    def failed(self, queued: QueuedPod, failure: Failure, /) -> None:
        """An attempt failed at any point; the pod was requeued."""

    def bound(self, attempt: Attempt, /) -> None:
        """A pod was bound."""


class AttemptTracer(Protocol):
    """Gets attempts that have ended, with their parts."""

    def bound(self, attempt: Attempt, /) -> None:
        """The pod was bound, and PostBind is over."""

    def failed(
        self, framework: Framework, queued: QueuedPod, failure: Failure, /, *, started: float, node_name: str
    ) -> None:
        """The attempt failed; `node_name` is the node that it could not be bound to, or "".

        The parts are those of the framework's metrics.
        """


class Observers(PlainStruct, frozen=True, kw_only=True, eq=False):
    """Who follows attempts; each may be missing."""

    metrics: AttemptMetrics | None = None
    listener: DecisionListener | None = None
    tracer: AttemptTracer | None = None


# -- pop and prepare --------------------------------------------------------------------------------------------------


class ScheduleOne:
    def __init__(
        self,
        context: EngineContext,
        *,
        cycle: SchedulingCycle,
        suspended: SuspendedCycles,
        groups: GroupCycle | None,
        resizes: DeferredResizes | None,
        timed: bool,
    ) -> None:
        """`groups`: None if pods of a group are tried one by one. `timed`: whether anything measures attempts.

        `resizes`: None if pods that are to grow on their node evict none.
        """
        self._queue = context.queue
        self._state = context.state
        self._profiles = context.profiles
        self._cycle = cycle
        self._suspended = suspended
        self._groups = groups
        self._resizes = resizes
        self._stopwatch = context.stopwatch if timed else None
        #: Whether the last pod tried had been rejected before.
        self.tried_again = False

    def run(self, input_: Schedule) -> None:
        """Pop a pod, and take it as far as it gets without waiting."""
        queued = self._queue.pop()
        if queued is None:
            return
        pod, logged = queued.pod, _log.verbosity >= 3
        self.tried_again = bool(queued.unschedulable_count)
        started = 0.0 if self._stopwatch is None else self._stopwatch.now()
        if self._groups is not None and pod.pod.spec.scheduling_group is not None:
            self._groups.run(queued, started=started)
            return
        if self._resizes is not None and pod.pod.spec.node_name:
            self._resizes.run(queued, started=started)
            return
        if logged:
            _log.v(4).info("About to try and schedule pod", pod=pod)
        framework = self._profiles.get(pod.shape.scheduler_name)
        if framework is None:
            name = pod.pod.spec.scheduler_name
            _log.error(f'profile not found for scheduler name "{name}"', "Error occurred", pod=pod)
            self._queue.done(pod.uid)
            return
        if (pod.terminating or self._state.is_assumed(pod.uid)) and self._cycle.skip_pod_schedule(framework, pod):
            self._queue.done(pod.uid)
            return
        if logged:
            _log.v(3).info("Attempting to schedule pod", pod=pod)
        if self._suspended.begins(framework, queued, started=started):
            return
        steps = self._cycle.find_node(framework, pod)
        needed = resume(steps, None)
        if isinstance(needed, Ended):
            self._cycle.carry_out(framework, queued, needed.value, started=started)
        else:
            # From here on it is driven where others wait; for a bug of ours, to its failure.
            self._suspended.take_over(framework, queued, steps, needed, started=started)


# -- find nodes, score, choose ----------------------------------------------------------------------------------------


def schedule_pod(
    algorithm: SchedulingAlgorithm,
    framework: Framework,
    pod: PodInfo,
    *,
    within: NodeSubset | None = None,
    run_post_filter: bool = True,
    held: set[str] | None = None,
) -> CycleSteps[Decision]:
    """Find the best node for a pod.

    A generator, which waits for extenders, for PostFilter plugins with steps, and between portions of long work.

    `within`: the nodes to consider; None: all. Without `run_post_filter`, a pod that fits nowhere is not helped.
    `held` collects the nodes that were reserved for the pod while it waited; None: reserve none.
    """
    tries = 0
    while tries < MAX_TRIES:
        extenders: tuple[Extender, ...] = ()
        if framework.suspends:
            extenders = tuple(e for e in framework.handle.extenders() if e.is_interested(pod))
        try:
            if extenders:
                decision = yield from ExtenderCycle(algorithm, framework, pod, extenders, within, held).find_node()
            else:
                decision = _find_node(algorithm, framework, pod, None if within is None else within.rows)
            if decision.diagnosis is not None:
                if not run_post_filter:
                    return without_post_filter(decision)
                decision = yield from run_post_filters(framework, decision)
        except ClusterChangedError:
            tries += 1
            _log.v(4).info("Scheduling cycle restarts, as other pods were faster", pod=pod)
            continue
        if decision.status is None or (more := unfinished_of(decision.status)) is None:
            return decision
        # The next portion starts over: the plugin has kept its progress, and nodes may have changed.
        (outcome,) = yield more
        if not isinstance(outcome, Done) or not outcome.value:
            return decision
    return Decision(pod, status=error(GIVEN_UP))


def _find_node(algorithm: SchedulingAlgorithm, framework: Framework, pod: PodInfo, rows: Rows | None) -> Decision:
    """The decision of a pod that no extender is interested in, before PostFilter."""
    if not (algorithm.cluster.table.count if rows is None else len(rows)):
        return without_nodes(pod)
    tried = algorithm.row_tried_first(pod, rows)
    evaluation, seconds = algorithm.look_up(framework, pod)
    if tried is not None or rows is not None:
        return _searched(algorithm, framework, evaluation, pod, tried, rows, seconds)
    algorithm.run.begin(evaluation, pod)
    decision = algorithm.reused(framework, evaluation, pod, seconds)
    if decision is None:
        decision = _searched(algorithm, framework, evaluation, pod, None, None, seconds)
    algorithm.run.end(pod, decision.node_name)
    return decision


def _searched(
    algorithm: SchedulingAlgorithm,
    framework: Framework,
    evaluation: Evaluation,
    pod: PodInfo,
    tried: int | None,
    rows: Rows | None,
    seconds: float,
) -> Decision:
    outcome, found = algorithm.find_nodes(framework, evaluation, pod, tried, rows, seconds)
    if isinstance(found, Status):
        return Decision(pod, status=found, state=outcome.state)
    if outcome.diagnosis is not None:
        return fits_nowhere(pod, outcome.state, outcome.diagnosis)
    return algorithm.choose(framework, evaluation, outcome.state, pod, found)


# -- assume, reserve, permit ------------------------------------------------------------------------------------------


class SchedulingCycle:
    """The steps of an attempt. `started` is always when it began, by the stopwatch."""

    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SchedulingAlgorithm,
        bindings: BindingCycles,
        failures: FailureHandler,
        evictions: Evictions,
        observers: Observers,
    ) -> None:
        self._context = context
        self._algorithm = algorithm
        self._bindings = bindings
        self._failures = failures
        self._evictions = evictions
        self._metrics = observers.metrics
        self._listener = observers.listener

    def skip_pod_schedule(self, framework: Framework, pod: PodInfo) -> bool:
        """Whether a pod should not be tried: it is being deleted, or has a node already."""
        if pod.terminating:
            recorder = framework.handle.event_recorder
            if recorder is not None:
                note = f"skip schedule deleting pod: {pod.key}"
                recorder.event(pod.pod, type_="Warning", reason="FailedScheduling", action="Scheduling", note=note)
            _log.v(3).info("Skip schedule deleting pod", pod=pod)
            return True
        return self._context.state.is_assumed(pod.uid)

    def find_node(self, framework: Framework, pod: PodInfo, held: set[str] | None = None) -> CycleSteps[Decision]:
        """Find nodes, score and choose, or find pods to evict; yields what has to be waited for."""
        if framework.metrics is not None:
            framework.metrics.begin_cycle()
        return schedule_pod(self._algorithm, framework, pod, held=held)

    def carry_out(self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float) -> None:
        """Record the decision and assume the pod, within the step that decided: the next one may see other nodes."""
        self.record(framework, queued, decision, started=started)
        outcome: Attempt | Failure
        if decision.node_name:
            outcome = self.assume_and_reserve(framework, queued, decision, started=started)
        else:
            outcome = failure_from_decision(decision)
        self.handle_outcome(framework, queued, outcome, started=started)

    def finish(self, cycle: SuspendableCycle, decision: Decision) -> None:
        """A cycle that has waited was decided."""
        self.carry_out(cycle.framework, cycle.queued, decision, started=cycle.started)

    def fail(self, cycle: SuspendableCycle, cause: BaseException) -> None:
        """The decision ended with an unexpected exception, such as a bug of ours; only this attempt fails."""
        if self._metrics is not None:
            self._metrics.decided(cycle.started)
        _log.error(cause, "the scheduling cycle failed", trace=True, pod=cycle.queued.pod)
        self.handle_outcome(cycle.framework, cycle.queued, Failure(status=raised(cause)), started=cycle.started)

    def record(self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float) -> None:
        """Record the decision in metrics, stories and listeners."""
        stories = self._context.stories
        if self._metrics is not None:
            self._metrics.decided(started)
        if stories.kept:
            seconds = self._context.stopwatch.now() - started
            stories.decided(attempt_outcome(decision, time=stories.now(), attempt=queued.attempts, seconds=seconds))
        if self._listener is not None:
            self._listener.decided(decision)
        if not decision.node_name and decision.diagnosis is not None:
            _log_filters(framework, decision)

    def assume_and_reserve(
        self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float
    ) -> Attempt | Failure:
        """Place the pod on the chosen node, if Reserve and Permit succeed; everything is undone if not."""
        attempt = Attempt(
            queued=queued,
            framework=framework,
            # The cluster keeps this copy up to date; the queue's stays as it was tried.
            pod=PodInfo(queued.pod.pod, queued.pod.shape),
            node_name=decision.node_name,
            started=started,
            # Equal pods share the decision's state; plugins write to it from here on.
            state=CycleState() if decision.state is None else decision.state.clone(),
            evaluated=decision.evaluated,
            feasible=decision.feasible,
            parts=None if framework.metrics is None else framework.metrics.parts,
        )
        try:
            reservation = reserve(framework, attempt.state, attempt.pod, attempt.node_name)
        except ValueError as e:
            _log.error(e, "Scheduler cache AssumePod failed", pod=attempt.pod)
            return Failure(status=error(e))
        attempt.skip_to_bind = reservation is STRAIGHT_TO_BIND
        for problem in reservation.problems:
            self._context.reporter.report(problem)
        if reservation.failed is not None:
            return failure_of(reservation.failed)
        if reservation.permit_timeouts:
            self._wait_on_permit(attempt, reservation.permit_timeouts)
        if pods := attempt.state.take_pods_to_activate():
            self._context.queue.activate(pods)
        return attempt

    def _wait_on_permit(self, attempt: Attempt, timeouts: Mapping[str, float]) -> None:
        pod, stories = attempt.pod, self._context.stories
        attempt.permit_timeouts = timeouts
        self._context.waiting_pods.add(pod, timeouts)
        stories.step(pod.key, pod.uid, "waits on Permit", ", ".join(timeouts), f"for {attempt.node_name}")

    def handle_outcome(
        self, framework: Framework, queued: QueuedPod, outcome: Attempt | Failure, *, started: float
    ) -> None:
        """Begin the pod's binding cycle, or handle its failure."""
        if isinstance(outcome, Attempt):
            self._bindings.begin(outcome)
            return
        if outcome.plan is not None:
            # First: PreEnqueue must hold the pod back when it returns to the queue.
            self._evictions.carry_out(outcome.plan, framework.handle.event_recorder)
        self._failures.handle(framework, queued, outcome, started=started)


class Reservation(PlainStruct, frozen=True, eq=False):
    """The result of Reserve and Permit for a pod on a node."""

    #: Why the pod cannot use the node: a rejection or an error. Everything was unreserved.
    failed: Status | None = None
    #: Permit's status if the pod has to wait.
    wait: Status | None = None
    #: Permit plugins that make the pod wait -> timeout in seconds.
    permit_timeouts: Mapping[str, float] = field(default_factory=dict)
    #: Failures of Unreserve.
    problems: Sequence[str] = ()


#: The pod has the node, and its binding cycle can begin with Bind: no Reserve, Permit or PreBind plugin has anything to
#: do for it, and there are no metrics for their calls.
STRAIGHT_TO_BIND = Reservation()


def reserve(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str, *, permits: bool = True
) -> Reservation:
    """Assume the pod on the node and run Reserve and Permit. Raises ValueError if the pod is already on a node.

    Without `permits`, Permit is not asked.
    """
    cluster = framework.handle.cluster
    if framework.assuming and (failed := run_assumed(framework, state, pod, node_name)) is not None:
        return Reservation(failed=failed)
    cluster.assume(pod, node_name)
    if framework.metrics is None and not framework.permit:
        applicable = framework.applicable_plugins(pod.shape)
        if not applicable.reserve and not applicable.pre_bind:
            return STRAIGHT_TO_BIND
    problems: list[str] = []
    failed = run_reserve(framework, state, pod, node_name, problems=problems)
    if failed is None:
        if not permits:
            return Reservation(problems=problems)
        answer, timeouts = run_permit(framework, state, pod, node_name)
        if answer is None or answer.code == Code.Wait:
            return Reservation(wait=answer, permit_timeouts=timeouts, problems=problems)
        failed = answer
        problems += run_unreserve(framework, state, pod, node_name)
    # Last: plugins unreserve while the pod is still on its node.
    cluster.forget(pod)
    return Reservation(failed=failed, problems=problems)


# -- failed -----------------------------------------------------------------------------------------------------------


def failure_from_decision(decision: Decision) -> Failure:
    """The failure for a decision without a node."""
    assert decision.status is not None
    if decision.diagnosis is None:
        return Failure(status=decision.status)
    return Failure(
        status=decision.status,
        unschedulable_plugins=decision.unschedulable_plugins,
        pending_plugins=decision.pending_plugins,
        nominated_node_name=decision.nominated_node_name,
        plan=decision.plan,
    )


def failure_of(status: Status) -> Failure:
    """The failure for an error or rejection of Reserve, Permit, or waiting on Permit: a fit error for one node."""
    if not status.rejected:
        return Failure(status=status)
    listed = histogram_text(Counter(status.shown_reasons))
    text = f"0/1 nodes are available: {listed}." if listed else "0/1 nodes are available:"
    # Parity: a pod rejected because it is being deleted has a rejecting plugin without a name, so no event requeues it.
    plugins = frozenset((status.plugin,))
    return Failure(
        status=Status(status.code, (text,), status.plugin),
        unschedulable_plugins=plugins,
        pending_plugins=plugins if status.code == Code.Pending else _NOBODY,
    )


class FailureHandler:
    """Upstream's handleSchedulingFailure."""

    def __init__(self, context: EngineContext, *, observers: Observers, schedules_groups: bool = False) -> None:
        """`schedules_groups`: whether pods of a group are tried together."""
        self._schedules_groups = schedules_groups
        self._listener = observers.listener
        self._tracer = observers.tracer
        self._state = context.state
        self._profiles = context.profiles
        self._queue = context.queue
        self._statuses = context.statuses
        self._metrics = observers.metrics
        self._reporter = context.reporter
        self._locations = LoggedLocations()

    def handle(
        self, framework: Framework, queued: QueuedPod, failure: Failure, *, started: float, node_name: str = ""
    ) -> None:
        """`started`: when the attempt began. `node_name`: the node that the pod could not be bound to."""
        if self._listener is not None:
            self._listener.failed(queued, failure)
        if self._tracer is not None:
            # First: what follows changes the queued pod.
            self._tracer.failed(framework, queued, failure, started=started, node_name=node_name)
        if framework.metrics is not None:
            framework.metrics.parts = None
        if self._metrics is not None:
            self._metrics.failed(failure.status, profile=framework.profile_name, started=started)
        # Before the pod returns: the queue decides by these whether events of the attempt help it.
        queued.unschedulable_plugins = set(failure.unschedulable_plugins)
        queued.pending_plugins = set(failure.pending_plugins)
        queued.gating_plugin = ""
        self._log_failure(queued, failure)
        tried = queued.pod.pod
        newest = self._state.pending.get(queued.pod.key)
        pod = None if newest is None else newest.pod
        if pod is not None and pod.metadata.uid != tried.metadata.uid:
            # The pod was replaced by another one of the same name, which has its own entry in the queue.
            _log.v(2).info(
                "Pod was recreated while handling scheduling failure. Skip requeueing and status updates.",
                pod=tried,
                oldUID=tried.metadata.uid,
                newUID=pod.metadata.uid,
            )
            self._queue.done(queued.pod.uid)
            return
        if newest is not None and scheduler_name_of(newest.pod) not in self._profiles:
            self._leave(newest)
            return
        if newest is None:
            self._log_absence(queued)
            self._queue.done(queued.pod.uid)
        else:
            self._requeue(queued, newest)
            self._queue.nominate(queued.pod, failure.nominated_node_name)
        if failure.status.code == Code.Skip:
            # Every Bind plugin skipped the pod: there is no message to report.
            return
        recorder = framework.handle.event_recorder
        if recorder is not None:
            recorder.event(
                pod or tried, type_="Warning", reason="FailedScheduling", action="Scheduling", note=failure.message
            )
        if pod is not None:
            _log_update(pod, failure)
            self._statuses.write(
                pod, condition=_condition(pod, failure), nominated_node_name=failure.nominated_node_name
            )

    def _log_failure(self, queued: QueuedPod, failure: Failure) -> None:
        verbose, pod = _log.v(2), queued.pod
        group = group_key(pod.pod) if self._schedules_groups else ""
        # Parity: the reference's logger carries the group through its cycle.
        keys: dict[str, Any] = {"podGroup": group, "pod": pod} if group else {"pod": pod}
        if failure.unschedulable_plugins or failure.pending_plugins:
            if verbose.enabled:
                verbose.info("Unable to schedule pod; no fit; waiting", **keys, err=failure.message)
        elif failure.message == NO_NODES:
            verbose.info("Unable to schedule pod; no nodes are registered to the cluster; waiting", **keys)
        elif str(failure.status.error) == GROUP_UNSCHEDULABLE:
            if verbose.enabled:
                text = "Unable to schedule pod belonging to a pod group; waiting"
                verbose.info(text, **keys, err=failure.message)
        else:
            cause = self._locations.first_error_at(failure.status)
            trace: dict[str, Any] = {} if cause is None else {"stacktrace": stack_trace(cause)}
            _log.unhandled(failure.message, "Error scheduling pod; retrying", **keys, **trace)

    def _leave(self, pod: PodInfo) -> None:
        """Handle a pod whose profile was removed from the configuration during the attempt."""
        self._state.pending.remove(pod.key)
        self._statuses.forget(pod.uid)
        self._queue.done(pod.uid)
        _log.v(3).info("Pod is left to the scheduler that now has its scheduler name", pod=pod)

    def _log_absence(self, queued: QueuedPod) -> None:
        placed = self._state.placed(queued.pod.uid)
        if placed is None:
            _log.info("Pod doesn't exist in informer cache", pod=queued.pod)
        else:
            text = "Pod has been assigned to node. Abort adding it back to queue."
            _log.info(text, pod=queued.pod, node=placed.node_name)

    def _requeue(self, queued: QueuedPod, newest: PodInfo) -> None:
        queued.pod = newest
        try:
            self._queue.add_unschedulable_if_not_present(queued)
        except ValueError as e:
            self._reporter.report(str(e))


def _condition(pod: Pod, failure: Failure) -> PodCondition:
    return PodCondition(
        type="PodScheduled",
        status="False",
        reason=failure.reason,
        message=failure.message,
        observed_generation=pod.metadata.generation,
    )


def _log_update(pod: Pod, failure: Failure) -> None:
    verbose = _log.v(3)
    if not verbose.enabled:
        return
    keys: dict[str, object] = {"conditionType": "PodScheduled", "conditionStatus": "False"}
    keys["conditionReason"] = failure.reason
    if failure.nominated_node_name is not None:
        keys |= {"nominatedNodeName": failure.nominated_node_name, "nominatingMode": 1}
    verbose.info("Updating pod condition and nominated node name", pod=pod, **keys)


def _log_filters(framework: Framework, decision: Decision) -> None:
    """Log the statuses of plugins before and after filtering."""
    pod, diagnosis = decision.pod, decision.diagnosis
    verbose = _log.v(5)
    if verbose.enabled and diagnosis is not None and diagnosis.pre_filter_message:
        text = "Status after running PreFilter plugins for pod"
        verbose.info(text, pod=pod, status=diagnosis.pre_filter_message)
    if not framework.post_filter:
        _log.v(3).info("No PostFilter plugins are registered, so no preemption will be performed")
    elif decision.post_filter:
        text = "Status after running PostFilter plugins for pod"
        last = decision.post_filter[-1][1].status
        if last.code == Code.Error:
            _log.unhandled(None, text, pod=pod, status=last.message)
        elif verbose.enabled:
            verbose.info(text, pod=pod, status=_post_filter_message(decision))


def _post_filter_message(decision: Decision) -> str:
    last = decision.post_filter[-1][1].status
    if last.code not in (Code.Unschedulable, Code.Pending):
        return last.message
    return ", ".join(reason for _, result in decision.post_filter for reason in result.status.shown_reasons)


def on_node(pod: Pod, node_name: str) -> Pod:
    """A copy of the pod, bound to the node."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
