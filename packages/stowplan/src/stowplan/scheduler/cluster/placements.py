"""Undo log and dump of nodes and their pods.

Nodes and pods are one participant of transactions, because where a pod is counted depends on whether its node exists.
While a transaction is open, `ClusterState` logs the inverse of each change, and an undo runs the log backwards:

* An added pod is removed, and a removed pod returns to its position in its node's list. Both go through the same
  counters as any other pod, so counts that were registered in the meantime are correct afterwards.
* Before the first change of a node, everything that depends on node objects is copied (`NodeTable.saved`). Codes of
  labels and taints, free rows and the order of zones depend on history, so changes of nodes cannot be inverted.

The rest of a state's identity (versions, the log of changed rows, the order of placements) is rewound at the end. Free
rows, slots and ids are reused last in, first out, so each returns to its previous owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stowplan.kube.api.types import Node, Pod
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.dumped import DumpedPlacements, DumpedPod
from stowplan.scheduler.cluster.many_pods import count_off, count_on, take_off_last
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.pods_on_nodes import PodsOnNodes


class _Mark(PlainStruct):
    """The state at the start of a transaction."""

    outer: _Mark | None
    #: Position in the log of changed rows.
    position: int
    #: Of `PodTable`, `MatchCounts` and `HeldCounts`.
    pods: Any
    matches: Any
    held: Any
    #: The inverse of each change since, in order.
    undo: list[Callable[[], None]] = field(default_factory=list)
    #: Nodes that were added, removed or updated since.
    nodes: set[str] = field(default_factory=set)
    #: Names of nodes whose pods changed since; some may be unknown nodes.
    pods_on: set[str] = field(default_factory=set)


class PlacementLog:
    """The undo log of the innermost open transaction. `ClusterState` writes it."""

    def __init__(self, state: PodsOnNodes, mark: _Mark) -> None:
        self._state = state
        self._mark = mark

    # -- pods ---------------------------------------------------------------------------------------------------------

    def attached(self, info: PodInfo) -> None:
        self._mark.pods_on.add(info.node_name)
        self._mark.undo.append(partial(self._state._detach, info))

    def attached_all(self, infos: Sequence[PodInfo]) -> None:
        """Many pods were placed at once."""
        self._mark.pods_on.update(info.node_name for info in infos)
        self._mark.undo.append(partial(take_off_last, self._state, infos))

    def detaching(self, info: PodInfo) -> None:
        self._mark.pods_on.add(info.node_name)
        # Before it is detached, which gives its position to the last pod.
        place = _Place(self._state, info)
        self._mark.undo.append(partial(self._put_back, info, place))

    def listing_last(self, info: PodInfo) -> None:
        self._mark.pods_on.add(info.node_name)
        self._mark.undo.append(partial(_Place(self._state, info).take, info))

    def replacing(self, info: PodInfo) -> None:
        """The object of the pod is about to be replaced."""
        self._mark.undo.append(partial(setattr, info, "pod", info.pod))

    def assuming(self, uid: str) -> None:
        """The pod may become assumed, or cease to be."""
        assumed = self._state._assumed
        self._mark.undo.append(partial((assumed.add if uid in assumed else assumed.discard), uid))

    def _put_back(self, info: PodInfo, place: _Place) -> None:
        self._state._attach(info, place.node_name, place.row)
        place.take(info)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def adding_node(self, node: Node) -> None:
        name, state = node.metadata.name, self._state
        row = state.table.row_of.get(name)
        old = () if row is None else (state.table.nodes[row],)
        self._save_nodes(name)
        if row is not None:
            self._mark.undo.append(state.table.images.saved(row, node, *old))

    def added_node(self, node: Node, row: int) -> None:
        images = self._state.table.images
        self._mark.undo.append(partial(images.remove, row, node))
        self._mark.undo.append(partial(self._detach_pods_of_node, node.metadata.name, row))

    def removing_nodes(self, rows: Mapping[str, int]) -> None:
        table = self._state.table
        for name, row in rows.items():
            node = table.nodes[row]
            assert node is not None
            self._save_nodes(name)
            self._mark.undo.append(table.images.saved(row, node))
        self._mark.undo.append(partial(self._attach_pods_of_nodes, rows))

    def _save_nodes(self, name: str) -> None:
        # Before the first change of the transaction. The undo runs backwards, so this restores what is left when all
        # inverse changes that came later have run.
        if not self._mark.nodes:
            state = self._state
            restore = (state.matches.saved_sums(), state.held.saved_sums(), state.table.saved())
            self._mark.undo += restore
        self._mark.nodes.add(name)

    def _attach_pods_of_nodes(self, rows: Mapping[str, int]) -> None:
        """Count the pods of formerly unknown nodes on their rows again."""
        state = self._state
        for name, row in rows.items():
            state.row_pods[row] = state._on_unknown_nodes.pop(name, [])
        count_on(state, {row: state.row_pods[row] for row in rows.values()})

    def _detach_pods_of_node(self, name: str, row: int) -> None:
        """Count the node's pods as those of an unknown node again."""
        state = self._state
        pods = state.row_pods[row]
        count_off(state, pods)
        if pods:
            state._on_unknown_nodes[name] = pods
        # Another list: the one before belongs to the unknown node.
        state.row_pods[row] = []


