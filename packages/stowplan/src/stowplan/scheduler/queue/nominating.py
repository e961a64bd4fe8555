"""Nominations made by the queue.

The nominations themselves belong to the cluster state, as Filter takes nominated pods into account.

Upstream: pkg/scheduler/backend/queue/nominator.go, docs/reference/behaviour.md, Nominations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.cluster.nominator import Nominator
    from stowplan.scheduler.cluster.pending_pods import PendingPods
    from stowplan.scheduler.cluster.pod_info import PodInfo


class Nominations:
    """Changes of the nominator that the queue makes."""

    def __init__(self, nominator: Nominator, pending: PendingPods) -> None:
        self._nominator = nominator
        self._pending = pending

    def add(self, info: PodInfo, node_name: str | None = None) -> None:
        """Nominate the pod to a node; "" removes its nomination, None means the node that its status names."""
        wanted = info.pod.status.nominated_node_name if node_name is None else node_name
        if wanted and self._pending.by_uid(info.uid) is None:
            # The nomination of a pod that is deleted or bound would never be removed.
            wanted = ""
        if wanted:
            self._nominator.add(info, wanted)
        else:
            self._nominator.delete(info.uid)

    def update(self, old: Pod, info: PodInfo) -> None:
        """Take over a changed pod; a nomination in memory stays unless the old or the new status has one."""
        node_name = self._nominator.node_of(info.uid)
        old_uid = old.metadata.uid or info.key
        if old_uid != info.uid:
            self._nominator.delete(old_uid)
        if not old.status.nominated_node_name and not info.pod.status.nominated_node_name:
            self.add(info, node_name)
        else:
            self.add(info)

    def delete(self, info: PodInfo) -> None:
        self._nominator.delete(info.uid)
