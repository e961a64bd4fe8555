"""The scheduling cycle of one pod: decide, assume, reserve, permit.

Synchronous: nothing else changes the cluster state between the pod's pop and the end of its cycle. The result is an
`Attempt`, which proceeds to the binding cycle, or a `Failure`. If an extender or plugin has to be waited for, the
decision is made in a suspended cycle (`suspended_cycles`); the rest is the same.

Upstream: schedulingCycle in pkg/scheduler/schedule_one.go; docs/reference/behaviour.md, The scheduling cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.cycle.reservation import reserve
from stowplan.scheduler.engine.decision.attempt import Attempt, Failure, refused_by_node
from stowplan.scheduler.engine.decision.attempt_outcome import attempt_outcome
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import Code, Status, error, raised
from stowplan.scheduler.framework.unfinished import unfinished_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
    from stowplan.scheduler.engine.decision.decision import Decision
    from stowplan.scheduler.engine.decision.decision_listener import DecisionListener
    from stowplan.scheduler.engine.reporter import Reporter
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.waiting_pods import WaitingPods
    from stowplan.scheduler.inspection.stories import Stories
    from stowplan.scheduler.queue.queued_pod import QueuedPod
    from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

_log = get_logger(__name__)


class SchedulingCycle:
    def __init__(
        self,
        *,
        algorithm: SchedulingAlgorithm,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        stories: Stories,
        metrics: AttemptMetrics,
        reporter: Reporter,
        listener: DecisionListener | None = None,
    ) -> None:
        self._listener = listener
        self._algorithm = algorithm
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._stories = stories
        self._metrics = metrics
        self._reporter = reporter

    def run(self, framework: Framework, queued: QueuedPod, *, started: float) -> Attempt | Failure | None:
        """Run the cycle. None: a plugin has more to do, and the cycle continues later. `started`: now."""
        if framework.metrics is not None:
            framework.metrics.begin_cycle()
        decision = call(self._algorithm.schedule, framework, queued.pod, check=None, failed=Raised)
        if isinstance(decision, Raised):
            return self.broken(queued, decision.cause, started=started)
        if unfinished_of(decision.status) is not None:
            return None
        return self.conclude(framework, queued, decision, started=started)

    def broken(self, queued: QueuedPod, cause: BaseException, *, started: float) -> Failure:
        """The failure for an unexpected exception, such as a plugin returning an invalid value.

        Only this attempt fails.
        """
        self._metrics.decided(started)
        _log.error(cause, "the scheduling cycle failed", trace=True, pod=queued.pod)
        return Failure(status=raised(cause))

    def conclude(
        self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float
    ) -> Attempt | Failure:
        """Record the decision and assume the pod, within the same step."""
        self.note(framework, queued, decision, started=started)
        return self.assume(framework, queued, decision, started=started) if decision.node_name else undecided(decision)

    def note(self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float) -> None:
        """Record the decision in metrics, stories and listeners."""
        if self._metrics.counts:
            self._metrics.decided(started)
        if self._stories.kept:
            seconds = self._metrics.now() - started
            self._stories.decided(
                attempt_outcome(decision, time=self._stories.now(), attempt=queued.attempts, seconds=seconds)
            )
        if self._listener is not None:
            self._listener.decided(decision)
        if not decision.node_name and decision.diagnosis is not None:
            _log_filters(framework, decision)

    def assume(
        self, framework: Framework, queued: QueuedPod, decision: Decision, *, started: float
    ) -> Attempt | Failure:
        """Place the pod on the chosen node, if Reserve and Permit succeed."""
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
        )
        failure = self._take(attempt)
        if failure is not None:
            return failure
        if pods := attempt.state.take_pods_to_activate():
            self._queue.activate(pods)
        return attempt

    def _take(self, attempt: Attempt) -> Failure | None:
        """Assume the pod and run Reserve and Permit; undo everything on failure."""
        try:
            reservation = reserve(attempt.framework, attempt.state, attempt.pod, attempt.node_name)
        except ValueError as e:
            _log.error(e, "Scheduler cache AssumePod failed", pod=attempt.pod)
            return Failure(status=error(e))
        if reservation is None:
            attempt.goes_straight = True
            return None
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            return failure_of(reservation.failed)
        if reservation.permit_timeouts:
            self._wait_on_permit(attempt, reservation.permit_timeouts)
        return None

    def _wait_on_permit(self, attempt: Attempt, timeouts: Mapping[str, float]) -> None:
        attempt.permit_timeouts = timeouts
        self._waiting_pods.add(attempt.pod, timeouts)
        self._stories.step(
            attempt.pod.key, attempt.pod.uid, "waits on Permit", ", ".join(timeouts), f"for {attempt.node_name}"
        )


def failure_of(status: Status) -> Failure:
    """The failure for a rejection or error of Reserve, Permit, or waiting on Permit."""
    return refused_by_node(status) if status.rejected else Failure(status=status)


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


def undecided(decision: Decision) -> Failure:
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
