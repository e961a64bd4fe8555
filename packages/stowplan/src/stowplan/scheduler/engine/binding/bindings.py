"""The binding cycle: from an assumed pod to a bound one.

One record per pod (`binding_records.py`). It waits for something (a status write, Permit, PreBind, the API server) and
continues with the outcome, so in the meantime the pod may be deleted, preempted, or bound by another scheduler. Any
failure undoes the reservation and passes the pod to the failure handler.

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

from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.binding.binding_records import Binding, PluginCall, Stage
from stowplan.scheduler.engine.binding.extenders import bound_by
from stowplan.scheduler.engine.cycle.scheduling_cycle import failure_of
from stowplan.scheduler.engine.decision.attempt import Failure, on_node
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.framework import boundary
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE
from stowplan.scheduler.framework.requests import Ask, Bind, Done, InvalidStepError, Request, Wait, problem_of
from stowplan.scheduler.framework.runtime.binding import (
    OTHER_PRE_BIND_FAILED,
    PreFlight,
    bind_request,
    failure_at,
    method_of,
    pre_bind_groups,
    run_pre_bind_pre_flights,
    run_unreserve,
)
from stowplan.scheduler.framework.runtime.metrics import ended
from stowplan.scheduler.framework.status import SKIP, Code, Status, error, raised, well_formed
from stowplan.scheduler.framework.waiting_pods import permit_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.cycle.failure_handler import FailureHandler
    from stowplan.scheduler.engine.decision.attempt import Attempt
    from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
    from stowplan.scheduler.engine.decision.decision_listener import DecisionListener
    from stowplan.scheduler.engine.parts import Parts
    from stowplan.scheduler.engine.statuses import PodStatuses
    from stowplan.scheduler.framework.extender import Extender
    from stowplan.scheduler.framework.interface import RequestBinder
    from stowplan.scheduler.framework.requests import Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.waiting_pods import WaitingPod

_log = get_logger(__name__)


class Bindings:
    """The binding cycles in progress."""

    def __init__(
        self,
        parts: Parts,
        *,
        statuses: PodStatuses,
        failures: FailureHandler,
        metrics: AttemptMetrics,
        listener: DecisionListener | None = None,
    ) -> None:
        self._listener = listener
        self.outbox = parts.outbox
        self._state = parts.state
        self._waiting_pods = parts.waiting_pods
        self._pods_in_pre_bind = parts.pods_in_pre_bind
        self._parts = parts
        self._stories = parts.stories
        self._reporter = parts.reporter
        self._statuses = statuses
        self._failures = failures
        self._metrics = metrics
        #: By the pod's UID.
        self.under_way: dict[str, Binding] = {}
        #: Writes without an outcome yet.
        self.writes = 0

    @property
    def asleep(self) -> int:
        """Bindings that wait for a time, or for objects to change."""
        return sum(bool(b.calls) and all(call.is_asleep for call in b.calls) for b in self.under_way.values())

    def begin(self, attempt: Attempt) -> None:
        if self._metrics.counts:
            self._metrics.binding_began()
        pod, framework = attempt.pod, attempt.framework
        binding = self.under_way[pod.uid] = Binding(self, attempt)
        if attempt.goes_straight:
            # The common case: no Permit wait, no PreBind work, and no metrics for either.
            self._parts.queue.done(pod.uid)
            self._withdraw(binding)
            return
        failed, flights = self._pre_flights(attempt)
        if failed is not None:
            self._waiting_pods.remove(pod.uid)
            self._fail(binding, Failure(status=failed))
            return
        acts = any(flight.acts for flight in flights)
        if acts:
            binding.groups = list(pre_bind_groups(flights))
        if attempt.permit_timeouts:
            binding.waiting = self._waiting_pods.get(pod.uid)
        if acts and _announces_node(framework):
            self._announce(binding)
        elif binding.waiting is not None and _announces_node(framework):
            # A complete gang proceeds with the last of its pods, in this step, so the wait need not be announced. The
            # reference writes a status for each of the other pods.
            self.outbox.soon(binding)
        else:
            self._wait(binding)

    def _announce(self, binding: Binding) -> None:
        binding.stage = Stage.ANNOUNCING
        self._statuses.patch(binding.attempt.pod.pod, binding, nominated_node_name=binding.attempt.node_name)

    def _pre_flights(self, attempt: Attempt) -> tuple[Status | None, Sequence[PreFlight]]:
        """The PreBind plugins that will act; without the feature gate all of them, one after the other."""
        framework = attempt.framework
        if not framework.pre_bind:
            return None, ()
        if not _announces_node(framework):
            called = framework.plugins_to_call(attempt.state, attempt.pod).pre_bind
            return None, [PreFlight(plugin.name) for plugin in called]
        acting, flights = run_pre_bind_pre_flights(framework, attempt.state, attempt.pod, attempt.node_name)
        return (None if acting.code in (Code.Success, Code.Skip) else acting), flights

    def announced(self, binding: Binding, failed: Exception | None) -> None:
        if failed is not None:
            text = "Failed to update the nominated node name in the binding cycle"
            _log.error(failed, text, pod=binding.attempt.pod)
        self._wait(binding)

    # -- waiting on Permit --------------------------------------------------------------------------------------------

    def _wait(self, binding: Binding) -> None:
        waiting = binding.waiting
        if waiting is None:
            self._prepare(binding)
            return
        _log.v(4).info("Pod waiting on permit", pod=binding.attempt.pod)
        binding.stage, binding.started = Stage.PERMIT, self._metrics.now()
        waiting.on_decided(binding.decided)
        self._set_timer(binding, waiting)

    def _set_timer(self, binding: Binding, waiting: WaitingPod) -> None:
        deadline = waiting.next_deadline
        binding.timer = None if deadline is None else self.outbox.wake(deadline, binding)

    def woken(self, binding: Binding) -> None:
        """Permit was decided or may have timed out, PreBind was aborted, or the step of the binding's start ends."""
        if binding.stage is Stage.BEGUN:
            assert binding.waiting is not None
            if binding.waiting.decision is None:
                self._announce(binding)
            else:
                self._wait(binding)
        elif binding.stage is Stage.PERMIT:
            assert binding.waiting is not None
            if binding.waiting.expire():
                # Permit was decided now, which wakes the binding again.
                return
            if binding.waiting.decision is None:
                # The next deadline changes as plugins allow the pod.
                self._set_timer(binding, binding.waiting)
            else:
                self._decide(binding, binding.waiting.decision)
        elif binding.stage is Stage.PRE_BIND and binding.stoppable is not None and binding.stoppable.cancelled_for:
            self._stop(binding, binding.stoppable.cancelled_for)

    def _decide(self, binding: Binding, decision: Status) -> None:
        pod = binding.attempt.pod
        if binding.timer is not None:
            binding.timer.cancel()
        self._waiting_pods.remove(pod.uid)
        self._metrics.waited(decision, binding.started)
        text = f"wait on Permit ended: {decision.code.name}"
        self._stories.step(pod.key, pod.uid, text, decision.plugin, decision.message)
        failed = permit_outcome(decision)
        if failed is None:
            self._prepare(binding)
        else:
            _log.v(4).info("Pod rejected while waiting on permit", pod=pod, status=failed.message)
            self._fail(binding, failure_of(failed))

    # -- PreBind ------------------------------------------------------------------------------------------------------

    def _prepare(self, binding: Binding) -> None:
        """Run PreBind, if any plugin acts; the metric is recorded either way."""
        # From here on failures are errors, and events during the attempt no longer matter.
        self._parts.queue.done(binding.uid)
        binding.stage = Stage.PRE_BIND
        if (metrics := binding.attempt.framework.metrics) is not None:
            binding.started = metrics.now()
        if binding.groups:
            binding.stoppable = self._pods_in_pre_bind.add(binding.uid, binding.stop)
        self._next_group(binding)

    def _next_group(self, binding: Binding) -> None:
        while binding.groups and not binding.is_aborted and not binding.calls:
            self._begin_group(binding, binding.groups.pop(0))
        if not binding.calls:
            self._prepared(binding)

    def _begin_group(self, binding: Binding, plugins: tuple[str, ...]) -> None:
        calls = [PluginCall(binding, plugin) for plugin in plugins]
        binding.calls, binding.begins = calls, True
        for call in tuple(calls):
            if binding.is_aborted:
                # By an earlier call of the group, which failed at once.
                calls.remove(call)
            else:
                self._call(binding, call)
        binding.begins = False

    def _stop(self, binding: Binding, reason: str) -> None:
        """Abort PreBind."""
        self._abort(binding, reason)
        if not binding.calls:
            self._prepared(binding)

    def _abort(self, binding: Binding, why: str) -> None:
        for call in tuple(binding.calls):
            if call.steps is None:
                self.outbox.cancel(call.number, why)
            else:
                self._end_steps(binding, call)
                binding.calls.remove(call)

    def _prepared(self, binding: Binding) -> None:
        failed, stoppable = binding.failed, binding.stoppable
        if stoppable is not None:
            if not stoppable.mark_prebound():
                failed = error(stoppable.cancelled_for or "")
            self._pods_in_pre_bind.remove(binding.uid)
        if (metrics := binding.attempt.framework.metrics) is not None:
            metrics.points["PreBind"].ran(binding.started, ended(failed))
        if failed is not None:
            self._fail(binding, Failure(status=failed))
        else:
            self._withdraw(binding)

    def _withdraw(self, binding: Binding) -> None:
        """Prevent a status write of an earlier attempt from taking effect after the binding."""
        binding.stage = Stage.WITHDRAWING
        if not self._statuses.withdraw(binding.attempt.pod.uid, binding):
            self.bind(binding)

    # -- Bind ---------------------------------------------------------------------------------------------------------

    def bind(self, binding: Binding) -> None:
        attempt = binding.attempt
        framework = attempt.framework
        binding.stage = Stage.BIND
        if framework.metrics is not None:
            binding.started = framework.metrics.now()
        if framework.request_binder is not None:
            self._request(binding, framework.request_binder)
            return
        binders: Sequence[str | Extender] = framework.points["bind"]
        if extenders := framework.handle.extenders():
            try:
                binders = [*(e for e in extenders if e.binds and e.is_interested(attempt.pod)), *binders]
            except Exception as e:
                self._bound(binding, error(e))
                return
        binding.binders = iter(binders)
        self._next_binder(binding, SKIP)

    def _next_binder(self, binding: Binding, skipped: Status) -> None:
        binder = next(binding.binders, None)
        if binder is None:
            self._bound(binding, skipped)
        elif isinstance(binder, str):
            self._call_alone(binding, binder)
        else:
            self._ask_extender(binding, binder)

    def _ask_extender(self, binding: Binding, extender: Extender) -> None:
        call = PluginCall(binding, extender.name, is_extenders=True)
        call.steps = bound_by(extender, binding.attempt)
        binding.calls = [call]
        self._step(binding, call, None)

    def _bound(self, binding: Binding, failed: Status | None) -> None:
        attempt = binding.attempt
        if (metrics := attempt.framework.metrics) is not None:
            metrics.points["Bind"].ran(binding.started, ended(failed))
        if failed is None:
            self._succeeded(binding)
        else:
            _log.v(1).info("Failed to bind pod", pod=attempt.pod)
            self._fail(binding, Failure(status=failed))

    # -- calls of plugins ---------------------------------------------------------------------------------------------

    def _call_alone(self, binding: Binding, plugin: str) -> None:
        call = PluginCall(binding, plugin)
        binding.calls = [call]
        self._call(binding, call)

    def _request(self, binding: Binding, binder: RequestBinder) -> None:
        """Call a Bind plugin that only sends a request: no generator is needed."""
        attempt = binding.attempt
        call = PluginCall(binding, binder.name)
        call.binder, call.started = binder, binding.started
        binding.calls = [call]
        pod, node = attempt.pod, attempt.node_name
        request = boundary.call(binder.bind_request, pod, node, check=bind_request, required=True)
        if isinstance(request, Status):
            self._answered(binding, call, request)
            return
        call.number, call.writes = self.outbox.ask(request, call), True
        self.writes += 1

    def _call(self, binding: Binding, call: PluginCall) -> None:
        attempt, point = binding.attempt, _POINTS[binding.stage]
        if call.plugin in attempt.framework.stepping[point]:
            if attempt.framework.metrics is not None:
                call.started = attempt.framework.metrics.now()
            begin = method_of(attempt.framework, point, call.plugin)
            steps = boundary.call(begin, attempt.state, attempt.pod, attempt.node_name, check=None, failed=raised)
            if isinstance(steps, Status):
                self._call_ended(binding, call, steps)
                return
            call.steps = steps
            self._step(binding, call, None)
            return
        action = RunPlugin(
            profile=attempt.framework.profile_name,
            point=point,
            plugin=call.plugin,
            pod=attempt.pod.key,
            uid=binding.uid,
            node=attempt.node_name,
        )
        call.number = self.outbox.ask(action, call)
        call.writes = binding.stage is Stage.BIND
        self.writes += call.writes

    def _step(self, binding: Binding, call: PluginCall, outcome: Outcome | None) -> None:
        """Resume steps with an outcome, up to the next thing that they wait for."""
        assert call.steps is not None
        request = resume(call.steps, outcome)
        if isinstance(request, Ended):
            self._answered(binding, call, self._answer_of_steps(binding, call, request.value))
        elif isinstance(request, Raised):
            cause = request.cause
            self._answered(binding, call, error(cause) if call.is_extenders else raised(cause))
        elif isinstance(request, Wait):
            self._sleep(call, request)
        else:
            self._ask(binding, call, request)

    def _ask(self, binding: Binding, call: PluginCall, request: Request | Ask) -> None:
        # The subject of a Bind is always valid.
        if type(request) is Bind or (call.is_extenders and isinstance(request, Ask)):
            odd = None
        else:
            odd = problem_of(request) if isinstance(request, Request) else InvalidStepError(request)
        if odd is not None:
            self._end_steps(binding, call)
            self._answered(binding, call, error(odd))
            return
        call.number = self.outbox.ask(request, call)
        # An extender that does not answer must not block other bindings.
        call.writes = not call.is_extenders
        self.writes += call.writes

    def _answered(self, binding: Binding, call: PluginCall, answer: Status | None) -> None:
        """A call that is not a coroutine of the driver has ended."""
        times = binding.attempt.state.plugin_times
        if times is not None and not call.is_extenders:
            times.ended(_POINTS[binding.stage], call.plugin, call.started, answer)
        self._call_ended(binding, call, answer)

    @staticmethod
    def _answer_of_steps(binding: Binding, call: PluginCall, answer: Status | None) -> Status | None:
        if answer is None or call.is_extenders or binding.stage is Stage.POST_BIND:
            # PostBind has no result.
            return None if binding.stage is Stage.POST_BIND else answer
        try:
            return well_formed(answer)
        except TypeError as e:
            return raised(e, method_of(binding.attempt.framework, _POINTS[binding.stage], call.plugin))

    def _sleep(self, call: PluginCall, wait: Wait) -> None:
        call.asleep_since = self.outbox.now
        call.sleep(None if wait.seconds is None else self.outbox.wake(self.outbox.now + wait.seconds, call))
        for key in wait.keys:
            self.outbox.watch(key, call)

    def call_answered(self, binding: Binding, call: PluginCall, outcome: Outcome) -> None:
        self.writes -= call.writes
        call.writes, call.number = False, 0
        if call.binder is not None:
            self._answered(binding, call, boundary.call(call.binder.bind_answer, outcome))
        elif call.steps is not None:
            self._step(binding, call, outcome)
        elif isinstance(outcome, Done):
            self._call_ended(binding, call, outcome.value)
        else:
            self._call_ended(binding, call, error(outcome.error))

    def call_woken(self, binding: Binding, call: PluginCall) -> None:
        if call in binding.calls:
            call.sleep(None)
            self.outbox.unwatch(call)
            self._step(binding, call, Done(self.outbox.now - call.asleep_since))

    def _end_steps(self, binding: Binding, call: PluginCall) -> None:
        """Close steps while they are waiting."""
        call.sleep(None)
        self.outbox.unwatch(call)
        if call.number:
            self.outbox.withdraw(call.number)
            self.writes -= call.writes
            call.writes, call.number = False, 0
        assert call.steps is not None
        if (failed := close(call.steps)) is not None:
            self._reporter.report(f'plugin "{call.plugin}", aborted in {_POINTS[binding.stage]}: {failed}')

    def _call_ended(self, binding: Binding, call: PluginCall, answer: Status | None) -> None:
        if call in binding.calls:
            binding.calls.remove(call)
        if binding.stage is Stage.POST_BIND:
            if answer is not None:
                binding.problems.append(f'running PostBind plugin "{call.plugin}": {answer.message}')
            self._next_listener(binding)
            return
        failed = answer
        if answer is not None:
            attempt = binding.attempt
            if binding.stage is Stage.BIND and answer.code == Code.Skip:
                self._next_binder(binding, answer)
                return
            if not call.is_extenders:
                failed = failure_at(_POINTS[binding.stage], call.plugin, answer, attempt.pod, attempt.node_name)
        if binding.stage is Stage.BIND:
            self._bound(binding, failed)
        else:
            self._group_member_ended(binding, failed)

    def _group_member_ended(self, binding: Binding, failed: Status | None) -> None:
        """The first failure of a group wins; the other calls are cancelled."""
        if failed is not None and binding.failed is None:
            binding.failed = failed
            self._abort(binding, OTHER_PRE_BIND_FAILED)
        if not binding.calls and not binding.begins:
            self._next_group(binding)

    # -- success and failure -------------------------------------------------------------------------------------------

    def _succeeded(self, binding: Binding) -> None:
        attempt = binding.attempt
        pod, node_name, queued = attempt.pod, attempt.node_name, attempt.queued
        if _log.verbosity >= 2:
            _log.v(2).info(
                "Successfully bound pod to node",
                pod=pod,
                node=node_name,
                evaluatedNodes=attempt.evaluated,
                feasibleNodes=attempt.feasible,
            )
        if self._listener is not None:
            self._listener.bound(attempt)
        if self._metrics.counts:
            self._metrics.scheduled(queued, profile=attempt.framework.profile_name, started=attempt.started)
        if queued.was_flushed:
            _log.v(4).info(
                "Pod scheduled after flush from unschedulablePods",
                pod=pod,
                unschedulablePlugins=sorted(queued.unschedulable_plugins),
                pendingPlugins=sorted(queued.pending_plugins),
            )
        if self._stories.kept:
            self._stories.step(pod.key, pod.uid, "bound", "", node_name)
        recorder = attempt.framework.handle.event_recorder
        if recorder is not None:
            note = f"Successfully assigned {pod.key} to {node_name}"
            # Parity: the event refers to the pod as it was tried, even if its binding has already been observed.
            recorder.event(queued.pod.pod, type_="Normal", reason="Scheduled", action="Binding", note=note)
        binding.stage = Stage.POST_BIND
        if attempt.framework.metrics is not None:
            binding.started = attempt.framework.metrics.now()
        if listeners := attempt.framework.points["postBind"]:
            binding.binders = iter(listeners)
            self._next_listener(binding)
        else:
            self._done(binding)

    def _next_listener(self, binding: Binding) -> None:
        plugin = next(binding.binders, None)
        if isinstance(plugin, str):
            self._call_alone(binding, plugin)
        else:
            self._done(binding)

    def _done(self, binding: Binding) -> None:
        attempt = binding.attempt
        if (metrics := attempt.framework.metrics) is not None:
            metrics.points["PostBind"].ran(binding.started)
        for problem in binding.problems:
            self._reporter.report(problem)
        if pods := attempt.state.take_pods_to_activate():
            self._parts.queue.activate(pods)
        self._over(binding)

    def _fail(self, binding: Binding, failure: Failure) -> None:
        attempt = binding.attempt
        pod = attempt.pod
        self._over(binding)
        self._stories.step(pod.key, pod.uid, "not bound", failure.status.plugin, failure.message)
        for problem in run_unreserve(attempt.framework, attempt.state, pod, attempt.node_name):
            self._reporter.report(problem)
        was = on_node(attempt.queued.pod.pod, attempt.node_name)
        forgotten = self._forget(pod)
        if failure.status.rejected:
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)
            if forgotten:
                # The pod must not be woken by its own removal.
                self._parts.queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=_anyone_but(pod.uid))
        else:
            if forgotten:
                self._parts.queue.move_all(ASSIGNED_POD_DELETE, was, None)
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)

    def _forget(self, pod: PodInfo) -> bool:
        """Remove the assumed pod; False if it has been bound by any scheduler."""
        try:
            self._state.forget(pod)
        except ValueError as e:
            _log.unhandled(e, "ForgetPod failed", pod=pod)
            return False
        self._parts.leaving.left(pod.uid)
        return True

    def _over(self, binding: Binding) -> None:
        if self._metrics.counts:
            self._metrics.binding_ended()
        binding.stage = Stage.OVER
        uid = binding.attempt.pod.uid
        if self.under_way.get(uid) is binding:
            del self.under_way[uid]


_POINTS = {Stage.PRE_BIND: "PreBind", Stage.BIND: "Bind", Stage.POST_BIND: "PostBind"}


def _announces_node(framework: Framework) -> bool:
    return framework.handle.features.enabled("NominatedNodeNameForExpectation")


def _anyone_but(uid: str) -> Callable[[PodInfo], bool]:
    return lambda info: info.uid != uid
