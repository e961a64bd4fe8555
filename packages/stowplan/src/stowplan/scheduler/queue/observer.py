"""The interface for observers of queue moves.

It is called when a move is complete, and must not change the queue from within a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.framework.events import ClusterEvent
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, QueuedPod


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueObserver:
    """Does nothing; override as needed."""

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """A pod moved to a place, by itself or with its group."""

    def group_moved(self, group: QueuedGroup, place: Place, cause: str) -> None:
        """A group's entry moved to a place, after its pods."""

    def woken(self, pods: Sequence[QueuedPod], event: ClusterEvent, changed: Any) -> None:
        """An event requeued pods that plugins had rejected; the rejecting plugins are still recorded on them.

        `changed`: the object of the event, None if there is none.
        """

    def problem(self, text: str) -> None:
        """A plugin failed, or a pod is in two places; the queue continues."""
