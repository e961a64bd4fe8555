"""A pod in the queue, with the results of its attempts.

Upstream: pkg/scheduler/framework/types.go (QueuedPodInfo).
"""

from __future__ import annotations

from enum import Enum

from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_info import PodInfo


class Place(Enum):
    """Where a pod of the queue is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    GONE = "gone"


#: Causes of moves that are no events.
POPPED, DONE, REMOVED = "Popped", "Done", "Removed"


class QueuedPod(PlainStruct, kw_only=True, eq=False):
    """Owned by the queue, except while in flight: then the caller of `pop` fills in which plugins rejected it."""

    pod: PodInfo
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
    #: When it first became active.
    initial_attempt_timestamp: float | None = None
    #: Plugins that rejected it in the last attempt, and those that gated it since.
    unschedulable_plugins: set[str] = field(default_factory=set)
    #: Plugins that returned Pending: the pod waits for an event that they will trigger themselves.
    pending_plugins: set[str] = field(default_factory=set)
    #: The PreEnqueue plugin that gates it; "" if none does.
    gating_plugin: str = ""
    #: Whether it is gated only because another pod of its group is; since 1.37.
    held: bool = False
    #: Whether it was last tried with its group, and waits its backoff out: see `waits_out`.
    with_group: bool = False
    place: Place = Place.GONE
    #: Grows with each move to a place; breaks ties of the order.
    arrival: int = 0

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def key(self) -> str:
        return self.pod.key

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
    def rejectors(self) -> set[str]:
        return self.unschedulable_plugins | self.pending_plugins
