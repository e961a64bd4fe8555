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
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.engine.outbox import Alarm
from stowplan.scheduler.engine.schedule_one import (
    Attempt,
    AttemptTracer,
    DecisionListener,
    Failure,
    FailureHandler,
    failure_of,
    on_node,
)
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.framework.boundary import At, Ended, Raised, call, close, resume
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.interface import RequestBinder
from stowplan.scheduler.framework.requests import (
    Ask,
    Bind,
    Done,
    InvalidStepError,
    Outcome,
    Request,
    Steps,
    Wait,
    is_retriable,
    problem_of,
)
from stowplan.scheduler.framework.runtime.binding import (
    OTHER_PRE_BIND_FAILED,
    announces_node,
    bind_request,
    bound_by_extender,
    failure_at,
    method_of,
    pre_bind_groups,
    pre_flights,
    run_unreserve,
)
from stowplan.scheduler.framework.runtime.metrics import ended
from stowplan.scheduler.framework.status import SKIP, Code, Status, error, raised, well_formed
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
_POINTS = {BindingStage.PRE_BIND: "PreBind", BindingStage.BIND: "Bind", BindingStage.POST_BIND: "PostBind"}
#: No binder.
_NOBODY: Iterator[str | Extender] = iter(())


@mypyc_attr(allow_interpreted_subclasses=True)
class BindingCycles:
    """The binding cycles in progress."""

    def __init__(
        self,
        context: EngineContext,
        *,
        statuses: PodStatuses,
        failures: FailureHandler,
        metrics: AttemptMetrics | None,
        listener: DecisionListener | None = None,
        tracer: AttemptTracer | None = None,
    ) -> None:
        self.context = context
        self.statuses = statuses
        self.failures = failures
        self.metrics = metrics
        self.listener = listener
        self.tracer = tracer
        #: By the pod's UID.
        self.under_way: dict[str, BindingCycle] = {}
        #: Writes without an outcome yet.
        self.writes = 0

    @property
    def asleep(self) -> int:
        """Bindings that wait for a time, or for objects to change."""
        return sum(bool(b.calls) and all(call.is_asleep for call in b.calls) for b in self.under_way.values())

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
        if not self.calls:
            self._pre_bound()

    def _begin_group(self, plugins: tuple[str, ...]) -> None:
        calls = [PluginCall(self, plugin) for plugin in plugins]
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
            self._alone(framework.request_binder.name).send_request(framework.request_binder)
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

    def _next_binder(self, skipped: Status) -> None:
        binder = next(self.binders, None)
        if binder is None:
            self._bound(skipped)
        elif isinstance(binder, str):
            self._alone(binder).begin()
        else:
            plugin_call = self._alone(binder.name, is_extenders=True)
            plugin_call.steps = bound_by_extender(binder, self.attempt.pod, self.attempt.node_name)
            plugin_call.step(None)

    def _alone(self, name: str, *, is_extenders: bool = False) -> PluginCall:
        plugin_call = PluginCall(self, name, is_extenders)
        self.calls = [plugin_call]
        return plugin_call

    def call_ended(self, plugin_call: PluginCall, answer: Status | None) -> None:
        if plugin_call in self.calls:
            self.calls.remove(plugin_call)
        if self.stage is BindingStage.POST_BIND:
            if answer is not None:
                self.problems.append(f'running PostBind plugin "{plugin_call.plugin}": {answer.message}')
            self._next_post_bind()
            return
        failed = answer
        if answer is not None:
            attempt = self.attempt
            if self.stage is BindingStage.BIND and answer.code == Code.Skip:
                self._next_binder(answer)
                return
            if not plugin_call.is_extenders:
                point = _POINTS[self.stage]
                failed = failure_at(point, plugin_call.plugin, answer, attempt.pod, attempt.node_name)
        if self.stage is BindingStage.BIND:
            self._bound(failed)
        else:
            self._group_member_ended(failed)

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
            self._alone(plugin).begin()
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


