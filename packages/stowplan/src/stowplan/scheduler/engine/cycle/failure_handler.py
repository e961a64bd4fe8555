"""Handle a failed attempt: requeue, nomination, Event, pod condition.

Upstream: handleSchedulingFailure in pkg/scheduler/schedule_one.go; docs/reference/behaviour.md, Failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api.types import PodCondition
from stowplan.kube.klog import get_logger
from stowplan.kube.klog.value_text import stack_trace
from stowplan.scheduler.cluster.pod_info import group_key, scheduler_name_of
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE, NO_NODES
from stowplan.scheduler.engine.decision.error_locations import LoggedLocations
from stowplan.scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Container

    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.attempt import Failure
    from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
    from stowplan.scheduler.engine.decision.decision_listener import DecisionListener
    from stowplan.scheduler.engine.reporter import Reporter
    from stowplan.scheduler.engine.statuses import PodStatuses
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod
    from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

_log = get_logger(__name__)


class FailureHandler:
    def __init__(
        self,
        *,
        state: ClusterState,
        profiles: Container[str],
        queue: SchedulingQueue,
        statuses: PodStatuses,
        metrics: AttemptMetrics,
        reporter: Reporter,
        listener: DecisionListener | None = None,
        schedules_groups: bool = False,
    ) -> None:
        """`schedules_groups`: whether pods of a group are tried together."""
        self._schedules_groups = schedules_groups
        self._listener = listener
        self._state = state
        self._profiles = profiles
        self._queue = queue
        self._statuses = statuses
        self._metrics = metrics
        self._reporter = reporter
        self._locations = LoggedLocations()

    def handle(self, framework: Framework, queued: QueuedPod, failure: Failure, *, started: float) -> None:
        """`started`: when the attempt began."""
        if self._listener is not None:
            self._listener.failed(queued, failure)
        self._metrics.failed(failure.status, profile=framework.profile_name, started=started)
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
            raised = self._locations.first_error_at(failure.status)
            trace: dict[str, Any] = {} if raised is None else {"stacktrace": stack_trace(raised)}
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
