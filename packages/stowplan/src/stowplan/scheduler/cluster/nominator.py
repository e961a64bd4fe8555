"""Nominated pods, which reserve room on a node before they are bound.

Upstream: pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.transaction import CopiedBeforeChange

_Copy = tuple[dict[str, str], "dict[str, list[PodInfo]]", int]


class Nominator(CopiedBeforeChange):
    """Node name -> pods nominated to it, in order of nomination."""

    def __init__(self, compiled: Callable[[Pod], PodInfo], remembered: int = 8192) -> None:
        """`compiled`: compiles a loaded pod. `remembered`: the length of the change log."""
        super().__init__()
        self._node_of: dict[str, str] = {}
        #: Lists are replaced, never modified.
        self._pods: dict[str, list[PodInfo]] = {}
        #: Nodes whose nominations changed.
        self._changes: ChangeLog[str] = ChangeLog(remembered)
        self._compiled = compiled

    def __bool__(self) -> bool:
        return bool(self._node_of)

    @property
    def version(self) -> int:
        """Changes with every modification."""
        return self._changes.position

    def add(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod, or only remove its nomination if the name is empty.

        Renominating to the same node keeps its position.
        """
        if node_name and self._node_of.get(info.uid) == node_name:
            self._changing(node_name)
            self._pods[node_name] = [info if known.uid == info.uid else known for known in self._pods[node_name]]
            return
        self.delete(info.uid)
        if node_name:
            self._changing(node_name)
            self._node_of[info.uid] = node_name
            self._pods[node_name] = [*self._pods.get(node_name, ()), info]

    def delete(self, uid: str) -> None:
        node_name = self._node_of.get(uid)
        if node_name is None:
            return
        self._changing(node_name)
        del self._node_of[uid]
        left = [info for info in self._pods[node_name] if info.uid != uid]
        if left:
            self._pods[node_name] = left
        else:
            del self._pods[node_name]

    def _changing(self, node_name: str) -> None:
        # Before the change, or there is nothing to return to.
        if self._uncopied:
            self._copy_now()
        self._changes.append(node_name)

    def changed_since(self, version: int) -> list[str] | None:
        """Nodes whose nominations changed since; None if the log does not reach back that far."""
        return self._changes.since(version)

    def nodes(self) -> list[str]:
        return list(self._pods)

    def on(self, node_name: str) -> list[PodInfo]:
        return self._pods.get(node_name, [])

    def node_of(self, uid: str) -> str:
        return self._node_of.get(uid, "")

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def _copied(self) -> _Copy:
        # Shallow, as lists are never modified.
        return dict(self._node_of), dict(self._pods), self.version

    def _restore(self, copy: _Copy) -> None:
        self._node_of, self._pods, version = copy
        # To the number of then, as nominations are those of then: what readers have derived from them holds again.
        self._changes.rewind(version)

    def changed_nodes(self, mark: Any) -> list[str]:
        if not mark.copied:
            return []
        then, now = mark.copy[1], self._pods
        return [name for name in {*then, *now} if then.get(name) is not now.get(name)]

    def dump(self) -> list[tuple[str, list[Pod]]]:
        return [(node_name, [info.pod for info in pods]) for node_name, pods in self._pods.items()]

    def load(self, dumped: list[tuple[str, list[Pod]]]) -> None:
        for uid in list(self._node_of):
            self.delete(uid)
        for node_name, pods in dumped:
            for pod in pods:
                self.add(self._compiled(pod), node_name)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        listed: dict[str, str] = {}
        for node_name, pods in self._pods.items():
            if not pods:
                yield f"node {node_name}: listed without nominated pods"
            for info in pods:
                if info.uid in listed:
                    yield f"pod {info.key} ({info.uid}): nominated to node {listed[info.uid]}, and to {node_name}"
                listed[info.uid] = node_name
        for uid in listed.keys() | self._node_of.keys():
            if listed.get(uid) != self._node_of.get(uid):
                yield f"pod {uid}: nominated to node {self._node_of.get(uid)}, and listed by {listed.get(uid)}"
