"""Side effects of plugins: activate pods, allow, reject or cancel one, record Events.

Within a step they take effect at once. Between steps they come from coroutines, and are submitted as inputs, so that
they are recorded. While a question is answered they are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stowplan.scheduler.engine.inputs import Activated, Allowed, Cancelled, EventEmitted, Input, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.effects import EmitEvent
    from stowplan.scheduler.engine.outbox import Outbox
    from stowplan.scheduler.engine.parts import Parts
    from stowplan.scheduler.framework.status import Status


class Driver(Protocol):
    def submit(self, input_: Input, /) -> None:
        """Pass an input to the engine now, and carry out the effects."""


class PluginInputs:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.driver: Driver | None = None
        #: Whether a step is in progress.
        self.stepping = False
        #: Whether a question is being answered.
        self.asking = False

    def begin(self, parts: Parts) -> None:
        """Set the parts, which need this object to be built."""
        self._parts = parts

    def takers(self) -> dict[type[Any], Callable[[Any], None]]:
        return {
            Activated: self._activated,
            Allowed: self._allowed,
            Rejected: self._rejected,
            Cancelled: self._cancelled,
            EventEmitted: self._event_emitted,
        }

    def _submitted(self, input_: Input) -> bool:
        """Whether the call was submitted as an input (no step is in progress) or dropped (because of a question)."""
        if self.asking:
            return True
        if self.stepping or self.driver is None:
            return False
        self.driver.submit(input_)
        return True

    def activate(self, pods: Sequence[PodInfo]) -> None:
        """Activate pending pods."""
        if not self._submitted(Activated(tuple(pod.key for pod in pods))):
            self._parts.queue.activate(pods)

    def activate_group(self, group: str) -> None:
        """Activate those pods of a pod group that are in the queue."""
        if members := self._parts.queue.waiting_members(group):
            self.activate(members)

    def _activated(self, input_: Activated) -> None:
        found = (self._parts.state.pending.get(key) for key in input_.pods)
        self._parts.queue.activate([pod for pod in found if pod is not None])

    def allowed(self, uid: str, plugin: str) -> bool:
        return self._submitted(Allowed(uid, plugin))

    def _allowed(self, input_: Allowed) -> None:
        waiting = self._parts.waiting_pods.get(input_.uid)
        if waiting is not None:
            waiting.allow(input_.plugin)

    def rejected(self, uid: str, status: Status) -> bool:
        return self._submitted(Rejected(uid, status))

    def _rejected(self, input_: Rejected) -> None:
        waiting = self._parts.waiting_pods.get(input_.uid)
        if waiting is not None:
            waiting.turn_away(input_.status)

    def cancelled(self, uid: str, reason: str) -> bool:
        return self._submitted(Cancelled(uid, reason))

    def _cancelled(self, input_: Cancelled) -> None:
        binding = self._parts.pods_in_pre_bind.get(input_.uid)
        if binding is not None:
            binding.cancel(input_.reason)

    def emit_event(self, event: EmitEvent) -> None:
        if not self._submitted(EventEmitted(event)):
            self._outbox.emit(event)

    def _event_emitted(self, input_: EventEmitted) -> None:
        self._outbox.emit(input_.event)
