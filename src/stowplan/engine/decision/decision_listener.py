"""Listeners to decisions, such as a simulation or `Cluster.schedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stowplan.engine.decision.algorithm import Decision
    from stowplan.engine.decision.attempt import Attempt, Failure
    from stowplan.queue.queued_pod import QueuedPod


class DecisionListener(Protocol):
    def decided(self, decision: Decision, /) -> None:
        """Called once a pod's node, or that there is none, is decided."""

    def failed(self, queued: QueuedPod, failure: Failure, /) -> None:
        """An attempt has failed, at whatever point; the pod is put back."""

    def bound(self, attempt: Attempt, /) -> None:
        """A pod has its node."""
