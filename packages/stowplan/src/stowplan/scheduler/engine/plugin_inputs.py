"""Side effects of plugins: activate pods, allow, reject or cancel one, record Events.

Within a step they take effect at once. Between steps they come from coroutines, and are submitted as inputs, so that
they are recorded; `Engine` handles them. While a question is answered they are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stowplan.kube.api.meta import ApiStruct, reference_to
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.scheduler.engine.inputs import Activated, Allowed, Cancelled, EventEmitted, Input, Rejected
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue


class Driver(Protocol):
    def submit(self, input_: Input, /) -> None:
        """Pass an input to the engine now, and carry out the effects."""


class PluginInputs:
    """Turns what plugins do between steps into inputs."""

    def __init__(self, outbox: Outbox, queue: SchedulingQueue) -> None:
        self._outbox = outbox
        self._queue = queue
        self.driver: Driver | None = None
        #: Whether a step is in progress.
        self.stepping = False
        #: Whether a question is being answered.
        self.asking = False

    def submitted(self, input_: Input) -> bool:
        """Whether the call was submitted as an input (no step is in progress) or dropped (because of a question)."""
        # First: a question runs between steps, and its plugins' doings are hypothetical.
        if self.asking:
            return True
        if self.stepping or self.driver is None:
            return False
        self.driver.submit(input_)
        return True

    def allowed(self, uid: str, plugin: str) -> bool:
        return self.submitted(Allowed(uid, plugin))

    def rejected(self, uid: str, status: Status) -> bool:
        return self.submitted(Rejected(uid, status))

    def cancelled(self, uid: str, reason: str) -> bool:
        return self.submitted(Cancelled(uid, reason))

    def activate(self, pods: Sequence[PodInfo]) -> None:
        """Activate pending pods."""
        if not self.submitted(Activated(tuple(pod.key for pod in pods))):
            self._queue.activate(pods)

    def activate_group(self, group: str) -> None:
        """Activate those pods of a pod group that are in the queue."""
        if members := self._queue.waiting_members(group):
            self.activate(members)

    def emit_event(self, event: EmitEvent) -> None:
        if not self.submitted(EventEmitted(event)):
            self._outbox.emit(event)


class EffectRecorder:
    """The Events of one profile, as effects (`framework.handle.EventRecorder`)."""

    def __init__(self, inputs: PluginInputs, profile: str) -> None:
        self._inputs = inputs
        self._profile = profile

    def event(
        self, regarding: ApiStruct, *, type_: str, reason: str, action: str, note: str, related: ApiStruct | None = None
    ) -> None:
        self._inputs.emit_event(
            EmitEvent(
                profile=self._profile,
                regarding=reference_to(regarding),
                type_=type_,
                reason=reason,
                action=action,
                note=note,
                related=None if related is None else reference_to(related),
            )
        )
