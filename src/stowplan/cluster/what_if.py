"""Try changes on the cluster and take them back exactly.

Everything that `ClusterState` derives from pods is updated as if the change were real, so any question can be asked
in between; at the end the changes are undone in reverse, each pod returns to its place in its node's list, and
versions and the change log are wound back, so that nothing that was reusable before has to be worked out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState


class WhatIf:
    """A context in which pods can be moved; leaving it restores the state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> WhatIf:
        state = self._state
        self._position = state.changes.position
        self._versions = (list(state.matches.versions), list(state.held.versions), state.held.epoch)
        self._detached = state.matches.detached, state.held.detached
        self._order = state.pods._next_order
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()
        state = self._state
        matches, held, epoch = self._versions
        # Slots that were registered in between keep their own, newer versions. So do all that moved when an array that
        # somebody may have kept stopped following its counts meanwhile: it did not see the changes undone.
        if state.matches.detached == self._detached[0]:
            state.matches.versions[: len(matches)] = matches
        if state.held.detached == self._detached[1]:
            state.held.versions[: len(held)] = held
            state.held.epoch = epoch
        state.changes.rewind(self._position)
        state.pods._next_order = self._order

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod that is on no node onto one."""
        self._state._attach(info, node_name)
        self._undo.append(lambda: self._take_off(info))

    def evict(self, info: PodInfo) -> None:
        """Take a placed pod off its node."""
        state, node_name = self._state, info.node_name
        pods = state._list_of(info)
        orders = int(state.pods.order[info.slot]), int(state.pods.order[pods[-1].slot])
        position = state._detach(info)
        self._undo.append(lambda: self._put_back(info, node_name, position, *orders))

    def _take_off(self, info: PodInfo) -> None:
        self._state._detach(info)

    def _put_back(self, info: PodInfo, node_name: str, position: int, order: int, last_order: int) -> None:
        state = self._state
        state._attach(info, node_name)
        pods = state._list_of(info)
        # Who closed the hole is the last one again.
        pods[-1], pods[position] = pods[position], pods[-1]
        state.pods.order[pods[-1].slot] = last_order
        state.pods.order[info.slot] = order
