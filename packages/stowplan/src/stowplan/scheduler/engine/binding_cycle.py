"""The binding cycle: from an assumed pod to a bound one.

One record per pod. It waits for something (a status write, Permit, PreBind, the API server) and continues with the
outcome, so in the meantime the pod may be deleted, preempted, or bound by another scheduler. Any failure undoes the
reservation and passes the pod to the failure handler.

    announcing    write the chosen node to the pod's status, as the binding will take a while
    permit        plugins make it wait
    pre-bind      plugins prepare the binding, group by group
    withdrawing   an earlier status write is in progress, and must not take effect after the binding
    bind          by an interested extender, else by the first plugin that does not return Skip
    post-bind     plugins are notified

Upstream: bindingCycle and handleBindingCycleError in pkg/scheduler/schedule_one.go;
docs/reference/behaviour.md, Assume, Reserve, Permit, bind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.binding_calls import PluginCall
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.outbox import Alarm
from stowplan.scheduler.engine.schedule_one import (
    Attempt,
    Failure,
    FailureHandler,
    Observers,
    failure_of,
    on_node,
)
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.interface import RequestBinder
from stowplan.scheduler.framework.requests import Bind, Outcome, is_retriable
from stowplan.scheduler.framework.runtime.binding import (
    OTHER_PRE_BIND_FAILED,
    announces_node,
    bind_request,
    bound_by_extender,
    failure_at,
    pre_bind_groups,
    pre_flights,
    run_unreserve,
)
from stowplan.scheduler.framework.runtime.metrics import ended
from stowplan.scheduler.framework.status import SKIP, Code, Status, error, raised
from stowplan.scheduler.framework.waiting_pods import PodInPreBind, WaitingPod, permit_outcome

_log = get_logger(__name__)


class BindingStage(Enum):
    # Members are keys on the hot path, and Enum's own hash is Python code.
    __hash__ = object.__hash__

    BEGUN = "begun"
    ANNOUNCING = "announcing"
    PERMIT = "permit"
    PRE_BIND = "pre-bind"
    WITHDRAWING = "withdrawing"
    BIND = "bind"
    POST_BIND = "post-bind"
    OVER = "over"


#: The stages in which the pod is in flight: events that may help it are still recorded.
IN_FLIGHT = (BindingStage.ANNOUNCING, BindingStage.PERMIT)
#: No binder.
_NOBODY: Iterator[str | Extender] = iter(())


@mypyc_attr(allow_interpreted_subclasses=True)
class BindingCycles:
    """The binding cycles in progress."""

    def __init__(self, context: EngineContext, *, failures: FailureHandler, observers: Observers) -> None:
        self.context = context
        self.statuses = context.statuses
        self.failures = failures
        self.metrics = observers.metrics
        self.listener = observers.listener
        self.tracer = observers.tracer
        #: By the pod's UID.
        self.under_way: dict[str, BindingCycle] = {}
        #: Writes without an outcome yet.
        self.writes = 0

    @property
    def asleep(self) -> int:
        """Bindings that wait for a time, or for objects to change."""
        return sum(bool(b.calls) and all(call.sleep is not None for call in b.calls) for b in self.under_way.values())

    def begin(self, attempt: Attempt) -> None:
        if self.metrics is not None:
            self.metrics.binding_began()
        binding = self.under_way[attempt.pod.uid] = BindingCycle(self, attempt)
        if attempt.skip_to_bind:
            # The common case: no Permit wait, no PreBind work, and no metrics for either.
            self.context.queue.done(attempt.pod.uid)
            binding.withdraw()
        else:
            binding.begin()
        if attempt.framework.metrics is not None:
            # From here on it is no longer the current one.
            attempt.framework.metrics.parts = None


@mypyc_attr(native_class=True)
class BindingCycle(PlainStruct, eq=False):
    """One pod's binding cycle."""

    cycles: BindingCycles
    attempt: Attempt
    stage: BindingStage = BindingStage.BEGUN
    #: When the current stage began, by the stopwatch.
    started: float = 0.0
    waiting: WaitingPod | None = None
    timer: Alarm | None = None
    #: PreBind plugins that have not run yet, group by group.
    groups: list[tuple[str, ...]] = field(default_factory=list)
    stoppable: PodInPreBind | None = None
    calls: list[PluginCall] = field(default_factory=list)
    #: Whether a group of PreBind plugins is being started.
    begins: bool = False
    #: The failure that ends the current stage early.
    failed: Status | None = None
    #: The extenders and Bind plugins, or PostBind plugins, that have not run yet.
    binders: Iterator[str | Extender] = _NOBODY
    #: The Bind plugin whose request is in progress; the effect's number, 0 if none; the request, and its step's time.
    binder: RequestBinder | None = None
    number: int = 0
    request: Bind | None = None
    asked: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"binding of pod {self.attempt.pod.key}"

    @property
    def uid(self) -> str:
        return self.attempt.pod.uid

    def begin(self) -> None:
        cycles, attempt, uid = self.cycles, self.attempt, self.attempt.pod.uid
        failed, flights = pre_flights(attempt.framework, attempt.state, attempt.pod, attempt.node_name)
        if failed is not None:
            cycles.context.waiting_pods.remove(uid)
            self._fail(Failure(status=failed))
            return
        acts = any(flight.acts for flight in flights)
        if acts:
            self.groups = list(pre_bind_groups(flights))
        if attempt.permit_timeouts:
            self.waiting = cycles.context.waiting_pods.get(uid)
        if acts and announces_node(attempt.framework):
            self._announce()
        elif self.waiting is not None and announces_node(attempt.framework):
            # A complete gang proceeds with the last of its pods, in this step, so the wait need not be announced. The
            # reference writes a status for each of the other pods.
            cycles.context.outbox.at_step_end(self)
        else:
            self._wait_on_permit()

    def _announce(self) -> None:
        self.stage = BindingStage.ANNOUNCING
        if self.attempt.parts is not None:
            self.started = self.cycles.context.stopwatch.now()
        self.cycles.statuses.patch(self.attempt.pod.pod, self, nominated_node_name=self.attempt.node_name)

    def status_written(self, failed: Exception | None) -> None:
        """The chosen node was written to the pod's status, or writing it failed; or no earlier write is in progress."""
        # Whatever became of the earlier write, it cannot come after the binding any more.
        if self.stage is BindingStage.WITHDRAWING:
            self._bind()
            return
        if (parts := self.attempt.parts) is not None:
            parts += (("PATCH Pod/status", self.started, self.cycles.context.outbox.now - self.started, failed),)
        if failed is not None:
            text = "Failed to update the nominated node name in the binding cycle"
            _log.error(failed, text, pod=self.attempt.pod)
        self._wait_on_permit()

    # -- wait on Permit -----------------------------------------------------------------------------------------------

    def _wait_on_permit(self) -> None:
        waiting = self.waiting
        if waiting is None:
            self._pre_bind()
            return
        _log.v(4).info("Pod waiting on permit", pod=self.attempt.pod)
        self.stage, self.started = BindingStage.PERMIT, self.cycles.context.stopwatch.now()
        waiting.on_decided(self.go_on_at_step_end)
        self._set_timer(waiting)

    def go_on_at_step_end(self, why: object) -> None:
        """Permit was decided, or PreBind is aborted for preemption.

        Called in the middle of something else, such as another pod's cycle, which must end first.
        """
        self.cycles.context.outbox.at_step_end(self)

    def _set_timer(self, waiting: WaitingPod) -> None:
        deadline = waiting.next_deadline
        self.timer = None if deadline is None else self.cycles.context.outbox.wake(deadline, self)

    def on_wake(self) -> None:
        """Permit was decided or may have timed out, PreBind was aborted, or the step of the binding's start ends."""
        if self.stage is BindingStage.BEGUN:
            assert self.waiting is not None
            if self.waiting.decision is None:
                self._announce()
            else:
                self._wait_on_permit()
        elif self.stage is BindingStage.PERMIT:
            assert self.waiting is not None
            if self.waiting.expire():
                # Permit was decided now, which wakes the binding again.
                return
            if self.waiting.decision is None:
                # The next deadline changes as plugins allow the pod.
                self._set_timer(self.waiting)
            else:
                self._permit_decided(self.waiting.decision)
        elif self.stage is BindingStage.PRE_BIND and self.stoppable is not None and self.stoppable.cancelled_for:
            self._abort(self.stoppable.cancelled_for)
            if not self.calls:
                self._pre_bound()

    def _permit_decided(self, decision: Status) -> None:
        pod, context = self.attempt.pod, self.cycles.context
        if self.timer is not None:
            self.timer.cancel()
        context.waiting_pods.remove(pod.uid)
        if self.cycles.metrics is not None:
            self.cycles.metrics.waited(decision, self.started)
        if (parts := self.attempt.parts) is not None:
            parts += (("WaitOnPermit", self.started, context.stopwatch.now() - self.started, decision.code),)
        text = f"wait on Permit ended: {decision.code.name}"
        context.stories.step(pod.key, pod.uid, text, decision.plugin, decision.message)
        failed = permit_outcome(decision)
        if failed is None:
            self._pre_bind()
        else:
            _log.v(4).info("Pod rejected while waiting on permit", pod=pod, status=failed.message)
            self._fail(failure_of(failed))

    # -- PreBind ------------------------------------------------------------------------------------------------------

    def _pre_bind(self) -> None:
        """Run PreBind, if any plugin acts; the metric is recorded either way."""
        # From here on failures are errors, and events during the attempt no longer matter.
        self.cycles.context.queue.done(self.uid)
        self.stage = BindingStage.PRE_BIND
        if (metrics := self.attempt.framework.metrics) is not None:
            self.started = metrics.now()
        if self.groups:
            self.stoppable = self.cycles.context.pods_in_pre_bind.add(self.uid, self.go_on_at_step_end)
        self._next_group()

    @property
    def is_aborted(self) -> bool:
        """Whether PreBind is being aborted, so that no further plugin is called."""
        return self.failed is not None or (self.stoppable is not None and self.stoppable.cancelled_for is not None)

    def _next_group(self) -> None:
        while self.groups and not self.is_aborted and not self.calls:
            self._begin_group(self.groups.pop(0))
        # Also if aborted: this stage goes on until the last call has ended, as it may still write.
        if not self.calls:
            self._pre_bound()

    def _begin_group(self, plugins: tuple[str, ...]) -> None:
        calls = [PluginCall(self, "PreBind", plugin) for plugin in plugins]
        # A call may end within `begin`, and the next group must not start before the rest of this one.
        self.calls, self.begins = calls, True
        for plugin_call in tuple(calls):
            if self.is_aborted:
                # By an earlier call of the group, which failed at once.
                calls.remove(plugin_call)
            else:
                plugin_call.begin()
        self.begins = False

    def _group_member_ended(self, failed: Status | None) -> None:
        """The first failure of a group wins; the other calls are cancelled."""
        if failed is not None and self.failed is None:
            self.failed = failed
            self._abort(OTHER_PRE_BIND_FAILED)
        if not self.calls and not self.begins:
            self._next_group()

    def _abort(self, why: str) -> None:
        for plugin_call in tuple(self.calls):
            if plugin_call.steps is None:
                # The driver runs it: it goes on until its outcome arrives, and so does this stage.
                self.cycles.context.outbox.cancel(plugin_call.number, why)
            else:
                plugin_call.end_steps()
                self.calls.remove(plugin_call)

    def _pre_bound(self) -> None:
        failed, stoppable = self.failed, self.stoppable
        if stoppable is not None:
            if not stoppable.mark_prebound():
                # Cancelled for preemption after its last call had ended: the victim's room is promised to another pod.
                failed = error(stoppable.cancelled_for or "")
            self.cycles.context.pods_in_pre_bind.remove(self.uid)
        if (metrics := self.attempt.framework.metrics) is not None:
            metrics.points["PreBind"].ran(self.started, ended(failed), self.attempt.parts)
        if failed is not None:
            self._fail(Failure(status=failed))
        else:
            self.withdraw()

    # -- Bind ---------------------------------------------------------------------------------------------------------

    def withdraw(self) -> None:
        """Prevent a status write of an earlier attempt from taking effect after the binding."""
        self.stage = BindingStage.WITHDRAWING
        if not self.cycles.statuses.withdraw(self.attempt.pod.uid, self):
            self._bind()

    def _bind(self) -> None:
        attempt, framework = self.attempt, self.attempt.framework
        self.stage = BindingStage.BIND
        if framework.metrics is not None:
            self.started = framework.metrics.now()
        if framework.request_binder is not None:
            self._send_request(framework.request_binder)
            return
        binders: Sequence[str | Extender] = framework.points["bind"]
        if extenders := framework.handle.extenders():
            try:
                binders = [*(e for e in extenders if e.binds and e.is_interested(attempt.pod)), *binders]
            except Exception as e:
                self._bound(error(e))
                return
        self.binders = iter(binders)
        self._next_binder(SKIP)

    def _send_request(self, binder: RequestBinder) -> None:
        """Bind by a plugin that only sends a request, as nearly all pods are bound."""
        attempt, cycles, at = self.attempt, self.cycles, ("Bind", binder)
        request = call(binder.bind_request, attempt.pod, attempt.node_name, check=bind_request, required=True, at=at)
        if isinstance(request, Status):
            self._binder_answered(binder, request)
            return
        outbox = cycles.context.outbox
        self.binder, self.number = binder, outbox.ask(request, self)
        self.request, self.asked = request, outbox.now
        cycles.writes += 1

    def answered(self, number: int, outcome: Outcome) -> None:
        """The API server answered the binder's request."""
        attempt, binder = self.attempt, self.binder
        assert binder is not None
        # First: what follows may ask for the next thing.
        self.binder, self.number = None, 0
        self.cycles.writes -= 1
        if attempt.parts is not None:
            self.trace(self.request, self.asked, outcome)
        at = "Bind", binder
        if not (binder.retry_delays and is_retriable(outcome)):
            self._binder_answered(binder, call(binder.bind_answer, outcome, at=at))
            return
        steps = call(binder.bind_again, outcome, attempt.pod, attempt.node_name, check=None, failed=raised, at=at)
        if isinstance(steps, Status):
            self._binder_answered(binder, steps)
        else:
            self._alone(PluginCall(self, "Bind", binder.name, steps=steps, started=self.started)).step(None)

    def _binder_answered(self, binder: RequestBinder, answer: Status | None) -> None:
        times = self.attempt.state.plugin_times
        if times is not None:
            times.ended("Bind", binder.name, self.started, answer)
        self._binder_ended(answer, binder.name)

    def _next_binder(self, skipped: Status) -> None:
        binder = next(self.binders, None)
        if binder is None:
            self._bound(skipped)
        elif isinstance(binder, str):
            self._alone(PluginCall(self, "Bind", binder)).begin()
        else:
            steps = bound_by_extender(binder, self.attempt.pod, self.attempt.node_name)
            self._alone(PluginCall(self, "Bind", binder.name, is_extenders=True, steps=steps)).step(None)

    def _alone(self, plugin_call: PluginCall) -> PluginCall:
        self.calls = [plugin_call]
        return plugin_call

    def call_ended(self, plugin_call: PluginCall, answer: Status | None) -> None:
        if plugin_call in self.calls:
            self.calls.remove(plugin_call)
        plugin, attempt = plugin_call.plugin, self.attempt
        if plugin_call.point == "PostBind":
            if answer is not None:
                self.problems.append(f'running PostBind plugin "{plugin}": {answer.message}')
            self._next_post_bind()
        elif plugin_call.point == "PreBind":
            self._group_member_ended(failure_at("PreBind", plugin, answer, attempt.pod, attempt.node_name))
        else:
            self._binder_ended(answer, "" if plugin_call.is_extenders else plugin)

    def _binder_ended(self, answer: Status | None, plugin: str) -> None:
        """`plugin`: "" for an extender, whose failure is final as it is."""
        if answer is not None and answer.code == Code.Skip:
            self._next_binder(answer)
        elif answer is None or not plugin:
            self._bound(answer)
        else:
            self._bound(failure_at("Bind", plugin, answer, self.attempt.pod, self.attempt.node_name))

    def trace(self, action: object, asked: float, outcome: Outcome) -> None:
        """Note what a call waited for as a part of the traced attempt."""
        attempt, metrics = self.attempt, self.attempt.framework.metrics
        if metrics is not None and attempt.parts is not None:
            # The stage may have begun within the step.
            began, now = self.started + metrics.ahead, self.cycles.context.outbox.now
            since = began if began > asked else asked
            attempt.parts += ((action, since, now - since, outcome),)

    def _bound(self, failed: Status | None) -> None:
        attempt = self.attempt
        if (metrics := attempt.framework.metrics) is not None:
            metrics.points["Bind"].ran(self.started, ended(failed), attempt.parts)
        if failed is None:
            self._succeeded()
        else:
            _log.v(1).info("Failed to bind pod", pod=attempt.pod)
            self._fail(Failure(status=failed))

    # -- done or failed -----------------------------------------------------------------------------------------------

    def _succeeded(self) -> None:
        cycles, attempt = self.cycles, self.attempt
        pod, node_name, queued = attempt.pod, attempt.node_name, attempt.queued
        if _log.verbosity >= 2:
            _log.v(2).info(
                "Successfully bound pod to node",
                pod=pod,
                node=node_name,
                evaluatedNodes=attempt.evaluated,
                feasibleNodes=attempt.feasible,
            )
        if cycles.listener is not None:
            cycles.listener.bound(attempt)
        if cycles.metrics is not None:
            cycles.metrics.scheduled(queued, profile=attempt.framework.profile_name, started=attempt.started)
        if queued.was_flushed:
            _log.v(4).info(
                "Pod scheduled after flush from unschedulablePods",
                pod=pod,
                unschedulablePlugins=sorted(queued.unschedulable_plugins),
                pendingPlugins=sorted(queued.pending_plugins),
            )
        if cycles.context.stories.kept:
            cycles.context.stories.step(pod.key, pod.uid, "bound", "", node_name)
        recorder = attempt.framework.handle.event_recorder
        if recorder is not None:
            note = f"Successfully assigned {pod.key} to {node_name}"
            # Parity: the event refers to the pod as it was tried, even if its binding has already been observed.
            recorder.event(queued.pod.pod, type_="Normal", reason="Scheduled", action="Binding", note=note)
        self.stage = BindingStage.POST_BIND
        if attempt.framework.metrics is not None:
            self.started = attempt.framework.metrics.now()
        if plugins := attempt.framework.points["postBind"]:
            self.binders = iter(plugins)
            self._next_post_bind()
        else:
            self._done()

    def _next_post_bind(self) -> None:
        plugin = next(self.binders, None)
        if isinstance(plugin, str):
            self._alone(PluginCall(self, "PostBind", plugin)).begin()
        else:
            self._done()

    def _done(self) -> None:
        attempt, context = self.attempt, self.cycles.context
        if (metrics := attempt.framework.metrics) is not None:
            metrics.points["PostBind"].ran(self.started, parts=attempt.parts)
        if self.cycles.tracer is not None:
            self.cycles.tracer.bound(attempt)
        for problem in self.problems:
            context.reporter.report(problem)
        if pods := attempt.state.take_pods_to_activate():
            context.queue.activate(pods)
        self._over()

    def _fail(self, failure: Failure) -> None:
        """Release everything that the pod holds, and handle its failure."""
        attempt, context = self.attempt, self.cycles.context
        pod = attempt.pod
        # First: what follows may try the pod again, which must find no binding of it. Then the plugins, which unreserve
        # while the pod is on its node.
        self._over()
        if attempt.framework.metrics is not None:
            attempt.framework.metrics.parts = attempt.parts
        context.stories.step(pod.key, pod.uid, "not bound", failure.status.plugin, failure.message)
        for problem in run_unreserve(attempt.framework, attempt.state, pod, attempt.node_name):
            context.reporter.report(problem)
        was = on_node(attempt.queued.pod.pod, attempt.node_name)
        forgotten = self._forget(pod)
        if forgotten and not failure.status.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, was, None)
        self.cycles.failures.handle(
            attempt.framework, attempt.queued, failure, started=attempt.started, node_name=attempt.node_name
        )
        if forgotten and failure.status.rejected:
            # The pod must not be woken by its own removal.
            context.queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=lambda info: info.uid != pod.uid)

    def _forget(self, pod: PodInfo) -> bool:
        """Remove the assumed pod; False if it has been bound by any scheduler."""
        try:
            self.cycles.context.state.forget(pod)
        except ValueError as e:
            _log.unhandled(e, "ForgetPod failed", pod=pod)
            return False
        self.cycles.context.leaving.left(pod.uid)
        return True

    def _over(self) -> None:
        cycles, uid = self.cycles, self.attempt.pod.uid
        if cycles.metrics is not None:
            cycles.metrics.binding_ended()
        self.stage = BindingStage.OVER
        if cycles.under_way.get(uid) is self:
            del cycles.under_way[uid]
