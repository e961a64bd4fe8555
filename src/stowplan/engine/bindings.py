"""The binding cycle: from an assumed pod to one that is bound in the API server.

One record per pod. It waits (for its status to be written, for Permit, for PreBind, for the API server) and goes on
with the answer, so the pod may be deleted, preempted, or bound by another scheduler meanwhile. Any failure undoes what
was reserved and leaves the pod to the failure handler.

    announcing    the pod's status says where it will go, as that takes a while
    permit        plugins make it wait
    pre-bind      plugins prepare it, group by group
    withdrawing   an earlier status of the pod is under way, and must not be written after the binding
    bind          by an extender that is interested, else by the first plugin that does not leave it to the next
    post-bind     plugins hear of it

Upstream: bindingCycle and handleBindingCycleError in pkg/scheduler/schedule_one.go;
docs/behaviour.md, Assume, Reserve, Permit, bind.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from stowplan.engine.attempt import Failure, on_node
from stowplan.engine.effects import RunPlugin
from stowplan.engine.scheduling_cycle import activate, failure_of
from stowplan.framework.binding import (
    OTHER_PRE_BIND_FAILED,
    PreFlight,
    failure_at,
    pre_bind_groups,
    run_pre_bind_pre_flights,
    run_unreserve,
    steps_of,
)
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.framework.extender import answer_of
from stowplan.framework.metrics import ended
from stowplan.framework.requests import Ask, Done, OddStepError, Request, Wait, problem_of
from stowplan.framework.status import PROPAGATED, SKIP, Code, Status, error, well_formed
from stowplan.framework.waiting_pods import permit_outcome
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.attempt import Attempt
    from stowplan.engine.attempt_metrics import AttemptMetrics
    from stowplan.engine.decision_listener import DecisionListener
    from stowplan.engine.failure_handler import FailureHandler
    from stowplan.engine.outbox import Alarm
    from stowplan.engine.parts import Parts
    from stowplan.engine.statuses import PodStatuses
    from stowplan.framework.extender import Extender
    from stowplan.framework.requests import Outcome, Steps
    from stowplan.framework.runtime import Framework
    from stowplan.framework.waiting_pods import PodInPreBind, WaitingPod

_log = get_logger(__name__)


class Stage(Enum):
    BEGUN = "begun"
    ANNOUNCING = "announcing"
    PERMIT = "permit"
    PRE_BIND = "pre-bind"
    WITHDRAWING = "withdrawing"
    BIND = "bind"
    POST_BIND = "post-bind"
    OVER = "over"


#: The stages in which the pod is in flight: events that might help it are still kept.
IN_FLIGHT = (Stage.ANNOUNCING, Stage.PERMIT)


class PluginCall:
    """A plugin's PreBind, Bind or PostBind that is under way: a coroutine of the driver's, or steps of ours."""

    __slots__ = ("_woken_by", "binding", "is_extenders", "number", "plugin", "started", "steps", "writes")

    def __init__(self, binding: Binding, plugin: str, *, is_extenders: bool = False) -> None:
        self.binding = binding
        #: Its name, or the extender's.
        self.plugin = plugin
        self.is_extenders = is_extenders
        self.steps: Steps | None = None
        #: The effect that it waits for; 0 while it waits for none.
        self.number = 0
        #: Whether that effect writes.
        self.writes = False
        self.started = 0.0
        self._woken_by: Alarm | None = None

    def __str__(self) -> str:
        return f"call of {self.plugin} in the {self.binding}"

    @property
    def is_asleep(self) -> bool:
        """Whether it waits for nothing that the driver does."""
        return self.steps is not None and not self.number

    def answered(self, number: int, outcome: Outcome) -> None:
        self.binding.owner.call_answered(self.binding, self, outcome)

    def woken(self) -> None:
        """What it waited for has come, or its time."""
        self.binding.owner.call_woken(self.binding, self)

    def sleep(self, alarm: Alarm | None) -> None:
        if self._woken_by is not None:
            self._woken_by.cancel()
        self._woken_by = alarm

    def is_woken_by(self, alarm: Alarm) -> bool:
        return alarm is self._woken_by


class Binding:
    """One pod's binding cycle."""

    __slots__ = (
        "attempt",
        "begins",
        "binders",
        "calls",
        "failed",
        "groups",
        "owner",
        "problems",
        "stage",
        "started",
        "stoppable",
        "timer",
        "waiting",
    )

    def __init__(self, owner: Bindings, attempt: Attempt) -> None:
        self.owner = owner
        self.attempt = attempt
        self.stage = Stage.BEGUN
        #: When the present stage began, by the stopwatch.
        self.started = 0.0
        self.waiting: WaitingPod | None = None
        self.timer: Alarm | None = None
        #: Plugins of PreBind that are still to run, group by group.
        self.groups: list[tuple[str, ...]] = []
        self.stoppable: PodInPreBind | None = None
        self.calls: list[PluginCall] = []
        #: Whether a group of PreBind is just being begun.
        self.begins = False
        #: What ended the present stage before its time.
        self.failed: Status | None = None
        #: Plugins of Bind or PostBind that are still to be asked.
        self.binders: Iterator[str | Extender] = iter(())
        self.problems: list[str] = []

    def __str__(self) -> str:
        return f"binding of pod {self.attempt.pod.key}"

    @property
    def uid(self) -> str:
        return self.attempt.pod.uid

    @property
    def is_broken_off(self) -> bool:
        """Whether PreBind goes on to nothing more."""
        return self.failed is not None or (self.stoppable is not None and self.stoppable.cancelled_for is not None)

    def status_written(self, failed: Exception | None) -> None:
        """The pod's status says where it goes; or it cannot be told."""
        self.owner.announced(self, failed)

    def withdrawn(self) -> None:
        """Nothing of the pod's status is under way any more."""
        self.owner.bind(self)

    def decided(self, decision: Status) -> None:
        """Permit has decided; whoever did is in the middle of something."""
        self.owner.outbox.soon(self)

    def woken(self) -> None:
        self.owner.woken(self)

    def stop(self, reason: str) -> None:
        """Preemption needs the pod's room more; it is in the middle of something."""
        self.owner.outbox.soon(self)


