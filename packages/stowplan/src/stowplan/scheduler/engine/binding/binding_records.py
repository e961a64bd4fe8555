"""Records of binding cycles, and of the plugin calls they wait for.

A record has its stage and the object that advances it; what each stage does is in `bindings.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from stowplan.scheduler.engine.decision.attempt import Attempt
from stowplan.scheduler.engine.outbox import Alarm
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.interface import RequestBinder
from stowplan.scheduler.framework.requests import Steps
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.framework.waiting_pods import PodInPreBind, WaitingPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.outbox import Outbox
    from stowplan.scheduler.framework.requests import Outcome


class Stage(Enum):
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
IN_FLIGHT = (Stage.ANNOUNCING, Stage.PERMIT)


#: No binder.
_NOBODY: Iterator[str | Extender] = iter(())


class Mover(Protocol):
    """Advances bindings."""

    outbox: Outbox

    def call_answered(self, binding: Binding, call: PluginCall, outcome: Outcome, /) -> None: ...

    def call_woken(self, binding: Binding, call: PluginCall, /) -> None: ...

    def announced(self, binding: Binding, failed: Exception | None, /) -> None: ...

    def bind(self, binding: Binding, /) -> None: ...

    def woken(self, binding: Binding, /) -> None: ...


class PluginCall(msgspec.Struct, eq=False):
    """A PreBind, Bind or PostBind call in progress: a coroutine that the driver runs, a request, or steps.

    Also used for an extender that binds.
    """

    binding: Binding
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

    def answered(self, number: int, outcome: Outcome) -> None:
        self.binding.owner.call_answered(self.binding, self, outcome)

    def woken(self) -> None:
        """An object that it waits for has changed, or its time has come."""
        self.binding.owner.call_woken(self.binding, self)

    def sleep(self, alarm: Alarm | None) -> None:
        if self.woken_by is not None:
            self.woken_by.cancel()
        self.woken_by = alarm

    def is_woken_by(self, alarm: Alarm) -> bool:
        return alarm is self.woken_by


class Binding(msgspec.Struct, eq=False):
    """One pod's binding cycle."""

    owner: Mover
    attempt: Attempt
    stage: Stage = Stage.BEGUN
    #: When the current stage began, by the stopwatch.
    started: float = 0.0
    waiting: WaitingPod | None = None
    timer: Alarm | None = None
    #: PreBind plugins that have not run yet, group by group.
    groups: list[tuple[str, ...]] = msgspec.field(default_factory=list)
    stoppable: PodInPreBind | None = None
    calls: list[PluginCall] = msgspec.field(default_factory=list)
    #: Whether a group of PreBind plugins is being started.
    begins: bool = False
    #: The failure that ends the current stage early.
    failed: Status | None = None
    #: The extenders and Bind plugins, or PostBind plugins, that have not run yet.
    binders: Iterator[str | Extender] = _NOBODY
    problems: list[str] = msgspec.field(default_factory=list)

    def __str__(self) -> str:
        return f"binding of pod {self.attempt.pod.key}"

    @property
    def uid(self) -> str:
        return self.attempt.pod.uid

    @property
    def is_aborted(self) -> bool:
        """Whether PreBind is being aborted, so that no further plugin is called."""
        return self.failed is not None or (self.stoppable is not None and self.stoppable.cancelled_for is not None)

    def status_written(self, failed: Exception | None) -> None:
        """The pod's status was written, or writing it failed."""
        self.owner.announced(self, failed)

    def withdrawn(self) -> None:
        """No write of the pod's status is in progress any more."""
        self.owner.bind(self)

    def decided(self, decision: Status) -> None:
        """Permit was decided within another call: continue at the end of the step."""
        self.owner.outbox.soon(self)

    def woken(self) -> None:
        self.owner.woken(self)

    def stop(self, reason: str) -> None:
        """Abort for preemption. Called while something else is in progress."""
        self.owner.outbox.soon(self)
