"""The interface for observers of queue moves.

It is called when a move is complete, and must not change the queue from within a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.queue.queued_pod import Place, QueuedPod


class QueueObserver:
    """Does nothing; override what is needed."""

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """A pod moved to a place."""

    def problem(self, text: str) -> None:
        """A plugin failed, or a pod is in two places; the queue goes on."""
