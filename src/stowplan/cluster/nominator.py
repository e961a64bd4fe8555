"""Pods that preemption promised a node to, until they get there.

Upstream: pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import PodInfo


#: Nodes whose last change is remembered.
_LIMIT = 8192


class Nominator:
    """Node name -> pods nominated to it, in order of nomination."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, list[PodInfo]] = {}
        #: Moves with every change.
        self.version = 0
        #: Node -> version of its last change, in the order of these; the oldest are dropped.
        self._touched: dict[str, int] = {}
        self._forgotten = 0

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def add(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod; an empty name only takes the old nomination away. A promise that is renewed keeps its age."""
        if node_name and self._node_of.get(info.uid) == node_name:
            self._touch(node_name)
            self._pods[node_name] = [info if known.uid == info.uid else known for known in self._pods[node_name]]
            return
        self.delete(info.uid)
        if node_name:
            self._touch(node_name)
            self._node_of[info.uid] = node_name
            self._pods.setdefault(node_name, []).append(info)

    def delete(self, uid: str) -> None:
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        self._touch(node_name)
        left = [info for info in self._pods[node_name] if info.uid != uid]
        if left:
            self._pods[node_name] = left
        else:
            del self._pods[node_name]

    def _touch(self, node_name: str) -> None:
        self.version += 1
        self._touched.pop(node_name, None)
        self._touched[node_name] = self.version
        if len(self._touched) > _LIMIT:
            oldest = next(iter(self._touched))
            self._forgotten = self._touched.pop(oldest)

    def changed_since(self, version: int) -> list[str] | None:
        """Nodes whose promises changed since, the last one first; None when there is no telling."""
        if version < self._forgotten:
            return None
        return [name for name, _ in takewhile(lambda item: item[1] > version, reversed(self._touched.items()))]

    def nodes(self) -> list[str]:
        return list(self._pods)

    def on(self, node_name: str) -> list[PodInfo]:
        return self._pods.get(node_name, [])

    def node_of(self, uid: str) -> str:
        return self._node_of.get(uid, "")
