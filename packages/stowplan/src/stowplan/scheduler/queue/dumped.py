"""The queue in a dump, as encodable values.

Pods in flight are not included: an attempt in progress cannot be dumped.
"""

from __future__ import annotations

import msgspec

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod


class DumpedQueuedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting pod. The pod itself is among the pending pods. For the fields see `QueuedPod`."""

    key: str
    place: str
    arrival: int
    timestamp: float
    attempts: int
    backoff_expiration: float | None
    unschedulable_count: int
    consecutive_errors_count: int
    was_flushed: bool
    initial_attempt_timestamp: float | None
    unschedulable_plugins: list[str]
    pending_plugins: list[str]
    gating_plugin: str
    with_group: bool = False
    #: Only if it is.
    held: bool | msgspec.UnsetType = msgspec.UNSET


class DumpedQueue(msgspec.Struct, frozen=True, kw_only=True):
    #: By place, in the order in which each place lists them.
    pods: list[DumpedQueuedPod]
    arrivals: int
    #: Rejected pods that were popped since the last new one.
    rejected_in_a_row: int
    #: When to check next for completed backoffs, and for pods that were unschedulable for too long.
    next_backoff_look: float
    next_leftovers: float
    #: No ungated unschedulable pod has an earlier timestamp; None: there is none.
    oldest: float | None
    #: Pods popped so far.
    scheduling_cycle: int
    #: (plugin, profile, waiting pods that it rejected).
    rejected_by: list[tuple[str, str, int]]


def dumped_pod(queued: QueuedPod) -> DumpedQueuedPod:
    fields = {name: getattr(queued, name) for name in DumpedQueuedPod.__struct_fields__}
    plugins = {name: sorted(fields[name]) for name in ("unschedulable_plugins", "pending_plugins")}
    held = True if queued.held else msgspec.UNSET
    return DumpedQueuedPod(**(fields | plugins | {"place": queued.place.value, "held": held}))


def restored_pod(dumped: DumpedQueuedPod, info: PodInfo) -> QueuedPod:
    fields = msgspec.structs.asdict(dumped)
    del fields["key"]
    plugins = {name: set(fields[name]) for name in ("unschedulable_plugins", "pending_plugins")}
    return QueuedPod(pod=info, **(fields | plugins | {"place": Place(dumped.place), "held": dumped.held is True}))
