"""The binding cycle: from an assumed pod to one that is bound in the API server.

One coroutine per pod; any number run at once, beside the scheduling cycles. It may wait (for Permit, for PreBind, for
the API server), so the pod may be deleted, preempted, or bound by another scheduler meanwhile. Any failure undoes
what was reserved and leaves the pod to the failure handler.

Upstream: bindingCycle and handleBindingCycleError in pkg/scheduler/schedule_one.go;
docs/behaviour.md, Assume, Reserve, Permit, bind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stowplan.api.api_errors import ApiError
from stowplan.api.decode import DecodeError
from stowplan.api.port import Unreachable
from stowplan.engine.attempt import Failure, on_node
from stowplan.engine.scheduling_cycle import activate, failure_of
from stowplan.framework.binding import (
    PreFlight,
    pre_bind_groups,
    run_bind,
    run_post_bind,
    run_pre_bind,
    run_pre_bind_pre_flights,
    run_unreserve,
)
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.framework.metrics import ended
from stowplan.framework.status import Code, Status, error
from stowplan.framework.waiting_pods import permit_outcome
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.engine.attempt import Attempt
    from stowplan.engine.attempt_metrics import AttemptMetrics
    from stowplan.engine.failure_handler import FailureHandler
    from stowplan.framework.runtime import Framework
    from stowplan.framework.waiting_pods import PodInPreBind, PodsInPreBind, WaitingPod, WaitingPods
    from stowplan.inspection.stories import Stories
    from stowplan.live.status_writer import PodStatusWriter
    from stowplan.queue.scheduling_queue import SchedulingQueue
    from stowplan.timing.times import Times

#: A plugin whose own task was cancelled raises CancelledError although the binding cycle is not cancelled.
CANCELLED = "a plugin gave up: what it waited for was cancelled"

_log = get_logger(__name__)


class BindingCycle:
    def __init__(
        self,
        *,
        state: ClusterState,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        pods_in_pre_bind: PodsInPreBind,
        statuses: PodStatusWriter,
        failures: FailureHandler,
        stories: Stories,
        times: Times,
        metrics: AttemptMetrics,
        report: Callable[[str], None],
    ) -> None:
        self._state = state
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._pods_in_pre_bind = pods_in_pre_bind
        self._statuses = statuses
        self._failures = failures
        self._stories = stories
        self._times = times
        self._metrics = metrics
        self._report = report

    async def run(self, attempt: Attempt) -> None:
        self._metrics.binding.value += 1
        try:
            await self._run(attempt)
        finally:
            self._metrics.binding.value -= 1

    async def _run(self, attempt: Attempt) -> None:
        try:
            failure = await self._bound(attempt)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            failure = Failure(status=error(CANCELLED))
        if failure is None:
            await self._succeeded(attempt)
        else:
            self._failed(attempt, failure)

    async def _bound(self, attempt: Attempt) -> Failure | None:
        """Every step up to the binding; the first that fails ends it."""
        pod, framework = attempt.pod, attempt.framework
        failed, flights = self._pre_flights(attempt)
        if failed is not None:
            self._waiting_pods.remove(pod.uid)
            return Failure(status=failed)
        acts = any(flight.acts for flight in flights)
        waiting = self._waiting_pods.get(pod.uid) if attempt.permit_timeouts else None
        if self._announces_node(framework) and (waiting is not None or acts):
            await self._announce(attempt)
        if waiting is not None:
            _log.v(4).info("Pod waiting on permit", pod=pod)
            failed = permit_outcome(await self._decision(waiting))
            if failed is not None:
                _log.v(4).info("Pod rejected while waiting on permit", pod=pod, status=failed.message)
                return failure_of(failed)
        # From here on failures are errors; events that came during the attempt do not matter any more.
        self._queue.done(pod.uid)
        failed = await self._pre_bound(attempt, flights if acts else ())
        if failed is not None:
            return Failure(status=failed)
        # The status of an earlier attempt must not be written after the binding.
        await self._statuses.withdraw(pod.uid)
        started = attempt.metrics.now()
        failed = await run_bind(framework, attempt.state, pod, attempt.node_name)
        attempt.metrics.points["Bind"].ran(started, ended(failed))
        if failed is None:
            return None
        _log.v(1).info("Failed to bind pod", pod=pod)
        return Failure(status=failed)

    def _announces_node(self, framework: Framework) -> bool:
        return framework.handle.features.enabled("NominatedNodeNameForExpectation")

    def _pre_flights(self, attempt: Attempt) -> tuple[Status | None, Sequence[PreFlight]]:
        """Which PreBind plugins will act; without the feature gate all of them, one after the other."""
        framework = attempt.framework
        if not self._announces_node(framework):
            return None, [PreFlight(plugin.name) for plugin in framework.pre_bind]
        acting, flights = run_pre_bind_pre_flights(framework, attempt.state, attempt.pod, attempt.node_name)
        return (None if acting.code in (Code.Success, Code.Skip) else acting), flights

    async def _announce(self, attempt: Attempt) -> None:
        """Write the expected node into the pod's status, as binding takes a while."""
        try:
            await self._statuses.patch(attempt.pod.pod, nominated_node_name=attempt.node_name)
        except (ApiError, Unreachable, DecodeError) as e:
            _log.error(e, "Failed to update the nominated node name in the binding cycle", pod=attempt.pod)

    # -- waiting on Permit --------------------------------------------------------------------------------------------

    async def _decision(self, waiting: WaitingPod) -> Status:
        started = self._metrics.now()
        decided: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        waiting.on_decided(lambda status: None if decided.done() else decided.set_result(status))
        timer = asyncio.create_task(self._expire(waiting))
        try:
            decision = await decided
        finally:
            timer.cancel()
            self._waiting_pods.remove(waiting.uid)
        self._metrics.waited(decision, started)
        self._stories.step(
            waiting.pod.key,
            waiting.uid,
            f"wait on Permit ended: {decision.code.name}",
            decision.plugin,
            decision.message,
        )
        return decision

    async def _expire(self, waiting: WaitingPod) -> None:
        """Reject the pod when its time is up; which moment that is may move while plugins allow it."""
        while (deadline := waiting.next_deadline) is not None:
            await self._times.sleep(max(0.0, deadline - self._times.clock()))
            waiting.expire()

    # -- PreBind ------------------------------------------------------------------------------------------------------

    async def _pre_bound(self, attempt: Attempt, flights: Sequence[PreFlight]) -> Status | None:
        """Run PreBind, if any plugin acts; the metric is recorded either way."""
        started = attempt.metrics.now()
        failed = await self._prepared(attempt, flights) if flights else None
        attempt.metrics.points["PreBind"].ran(started, ended(failed))
        return failed

    async def _prepared(self, attempt: Attempt, flights: Sequence[PreFlight]) -> Status | None:
        """Run PreBind as a task of its own, which preemption may cancel until it is through."""
        pod = attempt.pod
        groups = pre_bind_groups(flights)
        task = asyncio.create_task(
            run_pre_bind(attempt.framework, attempt.state, pod, attempt.node_name, groups, gather=_side_by_side)
        )
        stoppable = self._pods_in_pre_bind.add(pod.uid, lambda reason: _cancel(task, reason))
        try:
            failed = await _finished(task, stoppable)
            if not stoppable.mark_prebound():
                return error(stoppable.cancelled_for or "")
            return failed
        finally:
            task.cancel()
            self._pods_in_pre_bind.remove(pod.uid)

    # -- the two ends -------------------------------------------------------------------------------------------------

    async def _succeeded(self, attempt: Attempt) -> None:
        pod, node_name = attempt.pod, attempt.node_name
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Successfully bound pod to node",
                pod=pod,
                node=node_name,
                evaluatedNodes=attempt.evaluated,
                feasibleNodes=attempt.feasible,
            )
        queued = attempt.queued
        self._metrics.scheduled(queued, profile=attempt.framework.profile_name, started=attempt.started)
        if queued.was_flushed:
            _log.v(4).info(
                "Pod scheduled after flush from unschedulablePods",
                pod=pod,
                unschedulablePlugins=sorted(queued.unschedulable_plugins),
                pendingPlugins=sorted(queued.pending_plugins),
            )
        self._stories.step(pod.key, pod.uid, "bound", "", node_name)
        recorder = attempt.framework.handle.event_recorder
        if recorder is not None:
            note = f"Successfully assigned {pod.key} to {node_name}"
            # Parity: about the pod as it was tried, even if its binding has been seen already.
            recorder.event(queued.pod.pod, type_="Normal", reason="Scheduled", action="Binding", note=note)
        for problem in await self._post_bound(attempt):
            self._report(problem)
        activate(self._queue, attempt.state)

    async def _post_bound(self, attempt: Attempt) -> Sequence[str]:
        started = attempt.metrics.now()
        try:
            return await run_post_bind(attempt.framework, attempt.state, attempt.pod, attempt.node_name)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return [f"PostBind of {attempt.pod.key}: {CANCELLED}"]
        finally:
            attempt.metrics.points["PostBind"].ran(started)

    def _failed(self, attempt: Attempt, failure: Failure) -> None:
        pod = attempt.pod
        self._stories.step(pod.key, pod.uid, "not bound", failure.status.plugin, failure.message)
        for problem in run_unreserve(attempt.framework, attempt.state, pod, attempt.node_name):
            self._report(problem)
        was = on_node(attempt.queued.pod.pod, attempt.node_name)
        forgotten = self._forget(pod)
        if failure.status.rejected:
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)
            if forgotten:
                # The pod itself must not be woken by its own leaving.
                self._queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=lambda info: info.uid != pod.uid)
        else:
            if forgotten:
                self._queue.move_all(ASSIGNED_POD_DELETE, was, None)
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)

    def _forget(self, pod: PodInfo) -> bool:
        """Take the assumed pod back; False when it is bound after all, by any scheduler."""
        try:
            self._state.forget(pod)
        except ValueError as e:
            _log.error(e, "ForgetPod failed", pod=pod)
            return False
        return True


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _cancel(task: asyncio.Task[Status | None], reason: str) -> None:
    task.cancel(reason)


async def _finished(task: asyncio.Task[Status | None], stoppable: PodInPreBind) -> Status | None:
    """The task's answer; a cancellation is none if it was the pod that was stopped, not us."""
    try:
        answer = await task
    except asyncio.CancelledError:
        if stoppable.cancelled_for is None:
            raise
        return error(stoppable.cancelled_for)
    if _is_cancelled():
        # A plugin swallowed our cancellation; without this, Bind would come next.
        raise asyncio.CancelledError
    return answer


async def _side_by_side(runs: Sequence[Coroutine[Any, Any, Status | None]], *, cause: str) -> Status | None:
    """The first failure, after the others were cancelled for it."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        for done in asyncio.as_completed(tasks):
            failed = await done
            if failed is not None:
                return failed
        return None
    finally:
        for task in tasks:
            task.cancel(cause)
        await asyncio.gather(*tasks, return_exceptions=True)