@mypyc_attr(native_class=True)
class PluginCall(PlainStruct, eq=False):
    """A PreBind, Bind or PostBind call in progress: a coroutine that the driver runs, a request, or steps.

    Also used for an extender that binds.
    """

    binding: BindingCycle
    #: The name of the plugin or extender.
    plugin: str
    is_extenders: bool = False
    steps: Steps | None = None
    #: The binder whose request is in progress, if the call is only a request.
    binder: RequestBinder | None = None
    #: The effect that it waits for; 0 if none.
    number: int = 0
    #: Whether that effect is a write.
    writes: bool = False
    #: The effect, and the step in which it was emitted.
    action: Request | Ask | RunPlugin | None = None
    asked: float = 0.0
    started: float = 0.0
    #: When it started to wait for objects or a time.
    asleep_since: float = 0.0
    woken_by: Alarm | None = None

    def __str__(self) -> str:
        return f"call of {self.plugin} in the {self.binding}"

    @property
    def is_asleep(self) -> bool:
        """Whether it waits for something other than the driver."""
        return self.steps is not None and not self.number

    @property
    def _point(self) -> str:
        return _POINTS[self.binding.stage]

    @property
    def _at(self) -> At | None:
        return None if self.is_extenders else (self._point, self.binding.attempt.framework.plugins[self.plugin])

    def begin(self) -> None:
        attempt, framework, point = self.binding.attempt, self.binding.attempt.framework, self._point
        if self.plugin in framework.stepping[point]:
            if framework.metrics is not None:
                self.started = framework.metrics.now()
            method = method_of(framework, point, self.plugin)
            steps = call(method, attempt.state, attempt.pod, attempt.node_name, check=None, failed=raised, at=self._at)
            if isinstance(steps, Status):
                self.binding.call_ended(self, steps)
                return
            self.steps = steps
            self.step(None)
            return
        action = RunPlugin(
            profile=framework.profile_name,
            point=point,
            plugin=self.plugin,
            pod=attempt.pod.key,
            uid=self.binding.uid,
            node=attempt.node_name,
        )
        self._ask(action, writes=self.binding.stage is BindingStage.BIND)

    def send_request(self, binder: RequestBinder) -> None:
        """Call a Bind plugin that only sends a request: no generator is needed."""
        attempt = self.binding.attempt
        self.binder, self.started = binder, self.binding.started
        at = "Bind", binder
        request = call(binder.bind_request, attempt.pod, attempt.node_name, check=bind_request, required=True, at=at)
        if isinstance(request, Status):
            self._answered(request)
            return
        # As `_ask`, which every other call takes: nearly all pods are bound here.
        cycles = self.binding.cycles
        self.number, self.writes = cycles.context.outbox.ask(request, self), True
        self.action, self.asked = request, cycles.context.outbox.now
        cycles.writes += 1

    def _ask(self, action: Request | Ask | RunPlugin, *, writes: bool) -> None:
        cycles = self.binding.cycles
        self.number, self.writes = cycles.context.outbox.ask(action, self), writes
        self.action, self.asked = action, cycles.context.outbox.now
        cycles.writes += writes

    def answered(self, number: int, outcome: Outcome) -> None:
        # Before the outcome is handled, which may ask for the next thing.
        self.binding.cycles.writes -= self.writes
        self.writes, self.number = False, 0
        attempt, metrics = self.binding.attempt, self.binding.attempt.framework.metrics
        if metrics is not None and attempt.parts is not None:
            # The stage may have begun within the step.
            began, now = self.binding.started + metrics.ahead, self.binding.cycles.context.outbox.now
            asked = began if began > self.asked else self.asked
            attempt.parts += ((self.action, asked, now - asked, outcome),)
        if self.binder is not None:
            self._request_answered(self.binder, outcome)
        elif self.steps is not None:
            self.step(outcome)
        elif isinstance(outcome, Done):
            self.binding.call_ended(self, outcome.value)
        else:
            self.binding.call_ended(self, error(outcome.error))

    def _request_answered(self, binder: RequestBinder, outcome: Outcome) -> None:
        if binder.retry_delays and is_retriable(outcome):
            attempt, at = self.binding.attempt, ("Bind", binder)
            self.binder = None
            steps = call(binder.bind_again, outcome, attempt.pod, attempt.node_name, check=None, failed=raised, at=at)
            if isinstance(steps, Status):
                self._answered(steps)
                return
            self.steps = steps
            self.step(None)
        else:
            self._answered(call(binder.bind_answer, outcome, at=("Bind", binder)))

    def step(self, outcome: Outcome | None) -> None:
        """Resume steps with an outcome, up to the next thing that they wait for."""
        assert self.steps is not None
        request = resume(self.steps, outcome, self._at)
        if isinstance(request, Ended):
            self._answered(self._answer_of_steps(request.value))
        elif isinstance(request, Raised):
            self._answered(error(request.cause) if self.is_extenders else raised(request.cause))
        elif isinstance(request, Wait):
            self._sleep(request)
        elif (odd := self._problem_of(request)) is None:
            # An extender that does not answer must not block other bindings.
            self._ask(request, writes=not self.is_extenders)
        else:
            self.end_steps()
            self._answered(error(odd))

    def _problem_of(self, request: Request | Ask) -> Exception | None:
        # The subject of a Bind is always valid.
        if type(request) is Bind or (self.is_extenders and isinstance(request, Ask)):
            return None
        return problem_of(request) if isinstance(request, Request) else InvalidStepError(request)

    def _answer_of_steps(self, answer: object) -> Status | None:
        if self.binding.stage is BindingStage.POST_BIND:
            # PostBind has no result.
            return None
        try:
            return well_formed(answer)
        except TypeError as e:
            return raised(e, method_of(self.binding.attempt.framework, self._point, self.plugin))

    def _sleep(self, wait: Wait) -> None:
        outbox = self.binding.cycles.context.outbox
        self.asleep_since = outbox.now
        self._set_alarm(None if wait.seconds is None else outbox.wake(outbox.now + wait.seconds, self))
        for key in wait.keys:
            outbox.watch(key, self)

    def _set_alarm(self, alarm: Alarm | None) -> None:
        if self.woken_by is not None:
            self.woken_by.cancel()
        self.woken_by = alarm

    def is_woken_by(self, alarm: Alarm) -> bool:
        return alarm is self.woken_by

    def on_wake(self) -> None:
        """An object that it waits for has changed, or its time has come."""
        # It may have been ended in this step, after it was woken.
        if self in self.binding.calls:
            outbox = self.binding.cycles.context.outbox
            self._set_alarm(None)
            outbox.unwatch(self)
            self.step(Done(outbox.now - self.asleep_since))

    def end_steps(self) -> None:
        """Close steps while they are waiting."""
        cycles = self.binding.cycles
        self._set_alarm(None)
        cycles.context.outbox.unwatch(self)
        if self.number:
            cycles.context.outbox.withdraw(self.number)
            cycles.writes -= self.writes
            self.writes, self.number = False, 0
        assert self.steps is not None
        if (failed := close(self.steps, self._at)) is not None:
            cycles.context.reporter.report(f'plugin "{self.plugin}", aborted in {self._point}: {failed}')

    def _answered(self, answer: Status | None) -> None:
        """A call that is not a coroutine of the driver has ended."""
        times = self.binding.attempt.state.plugin_times
        if times is not None and not self.is_extenders:
            times.ended(self._point, self.plugin, self.started, answer)
        self.binding.call_ended(self, answer)
