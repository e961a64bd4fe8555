"""The queue in a dump, as encodable values.

Pods in flight are not included: an attempt in progress cannot be dumped.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, QueuedPod


class DumpedQueuedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting pod, or a group's entry. The pod is pending, or to grow on its node. See `QueuedPod`."""

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
    #: Only if it was; since 1.37.
    flushed_at: float | msgspec.UnsetType = msgspec.UNSET
    #: Of a group's entry; since 1.37.
    group: DumpedGroup | msgspec.UnsetType = msgspec.UNSET


class DumpedGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    members: list[DumpedQueuedPod]
    #: The key of the pod that gates it; "" if none does.
    gated_by: str


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


#: Fields of a queued pod; `group` is a group's alone.
_COPIED = tuple(name for name in DumpedQueuedPod.__struct_fields__ if name != "group")


def dumped_pod(queued: QueuedPod) -> DumpedQueuedPod:
    fields: dict[str, Any] = {name: getattr(queued, name) for name in _COPIED}
    plugins = {name: sorted(fields[name]) for name in ("unschedulable_plugins", "pending_plugins")}
    if queued.flushed_at is None:
        fields["flushed_at"] = msgspec.UNSET
    if isinstance(queued, QueuedGroup):
        members = [dumped_pod(member) for member in queued.members.values()]
        gate = "" if queued.gated_by is None else queued.gated_by.key
        fields["group"] = DumpedGroup(name=queued.name, members=members, gated_by=gate)
    return DumpedQueuedPod(**(fields | plugins | {"place": queued.place.value}))


class KnownPods(Protocol):
    """The pods that may wait, by `namespace/name`."""

    def get(self, key: str, /) -> PodInfo | None: ...


def restored_pod(dumped: DumpedQueuedPod, pending: KnownPods) -> QueuedPod:
    fields = {name: value for name, value in msgspec.structs.asdict(dumped).items() if value is not msgspec.UNSET}
    plugins = {name: set(fields[name]) for name in ("unschedulable_plugins", "pending_plugins")}
    fields |= plugins | {"place": Place(dumped.place)}
    if not isinstance(dumped.group, DumpedGroup):
        return QueuedPod(pod=_pending_pod(dumped.key, pending), **fields)
    del fields["group"]
    members = [restored_pod(member, pending) for member in dumped.group.members]
    entry = QueuedGroup(pod=members[0].pod, name=dumped.group.name, **fields)
    for member in members:
        entry.put(member)
    entry.gated_by = entry.members.get(dumped.group.gated_by)
    return entry


def _pending_pod(key: str, pending: KnownPods) -> PodInfo:
    info = pending.get(key)
    if info is None:
        raise ValueError(f"pod {key} waits in the queue of the dump, and is not among its pending pods")
    return info
