"""Pods that wait on Permit or are in PreBind.

A Permit plugin can make a pod wait until the plugin allows it, the pod is rejected, or a timeout expires. Each plugin
has its own deadline. The pod proceeds when no plugin is pending, and the first signal wins. The objects here only hold
state: they read an injected clock when called, and notify listeners registered with `on_decided`. The engine has an
alarm for each pod's `next_deadline` and calls `expire` when it fires.

A pod in PreBind can be cancelled by preemption until PreBind completes: `PodInPreBind` decides that race.

Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go and pods_in_prebind_map.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from stowplan.kube.config import Duration
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, wrapped

#: Rejection message for a waiting pod that is deleted.
REMOVED = "removed"


def timeout_message(plugin: str, seconds: float) -> str:
    return f"rejected due to timeout after waiting {Duration.of_seconds(seconds)} at plugin {plugin}"


class SignalInbox(Protocol):
    """Accepts signals that arrive between the engine's steps, as inputs; each method returns whether it did."""

    def allowed(self, uid: str, plugin: str, /) -> bool: ...

    def rejected(self, uid: str, status: Status, /) -> bool: ...

    def cancelled(self, uid: str, reason: str, /) -> bool: ...


class WaitingPod:
    """A pod that waits on Permit, and the plugins that it waits for."""

    def __init__(
        self,
        pod: PodInfo,
        timeouts: Mapping[str, float],
        *,
        now: Callable[[], float],
        outside: SignalInbox | None = None,
    ) -> None:
        self.pod = pod
        self._outside = outside
        #: Success, a rejection (Unschedulable) or a preemption (Error); None while the pod is waiting.
        self.decision: Status | None = None
        self._now = now
        #: Plugin -> (deadline, timeout in seconds), in plugin order.
        self._pending = {plugin: (now() + timeout, timeout) for plugin, timeout in timeouts.items()}
        self._listeners: list[Callable[[Status], None]] = []

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """Plugins that have not allowed the pod yet."""
        return tuple(self._pending)

    @property
    def next_deadline(self) -> float | None:
        """When the pod's first timeout expires, on the injected clock; None once it is decided."""
        if self.decision is not None:
            return None
        return min((deadline for deadline, _ in self._pending.values()), default=None)

    @property
    def is_refused(self) -> bool:
        """Whether it was decided that the pod is not bound."""
        return self.decision is not None and self.decision.code != Code.Success

    def on_decided(self, listener: Callable[[Status], None]) -> None:
        """Call the listener once with the decision; at once if there already is one."""
        if self.decision is not None:
            listener(self.decision)
        else:
            self._listeners.append(listener)

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of the plugin; it proceeds if no other plugin is pending."""
        if self._outside is not None and self._outside.allowed(self.uid, plugin):
            return
        self.expire()
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; False if it was already decided otherwise."""
        return self.resolve(Status(Code.Unschedulable, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Preempt the pod, so that it is retried later; False if it was already decided otherwise."""
        return self.resolve(Status(Code.Error, (message,), plugin))

    def resolve(self, status: Status) -> bool:
        """End the wait with this status; False if it was already decided otherwise."""
        # Before it is submitted: the step that takes it may decide it within this call.
        undecided = self.decision is None
        if self._outside is not None and self._outside.rejected(self.uid, status):
            return undecided and self.decision == status
        self.expire()
        return self._decide(status)

    def expire(self) -> bool:
        """Reject the pod if its timeout has expired; return whether it did.

        Every signal checks the clock first: an expired deadline wins, even if its timer fires late.
        """
        deadline = self.next_deadline
        if deadline is None or deadline > self._now():
            return False
        return self._decide(self.timeout)

    @property
    def timeout(self) -> Status:
        """The status after a timeout: rejected by the plugin with the earliest deadline."""
        plugin, (_, timeout) = min(self._pending.items(), key=lambda item: item[1][0])
        return Status(Code.Unschedulable, (timeout_message(plugin, timeout),), plugin)

    def _decide(self, decision: Status) -> bool:
        if self.decision is not None:
            return False
        self.decision = decision
        # Decided before anyone is told: a listener may signal the pod again, which must find it decided.
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(decision)
        return True


def permit_outcome(decision: Status) -> Status | None:
    """What a decision means for the binding: success, a rejection, or an error."""
    if decision.code == Code.Success:
        return None
    if decision.rejected:
        return decision
    return wrapped("waiting on permit for pod", decision).with_plugin(decision.plugin)


class WaitingPods:
    """The pods that wait on Permit, by UID; shared by all profiles."""

    def __init__(self, *, now: Callable[[], float], outside: SignalInbox | None = None) -> None:
        #: Monotonic seconds.
        self._now = now
        self._outside = outside
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __bool__(self) -> bool:
        return bool(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over a snapshot; pods may be decided or removed during the iteration."""
        return iter(tuple(self._pods.values()))

    def add(self, pod: PodInfo, timeouts: Mapping[str, float]) -> WaitingPod:
        """Make a pod wait for plugins, each with a timeout in seconds from now."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, timeouts, now=self._now, outside=self._outside)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Remove a pod once its decision has been received."""
        self._pods.pop(uid, None)

    def reject(self, uid: str) -> bool:
        """Reject a pod that is being deleted; False if it is not waiting."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", REMOVED)

    @property
    def next_deadline(self) -> float | None:
        """The time of the next timeout; None if no pod waits."""
        deadlines = (waiting.next_deadline for waiting in self._pods.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expire(self) -> list[WaitingPod]:
        """Reject pods that timed out; return them."""
        return [waiting for waiting in self if waiting.expire()]


class PodInPreBind:
    """A pod whose PreBind is running: it either completes or is cancelled first."""

    def __init__(self, uid: str, cancel: Callable[[str], None], *, outside: SignalInbox | None = None) -> None:
        self._uid = uid
        self._cancel = cancel
        self._outside = outside
        #: Why the pod was cancelled; None if it was not.
        self.cancelled_for: str | None = None
        self.prebound = False

    def cancel(self, reason: str) -> bool:
        """Stop the pod's binding; False if PreBind has completed. The first reason wins."""
        if self.prebound:
            return False
        if self._outside is not None and self._outside.cancelled(self._uid, reason):
            return True
        if self.cancelled_for is None:
            # First the reason, which whoever is told looks at.
            self.cancelled_for = reason
            self._cancel(reason)
        return True

    def mark_prebound(self) -> bool:
        """Mark PreBind as completed; False if the pod was cancelled."""
        # One or the other, for good: preemption counts on the room of a pod that it has cancelled.
        self.prebound = self.cancelled_for is None
        return self.prebound


class PodsInPreBind:
    """The pods whose PreBind is running, by UID; shared by all profiles."""

    def __init__(self, *, outside: SignalInbox | None = None) -> None:
        self._outside = outside
        self._pods: dict[str, PodInPreBind] = {}

    def uids(self) -> list[str]:
        return list(self._pods)

    def add(self, uid: str, cancel: Callable[[str], None]) -> PodInPreBind:
        """`cancel` stops the pod's binding; called at most once, with the reason."""
        found = self._pods[uid] = PodInPreBind(uid, cancel, outside=self._outside)
        return found

    def get(self, uid: str) -> PodInPreBind | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
