"""Calls of PreBind, Bind and PostBind that have to be waited for.

A coroutine is run by the driver, as one effect. Steps are a generator that yields what it waits for: requests, which
become effects, or a time or changes of objects. A Bind plugin that only sends a request has no such record
(`binding_cycle.BindingCycle`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.engine.outbox import Sleep
from stowplan.scheduler.framework.boundary import At, Ended, Raised, call, close, resume
from stowplan.scheduler.framework.requests import (
    Ask,
    Bind,
    Done,
    InvalidStepError,
    Outcome,
    Request,
    Steps,
    Wait,
    problem_of,
)
from stowplan.scheduler.framework.runtime.binding import method_of
from stowplan.scheduler.framework.status import Status, error, raised, well_formed

if TYPE_CHECKING:
    from stowplan.scheduler.engine.binding_cycle import BindingCycle


@mypyc_attr(native_class=True)
class PluginCall(PlainStruct, eq=False):
    """A PreBind, Bind or PostBind call in progress, or that of an extender that binds."""

    binding: "BindingCycle"  # noqa: UP037
    point: str
    #: The name of the plugin or extender.
    plugin: str
    is_extenders: bool = False
    #: None: a coroutine, or not begun.
    steps: Steps | None = None
    started: float = 0.0
    #: The effect that it waits for; 0 if none.
    number: int = 0
    #: Whether that effect is a write.
    writes: bool = False
    #: The effect, and the time of the step in which it was emitted.
    action: Request | Ask | RunPlugin | None = None
    asked: float = 0.0
    #: While the steps wait for objects or a time.
    sleep: Sleep | None = None

    def __str__(self) -> str:
        return f"call of {self.plugin} in the {self.binding}"

    @property
    def _at(self) -> At | None:
        return None if self.is_extenders else (self.point, self.binding.attempt.framework.plugins[self.plugin])

    def begin(self) -> None:
        attempt, framework, point = self.binding.attempt, self.binding.attempt.framework, self.point
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
        self._ask(action, writes=point == "Bind")

    def _ask(self, action: Request | Ask | RunPlugin, *, writes: bool) -> None:
        cycles = self.binding.cycles
        self.number, self.writes = cycles.context.outbox.ask(action, self), writes
        self.action, self.asked = action, cycles.context.outbox.now
        cycles.writes += writes

    def answered(self, number: int, outcome: Outcome) -> None:
        # First: what follows may ask for the next thing.
        self.binding.cycles.writes -= self.writes
        self.writes, self.number = False, 0
        if self.binding.attempt.parts is not None:
            self.binding.trace(self.action, self.asked, outcome)
        if self.steps is not None:
            self.step(outcome)
        elif isinstance(outcome, Done):
            self.binding.call_ended(self, outcome.value)
        else:
            self.binding.call_ended(self, error(outcome.error))

    def step(self, outcome: Outcome | None) -> None:
        """Resume steps with an outcome, up to the next thing that they wait for."""
        assert self.steps is not None
        request = resume(self.steps, outcome, self._at)
        if isinstance(request, Ended):
            self._answered(self._answer_of_steps(request.value))
        elif isinstance(request, Raised):
            self._answered(error(request.cause) if self.is_extenders else raised(request.cause))
        elif isinstance(request, Wait):
            self.sleep = Sleep(self.binding.cycles.context.outbox, request, self)
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
        if self.point == "PostBind":
            # PostBind has no result.
            return None
        try:
            return well_formed(answer)
        except TypeError as e:
            return raised(e, method_of(self.binding.attempt.framework, self.point, self.plugin))

    def on_wake(self) -> None:
        """An object that it waits for has changed, or its time has come."""
        # None if it was ended in this step, after it was woken.
        if (sleep := self.sleep) is not None:
            self.sleep = None
            self.step(sleep.end())

    def end_steps(self) -> None:
        """Close steps while they are waiting."""
        cycles = self.binding.cycles
        if self.sleep is not None:
            self.sleep.end()
            self.sleep = None
        # Its outcome would find no steps to resume.
        if self.number:
            cycles.context.outbox.withdraw(self.number)
            cycles.writes -= self.writes
            self.writes, self.number = False, 0
        # Last: a `finally` block of the plugin may call us, and must find nothing pending.
        assert self.steps is not None
        if (failed := close(self.steps, self._at)) is not None:
            cycles.context.reporter.report(f'plugin "{self.plugin}", aborted in {self.point}: {failed}')

    def _answered(self, answer: Status | None) -> None:
        """A call that is not a coroutine of the driver has ended."""
        times = self.binding.attempt.state.plugin_times
        if times is not None and not self.is_extenders:
            times.ended(self.point, self.plugin, self.started, answer)
        self.binding.call_ended(self, answer)
