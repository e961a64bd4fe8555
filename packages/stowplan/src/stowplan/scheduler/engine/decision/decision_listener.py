"""Listeners of decisions, such as a simulation or `Cluster.schedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stowplan.scheduler.engine.decision.attempt import Attempt, Failure
    from stowplan.scheduler.engine.decision.decision import Decision
    from stowplan.scheduler.queue.queued_pod import QueuedPod


class DecisionListener(Protocol):
    def decided(self, decision: Decision, /) -> None:
        """Called after a node was chosen for the pod, or none was found."""

    def failed(self, queued: QueuedPod, failure: Failure, /) -> None:
        """An attempt failed at any point; the pod was requeued."""

    def bound(self, attempt: Attempt, /) -> None:
        """A pod was bound."""
