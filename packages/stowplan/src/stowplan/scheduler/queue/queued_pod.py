"""What waits in the queue: a pod, or since 1.37 a pod group; with the results of its attempts.

Upstream: pkg/scheduler/framework/types.go (QueuedPodInfo, QueuedPodGroupInfo).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_groups import is_composite, qualified_name
from stowplan.scheduler.cluster.pod_info import PodInfo


class Place(Enum):
    """Where a pod or group of the queue is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    #: A pod waits for its group, which is being tried; and for the PodGroup itself. Since 1.37.
    PENDING = "pending"
    INCOMPLETE = "incomplete"
    IN_FLIGHT = "in flight"
    GONE = "gone"


#: Causes of moves that are no events.
POPPED, DONE, REMOVED = "Popped", "Done", "Removed"


@mypyc_attr(native_class=True)
class QueuedPod(PlainStruct, kw_only=True, eq=False):
    """Owned by the queue, except while in flight: then the caller of `pop` fills in which plugins rejected it."""

    pod: PodInfo
    #: `namespace/name` of the pod.
    key: str
    #: When it was added, or returned from its last attempt.
    timestamp: float
    attempts: int = 0
    #: None until it is computed.
    backoff_expiration: float | None = None
    #: Attempts that ended in a rejection.
    unschedulable_count: int = 0
    #: Attempts since the last rejection that ended in an error.
    consecutive_errors_count: int = 0
    #: Whether it was requeued only because it was unschedulable for too long.
    was_flushed: bool = False
    #: When it was last requeued for that reason; since 1.37.
    flushed_at: float | None = None
    #: When it first became active.
    initial_attempt_timestamp: float | None = None
    #: Plugins that rejected it in the last attempt, and those that gated it since.
    unschedulable_plugins: set[str] = field(default_factory=set)
    #: Plugins that returned Pending: the pod waits for an event that they will trigger themselves.
    pending_plugins: set[str] = field(default_factory=set)
    #: The PreEnqueue plugin that gates it; "" if none does.
    gating_plugin: str = ""
    #: Whether it was last tried with its group, and waits its backoff out: see `waits_out`; until 1.36.
    with_group: bool = False
    #: The entry that it waits in as a pod of a group; since 1.37.
    entry: "QueuedGroup | None" = None  # noqa: UP037
    #: While it is pending or incomplete: the group that it waits for.
    aside_under: str = ""
    place: Place = Place.GONE
    #: Grows with each move to a place; breaks ties of the order.
    arrival: int = 0

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def profile(self) -> str:
        return self.pod.shape.scheduler_name

    @property
    def failed_with_error(self) -> bool:
        """Whether no plugin rejected it, so that its last attempt (if there was one) ended in an error."""
        return not self.unschedulable_plugins and not self.pending_plugins

    @property
    def waits_out(self) -> bool:
        """Whether its backoff counts even when nothing else is to be tried.

        No event brings a group's pods back, so they always back off; without a pause a group that fits nowhere would
        be tried again and again.
        """
        return self.with_group or self.failed_with_error

    @property
    def waits_since(self) -> float:
        """The start of the time after which it is requeued without an event."""
        return self.timestamp if self.flushed_at is None else max(self.timestamp, self.flushed_at)

    @property
    def rejectors(self) -> set[str]:
        return self.unschedulable_plugins | self.pending_plugins


@mypyc_attr(native_class=True)
class QueuedGroup(QueuedPod, kw_only=True, eq=False):
    """The entry of a pod group, in which its pods wait; since 1.37.

    It has timestamps, attempts and backoff of its own. `pod` is the first of its pods, for the order of the queue: all
    of them must have the group's priority, or it is not tried. No plugin rejects a group, so it always backs off.
    """

    #: The key of the group; of a tree, that of its root.
    name: str
    #: Its pods by `namespace/name`. While the group waits, their place, gate and backoff are those of the entry.
    members: dict[str, QueuedPod] = field(default_factory=dict)
    #: The pod that PreEnqueue keeps out, and with it the group; None if none is known.
    gated_by: QueuedPod | None = None

    @property
    def type(self) -> str:
        return "compositepodgroup" if is_composite(self.name) else "podgroup"

    def put(self, member: QueuedPod) -> None:
        """Add a pod, or take over its new version."""
        self.members[member.key], member.entry = member, self
        if member.key == self.pod.key:
            self._sort_in()
        elif member.pod.priority > self.pod.priority:
            self.pod = member.pod

    def remove(self, member: QueuedPod) -> None:
        del self.members[member.key]
        member.entry = None
        if member is self.gated_by:
            self.gated_by = None
        if member.key == self.pod.key and self.members:
            self._sort_in()

    def _sort_in(self) -> None:
        self.pod = max((member.pod for member in self.members.values()), key=_priority)


def entry_key(group: str) -> str:
    """The key of a group's entry; a pod's contains one slash."""
    return group if is_composite(group) else f"podgroup/{group}"


def pods_of(queued: QueuedPod) -> Iterable[QueuedPod]:
    """The pod itself, or the pods of a group's entry."""
    return queued.members.values() if isinstance(queued, QueuedGroup) else (queued,)


def log_keys(queued: QueuedPod, version: KubernetesVersion) -> dict[str, Any]:
    """How the log names it."""
    if version < V1_37:
        return {"pod": queued.pod}
    if isinstance(queued, QueuedGroup):
        return {"type": queued.type, "entity": qualified_name(queued.name)}
    return {"type": "pod", "entity": queued.pod}


def _priority(pod: PodInfo) -> int:
    return pod.priority
