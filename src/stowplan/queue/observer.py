"""Who is told what happens in the queue.

A move is told when it is complete; an observer must not change the queue from within a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.queue.queued_pod import Place, QueuedPod


class QueueObserver:
    """Ignores everything; override what is of interest."""

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """A pod has come to a place."""

    def problem(self, text: str) -> None:
        """A plugin failed, or a pod is in two places: the queue goes on, somebody should know."""

    def ready(self) -> None:
        """A pod can be popped that could not before."""