class Bindings:
    """The binding cycles that are under way."""

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
        self._report = parts.report
        self._statuses = statuses
        self._failures = failures
        self._metrics = metrics
        #: By the pod's UID.
        self.under_way: dict[str, Binding] = {}
        #: Writes whose answers have not come.
        self.writes = 0

    @property
    def asleep(self) -> int:
        """Those that wait for a time, or for objects to change."""
        return sum(bool(b.calls) and all(call.is_asleep for call in b.calls) for b in self.under_way.values())

    def begin(self, attempt: Attempt) -> None:
        self._metrics.binding_began()
        binding = self.under_way[attempt.pod.uid] = Binding(self, attempt)
        failed, flights = self._pre_flights(attempt)
        if failed is not None:
            self._waiting_pods.remove(binding.uid)
            self._fail(binding, Failure(status=failed))
            return
        acts = any(flight.acts for flight in flights)
        if acts:
            binding.groups = list(pre_bind_groups(flights))
        if attempt.permit_timeouts:
            binding.waiting = self._waiting_pods.get(binding.uid)
        if (acts or binding.waiting is not None) and _announces_node(attempt.framework):
            binding.stage = Stage.ANNOUNCING
            self._statuses.patch(attempt.pod.pod, binding, nominated_node_name=attempt.node_name)
        else:
            self._wait(binding)

    def _pre_flights(self, attempt: Attempt) -> tuple[Status | None, Sequence[PreFlight]]:
        """Which PreBind plugins will act; without the feature gate all of them, one after the other."""
        framework = attempt.framework
        if not framework.pre_bind:
            return None, ()
        if not _announces_node(framework):
            return None, [PreFlight(plugin.name) for plugin in framework.pre_bind]
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
        """Permit has decided, or its time may be up; or PreBind was stopped."""
        if binding.stage is Stage.PERMIT:
            assert binding.waiting is not None
            if binding.waiting.expire():
                # It comes again, as Permit has decided now.
                return
            if binding.waiting.decision is None:
                # Which moment it is may move while plugins allow it.
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
        # From here on failures are errors; events that came during the attempt do not matter any more.
        self._parts.queue.done(binding.uid)
        binding.stage, binding.started = Stage.PRE_BIND, binding.attempt.metrics.now()
        if binding.groups:
            binding.stoppable = self._pods_in_pre_bind.add(binding.uid, binding.stop)
        self._next_group(binding)

    def _next_group(self, binding: Binding) -> None:
        while binding.groups and not binding.is_broken_off and not binding.calls:
            self._begin_group(binding, binding.groups.pop(0))
        if not binding.calls:
            self._prepared(binding)

    def _begin_group(self, binding: Binding, plugins: tuple[str, ...]) -> None:
        calls = [PluginCall(binding, plugin) for plugin in plugins]
        binding.calls, binding.begins = calls, True
        for call in tuple(calls):
            if binding.is_broken_off:
                # By one before it, which ended at once.
                calls.remove(call)
            else:
                self._call(binding, call)
        binding.begins = False

    def _stop(self, binding: Binding, reason: str) -> None:
        """Break PreBind off."""
        self._break_off(binding, reason)
        if not binding.calls:
            self._prepared(binding)

    def _break_off(self, binding: Binding, why: str) -> None:
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
        binding.attempt.metrics.points["PreBind"].ran(binding.started, ended(failed))
        if failed is not None:
            self._fail(binding, Failure(status=failed))
            return
        binding.stage = Stage.WITHDRAWING
        # The status of an earlier attempt must not be written after the binding.
        if not self._statuses.withdraw(binding.uid, binding):
            self.bind(binding)

    # -- Bind ---------------------------------------------------------------------------------------------------------

    def bind(self, binding: Binding) -> None:
        attempt = binding.attempt
        binding.stage, binding.started = Stage.BIND, attempt.metrics.now()
        framework = attempt.framework
        try:
            binders = [e for e in framework.handle.extenders() if e.binds and e.is_interested(attempt.pod)]
        except Exception as e:
            self._bound(binding, error(e))
            return
        binding.binders = iter([*binders, *(plugin.name for plugin in framework.bind)])
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
        call.steps = _bound_by(extender, binding.attempt)
        binding.calls = [call]
        self._step(binding, call, None)

    def _bound(self, binding: Binding, failed: Status | None) -> None:
        attempt = binding.attempt
        attempt.metrics.points["Bind"].ran(binding.started, ended(failed))
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

    def _call(self, binding: Binding, call: PluginCall) -> None:
        attempt, point = binding.attempt, _POINTS[binding.stage]
        if call.plugin in attempt.framework.stepping[point]:
            call.started = attempt.metrics.now()
            try:
                call.steps = steps_of(
                    attempt.framework, point, call.plugin, attempt.state, attempt.pod, attempt.node_name
                )
            except PROPAGATED:
                raise
            except BaseException as e:
                self._call_ended(binding, call, error(e))
                return
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
        """Let steps go on with an outcome, to the next thing that they wait for."""
        assert call.steps is not None
        answer: Status | None
        try:
            asked = call.steps.send(outcome)  # type: ignore[arg-type]
        except StopIteration as end:
            answer = self._answer_of_steps(binding, end.value)
        except PROPAGATED:
            raise
        except BaseException as e:
            answer = error(e)
        else:
            if isinstance(asked, Wait):
                self._sleep(call, asked)
                return
            odd = problem_of(asked) if isinstance(asked, Request) else None
            if not isinstance(asked, Request | Ask):
                odd = OddStepError(asked)
            if odd is None:
                call.number = self.outbox.ask(asked, call)
                # An extender that does not answer keeps nobody else from being bound.
                call.writes = not call.is_extenders
                self.writes += call.writes
                return
            self._end_steps(binding, call)
            answer = error(odd)
        self._steps_ended(binding, call, answer)

    @staticmethod
    def _answer_of_steps(binding: Binding, answer: Status | None) -> Status | None:
        if binding.stage is Stage.POST_BIND:
            # Nothing is to be said by it.
            return None
        try:
            return well_formed(answer)
        except TypeError as e:
            return error(e)

    def _sleep(self, call: PluginCall, wait: Wait) -> None:
        call.sleep(None if wait.seconds is None else self.outbox.wake(self.outbox.now + wait.seconds, call))
        for key in wait.keys:
            self.outbox.watch(key, call)

    def call_answered(self, binding: Binding, call: PluginCall, outcome: Outcome) -> None:
        self.writes -= call.writes
        call.writes, call.number = False, 0
        if call.steps is not None:
            self._step(binding, call, outcome)
        elif isinstance(outcome, Done):
            self._call_ended(binding, call, outcome.value)
        else:
            self._call_ended(binding, call, error(outcome.error))

    def call_woken(self, binding: Binding, call: PluginCall) -> None:
        if call in binding.calls:
            call.sleep(None)
            self.outbox.unwatch(call)
            self._step(binding, call, Done())

    def _steps_ended(self, binding: Binding, call: PluginCall, answer: Status | None) -> None:
        times = binding.attempt.state.plugin_times
        if times is not None and not call.is_extenders:
            times.ended(_POINTS[binding.stage], call.plugin, call.started, answer)
        self._call_ended(binding, call, answer)

    def _end_steps(self, binding: Binding, call: PluginCall) -> None:
        """Break steps off where they wait."""
        call.sleep(None)
        self.outbox.unwatch(call)
        if call.number:
            self.outbox.withdraw(call.number)
            self.writes -= call.writes
            call.writes, call.number = False, 0
        assert call.steps is not None
        try:
            call.steps.close()
        except PROPAGATED:
            raise
        except BaseException as e:
            self._report(f'plugin "{call.plugin}", broken off in {_POINTS[binding.stage]}: {e}')

    def _call_ended(self, binding: Binding, call: PluginCall, answer: Status | None) -> None:
        if call in binding.calls:
            binding.calls.remove(call)
        if binding.stage is Stage.POST_BIND:
            if answer is not None:
                binding.problems.append(f'running PostBind plugin "{call.plugin}": {answer.message}')
            self._next_listener(binding)
            return
        attempt, point = binding.attempt, _POINTS[binding.stage]
        if binding.stage is Stage.BIND and answer is not None and answer.code == Code.Skip:
            self._next_binder(binding, answer)
            return
        failed = answer
        if not call.is_extenders:
            failed = failure_at(point, call.plugin, answer, attempt.pod, attempt.node_name)
        if binding.stage is Stage.BIND:
            self._bound(binding, failed)
        else:
            self._group_member_ended(binding, failed)

    def _group_member_ended(self, binding: Binding, failed: Status | None) -> None:
        """The first failure of a group counts; the others are broken off for it."""
        if failed is not None and binding.failed is None:
            binding.failed = failed
            self._break_off(binding, OTHER_PRE_BIND_FAILED)
        if not binding.calls and not binding.begins:
            self._next_group(binding)

    # -- the two ends -------------------------------------------------------------------------------------------------

    def _succeeded(self, binding: Binding) -> None:
        attempt = binding.attempt
        pod, node_name, queued = attempt.pod, attempt.node_name, attempt.queued
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Successfully bound pod to node",
                pod=pod,
                node=node_name,
                evaluatedNodes=attempt.evaluated,
                feasibleNodes=attempt.feasible,
            )
        if self._listener is not None:
            self._listener.bound(attempt)
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
        binding.stage, binding.started = Stage.POST_BIND, attempt.metrics.now()
        binding.binders = iter([plugin.name for plugin in attempt.framework.post_bind])
        self._next_listener(binding)

    def _next_listener(self, binding: Binding) -> None:
        plugin = next(binding.binders, None)
        if isinstance(plugin, str):
            self._call_alone(binding, plugin)
            return
        binding.attempt.metrics.points["PostBind"].ran(binding.started)
        for problem in binding.problems:
            self._report(problem)
        activate(self._parts.queue, binding.attempt.state)
        self._over(binding)

    def _fail(self, binding: Binding, failure: Failure) -> None:
        attempt = binding.attempt
        pod = attempt.pod
        self._over(binding)
        self._stories.step(pod.key, pod.uid, "not bound", failure.status.plugin, failure.message)
        for problem in run_unreserve(attempt.framework, attempt.state, pod, attempt.node_name):
            self._report(problem)
        was = on_node(attempt.queued.pod.pod, attempt.node_name)
        forgotten = self._forget(pod)
        if failure.status.rejected:
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)
            if forgotten:
                # The pod itself must not be woken by its own leaving.
                self._parts.queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=_anyone_but(pod.uid))
        else:
            if forgotten:
                self._parts.queue.move_all(ASSIGNED_POD_DELETE, was, None)
            self._failures.handle(attempt.framework, attempt.queued, failure, started=attempt.started)

    def _forget(self, pod: PodInfo) -> bool:
        """Take the assumed pod back; False when it is bound after all, by any scheduler."""
        try:
            self._state.forget(pod)
        except ValueError as e:
            _log.error(e, "ForgetPod failed", pod=pod)
            return False
        self._parts.leaving.left(pod.uid)
        return True

    def _over(self, binding: Binding) -> None:
        self._metrics.binding_ended()
        binding.stage = Stage.OVER
        if self.under_way.get(binding.uid) is binding:
            del self.under_way[binding.uid]

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Invariants that do not hold between steps."""
        return [
            *(text for uid, binding in self.under_way.items() for text in self._problems_of(uid, binding)),
            *self._problems_of_waiting_pods(),
            *self._problems_of_the_outbox(),
            *self._problems_of_sums(),
        ]

    def _problems_of(self, uid: str, binding: Binding) -> Iterator[str]:
        stage = binding.stage
        if binding.uid != uid:
            yield f"{binding} ({binding.uid}): under way under the UID {uid}"
        if stage in (Stage.BEGUN, Stage.OVER):
            yield f"{binding}: {stage.value} between steps"
        yield from self._problems_of_permit(binding)
        stoppable = binding.stoppable if stage is Stage.PRE_BIND else None
        known = self._pods_in_pre_bind.get(uid)
        if known is not stoppable:
            yield f"{binding}: {stage.value}, but the pod is {_among(known)} those in PreBind"
        low, high = _CALLS.get(stage, (0, 0))
        if not low <= len(binding.calls) <= high:
            yield f"{binding}: {stage.value} with {len(binding.calls)} calls"
        for call in binding.calls:
            yield from self._problems_of_call(call)
        yield from self._problems_of_place(binding)

    def _problems_of_permit(self, binding: Binding) -> Iterator[str]:
        stage, waiting, timer = binding.stage, binding.waiting, binding.timer
        wanted = waiting if stage in IN_FLIGHT else None
        known = self._waiting_pods.get(binding.uid)
        if known is not wanted:
            yield f"{binding}: {stage.value}, but the pod is {_among(known)} those that wait on Permit"
        if stage is not Stage.PERMIT:
            return
        if waiting is None or waiting.decision is not None:
            yield f"{binding}: {stage.value}, but nothing is left to be decided"
            return
        deadline = waiting.next_deadline or inf
        at = timer.at if timer is not None and timer.sleeper is binding else inf
        if at > deadline:
            yield f"{binding}: waits on Permit until {deadline:.3f}, but its alarm rings at {at:.3f}"

    def _problems_of_call(self, call: PluginCall) -> Iterator[str]:
        waits_for = self.outbox.awaited.get(call.number) if call.number else None
        if call.number and waits_for is not call:
            yield f"{call}: waits for effect {call.number}, whose answer goes to {waits_for}"
        if not call.number and call.steps is None:
            yield f"{call}: waits for nothing"
        if call.writes and not call.number:
            yield f"{call}: counted as a write, but no effect is under way"

    def _problems_of_place(self, binding: Binding) -> Iterator[str]:
        """On its way a pod is assumed, or seen on a node by somebody else's hand, unless it is going away."""
        attempt = binding.attempt
        placed, newest = self._state.placed(binding.uid), self._state.newest(binding.uid)
        if binding.stage is Stage.POST_BIND or newest is None or newest.metadata.deletion_timestamp is not None:
            return
        if placed is None:
            yield f"{binding} to {attempt.node_name}: {binding.stage.value}, but the pod is on no node"
        elif self._state.is_assumed(binding.uid) and placed.node_name != attempt.node_name:
            yield f"{binding} to {attempt.node_name}: but the pod is assumed on {placed.node_name}"

    def _problems_of_waiting_pods(self) -> Iterator[str]:
        for waiting in self._waiting_pods:
            if waiting.uid not in self.under_way:
                yield f"pod {waiting.pod.key}: waits on Permit, but its binding is not under way"
        for uid in self._pods_in_pre_bind.uids():
            if uid not in self.under_way:
                yield f"pod {uid}: in PreBind, but its binding is not under way"

    def _problems_of_the_outbox(self) -> Iterator[str]:
        for number, waiter in self.outbox.awaited.items():
            if isinstance(waiter, PluginCall) and (waiter.number != number or not self._knows(waiter)):
                yield f"{waiter}: not under way, but gets the answer to {number}"
        for alarm in self.outbox.alarms:
            sleeper = alarm.sleeper
            if isinstance(sleeper, Binding) and (sleeper.timer is not alarm or sleeper.stage is not Stage.PERMIT):
                yield f"{sleeper}: {sleeper.stage.value}, but is woken at {alarm.at:.3f}"
            if isinstance(sleeper, PluginCall) and not (self._knows(sleeper) and sleeper.is_woken_by(alarm)):
                yield f"{sleeper}: does not sleep, but is woken at {alarm.at:.3f}"
        for key, watcher in self.outbox.watchers:
            if isinstance(watcher, PluginCall) and not self._knows(watcher):
                yield f"{watcher}: not under way, but waits for {' '.join(key)} to change"

    def _knows(self, call: PluginCall) -> bool:
        binding = call.binding
        return self.under_way.get(binding.uid) is binding and call in binding.calls

    def _problems_of_sums(self) -> Iterator[str]:
        writes = sum(call.writes for binding in self.under_way.values() for call in binding.calls)
        if writes != self.writes:
            yield f"{self.writes} writes of bindings are counted, {writes} are under way"


#: How many calls of plugins are under way in a stage.
_CALLS = {Stage.PRE_BIND: (1, inf), Stage.BIND: (1, 1), Stage.POST_BIND: (1, 1)}
_POINTS = {Stage.PRE_BIND: "PreBind", Stage.BIND: "Bind", Stage.POST_BIND: "PostBind"}


def _bound_by(extender: Extender, attempt: Attempt) -> Steps:
    """Let an extender write the binding; SKIP: somebody else is to do it."""
    try:
        question = extender.bind_question(attempt.pod, attempt.node_name)
        outcome = yield Ask(who=extender.name, verb="bind", question=question)
        extender.read_bound(answer_of(outcome))
    except Exception as e:
        if not extender.ignorable:
            return error(e)
        text = "Skipping extender in bind as it returned error and has ignorable flag set"
        _log.info(text, extender=extender.name, err=str(e))
        return SKIP
    return None


def _among(known: object) -> str:
    return "not among" if known is None else "among"


def _announces_node(framework: Framework) -> bool:
    return framework.handle.features.enabled("NominatedNodeNameForExpectation")


def _anyone_but(uid: str) -> Callable[[PodInfo], bool]:
    return lambda info: info.uid != uid