class _Place:
    """A pod's position among the pods of its node."""

    __slots__ = ("_last_order", "_order", "_position", "_state", "node_name", "row")

    def __init__(self, state: PodsOnNodes, info: PodInfo) -> None:
        pods, order = state._list_of(info), state.pods.order
        self._state = state
        self.node_name, self.row = info.node_name, info.row
        self._position = pods.index(info)
        self._order, self._last_order = order.item(info.slot), order.item(pods[-1].slot)

    def take(self, info: PodInfo) -> None:
        """Move the pod, which is last in the list, back to this position."""
        pods, order = self._state._list_of(info), self._state.pods.order
        # Inverts the removal, which filled the hole with the last element.
        pods[-1], pods[self._position] = pods[self._position], pods[-1]
        order[pods[-1].slot] = self._last_order
        order[info.slot] = self._order


class Placements:
    """Nodes and the pods on them, as a participant of transactions."""

    def __init__(self, state: PodsOnNodes) -> None:
        self._state = state
        self._mark: _Mark | None = None
        #: None while no transaction is open.
        self.log: PlacementLog | None = None

    def begin(self) -> _Mark:
        state = self._state
        mark = _Mark(self._mark, state.changes.position, state.pods.mark(), state.matches.mark(), state.held.mark())
        self._log_to(mark)
        return mark

    def _log_to(self, mark: _Mark | None) -> None:
        self._mark = mark
        self.log = None if mark is None else PlacementLog(self._state, mark)

    def undo(self, mark: _Mark) -> None:
        state = self._state
        # The inverse changes go through the same code, and must not be logged themselves.
        self.log = None
        try:
            while mark.undo:
                mark.undo.pop()()
            del state.row_pods[state.table.n :]
            # Last, because the inverse changes counted as changes. From here on the numbers say that nothing happened.
            state.changes.rewind(mark.position)
            state.pods.rewind(mark.pods)
            state.matches.rewind(mark.matches)
            state.held.rewind(mark.held)
        finally:
            self._log_to(mark.outer)

    def keep(self, mark: _Mark) -> None:
        if mark.outer is not None:
            # Its own mark has the older versions, so only the inverse changes are new to it.
            mark.outer.undo += mark.undo
            mark.outer.nodes |= mark.nodes
            mark.outer.pods_on |= mark.pods_on
        self._log_to(mark.outer)

    def changed_nodes(self, mark: _Mark) -> set[str]:
        return mark.nodes | (mark.pods_on & self._state.table.row_of.keys())

    def dump(self) -> DumpedPlacements:
        state = self._state
        pods = [DumpedPod(info.pod, info.node_name, state.is_assumed(info.uid)) for info in state.placed_pods()]
        return DumpedPlacements(nodes=state.table.dump(), pods=pods)

    def load(self, dumped: DumpedPlacements) -> None:
        state = self._state
        state._assumed.clear()
        # Pods before nodes: they are counted by row.
        for info in state.placed_pods():
            state._detach(info)
        for row in list(state.table.row_of.values()):
            state.table.remove(row)
        state._forget_sums()
        state.table.load(dumped.nodes)
        del state.row_pods[state.table.n :]
        state.fit_to_table()
        # In the order of their placement, which decides the order of each node's pods and of victims.
        for placed in dumped.pods:
            self._load_pod(placed.pod, placed.node, assumed=placed.assumed)

    def _load_pod(self, pod: Pod, node_name: str, *, assumed: bool) -> None:
        state = self._state
        info = state.pod_info(pod)
        state._attach(info, node_name, state.table.row_of.get(node_name, -1))
        if assumed:
            state._assumed.add(info.uid)
