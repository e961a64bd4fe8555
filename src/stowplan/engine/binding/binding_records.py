"""Records of binding cycles, and of the plugin calls they wait for.

A record has its stage and the object that advances it; what each stage does is in `bindings.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.engine.decision.attempt import Attempt
    from stowplan.engine.outbox import Alarm, Outbox
    from stowplan.framework.extender import Extender
    from stowplan.framework.interface import RequestBinder
    from stowplan.framework.requests import Outcome, Steps
    from stowplan.framework.status import Status
    from stowplan.framework.waiting_pods import PodInPreBind, WaitingPod


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


class PluginCall:
    """A PreBind, Bind or PostBind call in progress: a coroutine that the driver runs, a request, or steps.

    Also used for an extender that binds.
    """

    __slots__ = (
        "_woken_by",
        "asleep_since",
        "binder",
        "binding",
        "is_extenders",
        "number",
        "plugin",
        "started",
        "steps",
        "writes",
    )

    def __init__(self, binding: Binding, plugin: str, *, is_extenders: bool = False) -> None:
        self.binding = binding
        #: The name of the plugin or extender.
        self.plugin = plugin
        self.is_extenders = is_extenders
        self.steps: Steps | None = None
        #: The binder whose request is in progress, if the call is only a request.
        self.binder: RequestBinder | None = None
        #: The effect that it waits for; 0 if none.
        self.number = 0
        #: Whether that effect is a write.
        self.writes = False
        self.started = 0.0
        #: When it started to wait for objects or a time.
        self.asleep_since = 0.0
        self._woken_by: Alarm | None = None

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

    def __init__(self, owner: Mover, attempt: Attempt) -> None:
        self.owner = owner
        self.attempt = attempt
        self.stage = Stage.BEGUN
        #: When the current stage began, by the stopwatch.
        self.started = 0.0
        self.waiting: WaitingPod | None = None
        self.timer: Alarm | None = None
        #: PreBind plugins that have not run yet, group by group.
        self.groups: list[tuple[str, ...]] = []
        self.stoppable: PodInPreBind | None = None
        self.calls: list[PluginCall] = []
        #: Whether a group of PreBind plugins is being started.
        self.begins = False
        #: The failure that ends the current stage early.
        self.failed: Status | None = None
        #: The extenders and Bind plugins, or PostBind plugins, that have not run yet.
        self.binders = _NOBODY
        self.problems: list[str] = []

    def __str__(self) -> str:
        return f"binding of pod {self.attempt.pod.key}"

    @property
    def uid(self) -> str:
        return self.attempt.pod.uid

    @property
    def is_broken_off(self) -> bool:
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
