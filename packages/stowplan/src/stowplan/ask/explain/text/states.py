"""States of pods in summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.pod_info import PodInfo

#: States of pods that have a node, or that never get one.
RUNNING, STARTING, DELETING = "running", "starting", "deleting"
#: States of pods that get no node now, and of pods that do not wait.
WITHOUT_NODE = ("in_group", "refused", "gated", "unjudged")
SETTLED = ("placeable", RUNNING, DELETING)

#: State -> of one pod, of several, and its style.
STATES = {
    RUNNING: ("runs", "run", "good"),
    STARTING: ("has a node but does not run yet", "have a node but do not run yet", "pending"),
    DELETING: ("is being deleted", "are being deleted", "pending"),
    "on_permit": ("waits on Permit", "wait on Permit", "pending"),
    "in_group": ("waits for its pod group", "wait for their pod group", "pending"),
    "placeable": ("would get a node now", "would get a node now", "good"),
    "refused": ("fits nowhere", "fit nowhere", "bad"),
    "gated": ("gated", "gated", "pending"),
    "unjudged": ("not judged", "not judged", "bad"),
}


def placed_state(info: PodInfo, node: str) -> str:
    """The state of a pod that is not waiting for a node; "" if it is."""
    if info.terminating:
        return DELETING
    if not node:
        return ""
    return STARTING if info.pod.status.phase == "Pending" else RUNNING
