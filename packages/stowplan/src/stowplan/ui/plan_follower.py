"""A plan that follows a running scheduler, updated incrementally.

Building a plan of five thousand nodes and fifty thousand pods takes a fifth of a second, during which nothing would be
scheduled. So the initial plan is built in slices, each of which is sent while the next one is built; afterwards the
state tells which pods changed. Without viewers nothing is kept or sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stowplan.kube.api.types import Node
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.ui.plan import NodeRow, Plan, PlanChange, PodRow, node_rows, pod_rows

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.ui.event_stream import PlanStreams

#: Seconds between two updates.
INTERVAL = 0.1
#: Pods and nodes per slice: about five milliseconds.
_SLICE, _NODES_OF_SLICE = 1500, 300


class PlanFollower:
    """The plan of a changing state. To be used between the state's changes, never within a transaction."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: As of the last update.
        self.plan = Plan()
        self._touched: set[str] = set()
        #: UID -> the key of its row.
        self._keys: dict[str, str] = {}
        #: Name -> the object of its row.
        self._nodes: dict[str, Node] = {}
        self._generation = -1

    def begin(self) -> None:
        """Build the initial plan at once."""
        for _ in self.begin_with_nodes():
            pass
        for _ in self.go_on_with_pods():
            pass
        self.changes()

    def begin_with_nodes(self) -> Iterator[None]:
        """Build the nodes of the initial plan in slices, between which the state may change."""
        self._state.follow(self._touched)
        names = list(self._state.table.row_of)
        for start in range(0, len(names), _NODES_OF_SLICE):
            self._take_some_nodes(names[start : start + _NODES_OF_SLICE])
            yield

    def go_on_with_pods(self) -> Iterator[dict[str, PodRow]]:
        """Build its pods in slices, between which the state may change: the next update includes these changes."""
        state = self._state
        # An assumed pod is also among the pending ones, possibly in a newer version without a node name.
        waiting = (info for info in state.pending.values() if state.placed(info.uid) is None)
        infos = [*state.placed_pods(), *waiting]
        for start in range(0, len(infos), _SLICE):
            # Pods that changed or were deleted since the listing are marked as touched, so outdated rows last until the
            # next update.
            rows = {row.key: row for row in pod_rows(infos[start : start + _SLICE])}
            self.plan.pods.update(rows)
            self._keys.update({row.uid: key for key, row in rows.items()})
            yield rows

    def end(self) -> None:
        self._state.follow(None)

    def changes(self) -> PlanChange:
        """The changes since the last update."""
        # Sorted: the output of a simulation must not depend on string hashing.
        touched = sorted(self._touched)
        self._touched.clear()
        pods, gone_pods = self._take(touched)
        nodes, gone_nodes = self._take_nodes()
        return PlanChange(nodes, pods, gone_nodes, gone_pods)

    def _take(self, uids: Iterable[str]) -> tuple[dict[str, PodRow], tuple[str, ...]]:
        found: list[PodInfo] = []
        gone: dict[str, None] = {}
        plan, state = self.plan.pods, self._state
        for uid in uids:
            info = state.placed(uid) or state.pending.by_uid(uid)
            if info is not None:
                found.append(info)
                continue
            key = self._keys.pop(uid, None)
            # Another pod may have its name by now.
            if key is not None and plan[key].uid == uid:
                gone[key] = None
        rows = {row.key: row for row in pod_rows(found) if plan.get(row.key) != row}
        for key in gone:
            if key not in rows:
                del plan[key]
        for key, row in rows.items():
            before = plan.get(key)
            if before is not None and before.uid != row.uid:
                self._keys.pop(before.uid, None)
            plan[key] = row
            self._keys[row.uid] = key
        return rows, tuple(key for key in gone if key not in rows)

    def _take_some_nodes(self, names: Iterable[str]) -> None:
        table = self._state.table
        rows = (table.row_of.get(name) for name in names)
        nodes = [node for row in rows if row is not None and (node := table.nodes[row]) is not None]
        self._nodes.update({node.metadata.name: node for node in nodes})
        self.plan.nodes.update({row.name: row for row in node_rows(table, nodes)})

    def _take_nodes(self) -> tuple[dict[str, NodeRow], tuple[str, ...]]:
        table = self._state.table
        if table.generation == self._generation:
            return {}, ()
        self._generation = table.generation
        before, plan = self._nodes, self.plan.nodes
        self._nodes = {node.metadata.name: node for node in table.nodes if node is not None}
        changed = [node for name, node in self._nodes.items() if before.get(name) is not node]
        rows = {row.name: row for row in node_rows(table, changed) if plan.get(row.name) != row}
        gone = tuple(name for name in before if name not in self._nodes)
        for name in gone:
            del plan[name]
        plan.update(rows)
        return rows, gone


async def stream_plan(state: ClusterState, streams: PlanStreams, *, times: Times = REAL_TIMES) -> None:
    """Update streams while they have viewers; runs until cancelled."""
    while True:
        await streams.watched()
        follower = PlanFollower(state)
        try:
            await _begin(follower, streams)
            while streams.has_viewers:
                await times.sleep(INTERVAL)
                streams.publish(follower.changes())
        finally:
            follower.end()
            streams.pause()


async def _begin(follower: PlanFollower, streams: PlanStreams) -> None:
    for _ in follower.begin_with_nodes():
        await asyncio.sleep(0)
    streams.begin(follower.plan.copy(), more=True)
    for rows in follower.go_on_with_pods():
        streams.add_pods(rows)
        await asyncio.sleep(0)
    streams.complete()
    streams.publish(follower.changes())
