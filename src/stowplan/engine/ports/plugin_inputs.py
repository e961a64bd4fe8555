"""What plugins do beside answering: activate pods, allow, reject or cancel one, record Events.

Within a step it takes effect at once. Between steps it comes from coroutines, and is submitted as an input, so that a
recording has it. While a question is asked it has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stowplan.engine.inputs import Activated, Allowed, Cancelled, Input, Rejected, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.effects import Tell
    from stowplan.engine.outbox import Outbox
    from stowplan.engine.parts import Parts
    from stowplan.framework.status import Status


class Driver(Protocol):
    def submit(self, input_: Input, /) -> None:
        """Hand an input to the engine now, and carry out what follows."""


class PluginInputs:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.driver: Driver | None = None
        #: Whether a step is under way.
        self.stepping = False
        #: Whether a question is being asked.
        self.asking = False

    def begin(self, parts: Parts) -> None:
        """The parts know of this, so they come later."""
        self._parts = parts

    def takers(self) -> dict[type[Any], Callable[[Any], None]]:
        return {
            Activated: self._activated,
            Allowed: self._allowed,
            Rejected: self._rejected,
            Cancelled: self._cancelled,
            Told: self._told,
        }

    def _submitted(self, input_: Input) -> bool:
        """Whether it was handed in as an input, because no step is under way; or was dropped, as somebody only asks."""
        if self.asking:
            return True
        if self.stepping or self.driver is None:
            return False
        self.driver.submit(input_)
        return True

    def activate(self, pods: Sequence[PodInfo]) -> None:
        """Have pending pods tried soon."""
        if not self._submitted(Activated(tuple(pod.key for pod in pods))):
            self._parts.queue.activate(pods)

    def activate_group(self, group: str) -> None:
        """Have those pods of a pod group tried soon that wait in the queue."""
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

    def tell_event(self, tell: Tell) -> None:
        if not self._submitted(Told(tell)):
            self._outbox.tell(tell)

    def _told(self, input_: Told) -> None:
        self._outbox.tell(input_.event)
