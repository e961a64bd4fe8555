"""What the engine has written to the API server: it says what, a driver carries it out.

Nothing here waits, and nothing is answered. Events go to each profile's `EventRecorder` (`framework/handle.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stowplan.api.types import Pod, PodCondition


class StatusWriter(Protocol):
    """Pod statuses on their way to the API server."""

    def write(self, pod: Pod, *, condition: PodCondition | None = None, nominated_node_name: str | None = None) -> None:
        """Have the pod's status say this, soon; a nominated node of None leaves it as it is, "" clears it."""

    def observe(self, pod: Pod) -> None:
        """A new version of a pod without a node has been seen."""

    def forget(self, uid: str) -> None:
        """The pod is gone or bound: nothing is to be written any more."""
