"""The state of pods in the scheduling queue, as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.inspection.records import QueuedPodRecord, SchedulerRecord
from stowplan.inspection.stories import time_text

if TYPE_CHECKING:
    from stowplan.inspection.stories import Story
    from stowplan.queue.queued_pod import QueuedPod

#: States of a pod that has a node, but is not bound yet.
ON_ITS_WAY = (WAITS_ON_PERMIT, BEING_BOUND) = ("waits on Permit for", "being bound to")


def queued_pod_record(queued: QueuedPod) -> QueuedPodRecord:
    """The record of a waiting pod."""
    return QueuedPodRecord(pod=queued.key, place=queued.place.value, **_state(queued))


def scheduler_record(
    place: str = "", *, queued: QueuedPod | None = None, node: str = "", story: Story | None = None
) -> SchedulerRecord:
    """What a running scheduler knows of a pod: its state, in one or two words, and its history."""
    state = {} if queued is None else _state(queued)
    return SchedulerRecord(place=place, node=node, story=None if story is None else story.record(), **state)


def _state(queued: QueuedPod) -> dict[str, Any]:
    until = queued.backoff_expiration
    return {
        "attempts": queued.attempts,
        "since": time_text(queued.timestamp),
        "backoff_until": "" if until is None or "backoff" not in queued.place.value else time_text(until),
        "gated_by": queued.gating_plugin,
        "rejected_by": tuple(sorted(queued.rejectors)),
    }
