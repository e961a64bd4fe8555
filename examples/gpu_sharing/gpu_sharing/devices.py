"""What every GPU of the cluster still has, as columns: a row per GPU number, a column per node.

Kept once per cluster, whatever the number of profiles, and worked out from the pods on the nodes: their annotation says
which GPUs they have, and for a pod that was placed a moment ago, `hold` does. The cluster's change log says which nodes
to look at again, so a pod that comes or goes costs one node; a transaction that was undone, or a changed node object,
costs all of them once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np

from gpu_sharing.request import GPU_MODEL, PREFIX, WHOLE, GpuRequestError, indexes_of, request_of
from stowplan.plugins import CopiedAtBeginning, Nodes

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpu_sharing.request import GpuRequest
    from stowplan.plugins import Handle, PodInfo

    Ints = npt.NDArray[np.int64]
    #: Node -> UID of a pod -> its GPUs. The inner mappings are replaced, not changed.
    Held = dict[str, dict[str, tuple[int, ...]]]

#: The node's number of GPUs, among its allocatable resources.
NODE_GPUS = PREFIX + "gpu-count"


def devices_of(handle: Handle) -> GpuDevices:
    """The GPUs of the handle's cluster."""
    found: GpuDevices = handle.shared("GPUs", GpuDevices)
    return found


class Follower(Protocol):
    def outdate(self, row: int | None, /) -> None:
        """The row has other GPUs or other pods now; None: any may."""


class GpuDevices:
    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        #: GPUs of pods whose annotation has not come yet, or never does.
        self._held: Held = {}
        #: Columns that are worked out from these; they are told which rows changed.
        self.followers: WeakSet[Follower] = WeakSet()
        self._generation = self._position = -1
        #: Thousandths that are free, shape (GPUs, nodes); 0 where a node has no such GPU.
        self._free: Ints = np.zeros((0, 0), np.int64)
        #: GPUs of each node.
        self._count: Ints = np.zeros(0, np.int64)
        #: Kinds of requests on each node, as bits (see `GpuRequest.kind`).
        self._kinds: Ints = np.zeros(0, np.int64)

    # -- reading ------------------------------------------------------------------------------------------------------

    def free(self, nodes: Nodes) -> Ints:
        """What each GPU of the view's nodes has free, shape (GPUs, nodes)."""
        self.refresh()
        if type(nodes) is Nodes:
            return nodes.take(self._free)
        # Preemption asks what would be if pods left, each node by itself.
        found = np.zeros((len(self._free), len(nodes)), np.int64)
        for i in nodes.positions():
            row = nodes.row(i)
            found[:, i], _, _ = self._sums(nodes.table.names[row], int(self._count[row]), nodes.pods(i))
        return found

    def count(self, nodes: Nodes) -> Ints:
        """The number of GPUs of the view's nodes."""
        self.refresh()
        return nodes.take(self._count)

    def kinds(self, nodes: Nodes) -> Ints:
        """Which kinds of requests the view's nodes have, as bits."""
        self.refresh()
        return nodes.take(self._kinds)

    def allowed(self, nodes: Nodes, models: frozenset[str]) -> npt.NDArray[np.bool_]:
        """The view's nodes whose model is one of these."""
        column = nodes.label(GPU_MODEL)
        among = np.zeros(column.size, np.bool_)
        among[[column.code(model) for model in models]] = True
        among[0] = False
        return among[nodes.codes(GPU_MODEL)]

    # -- pods that were placed a moment ago ---------------------------------------------------------------------------

    def hold(self, pod: PodInfo, node_name: str, indexes: tuple[int, ...]) -> None:
        """The pod, which is on the node by now, has these GPUs until its annotation says so."""
        self.refresh()
        self._held[node_name] = {**self._held.get(node_name, {}), pod.uid: indexes}
        row, request = self._cluster.table.row_of.get(node_name), _request(pod)
        if row is not None and request is not None:
            # It is known what changes: no need to look at every pod of the node.
            for i in indexes:
                self._free[i, row] = max(0, self._free[i, row] - request.milli)
            for follower in self.followers:
                follower.outdate(row)

    def release(self, pod: PodInfo, node_name: str) -> None:
        """Give back what `hold` took; no-op if there is nothing."""
        held = self._held.get(node_name, {})
        if pod.uid in held:
            self._put_held(node_name, {uid: gpus for uid, gpus in held.items() if uid != pod.uid})
            self._look_again(node_name)

    def held(self, pod: PodInfo, node_name: str) -> tuple[int, ...]:
        return self._held.get(node_name, {}).get(pod.uid, ())

    def participant(self) -> CopiedAtBeginning:
        """What transactions restore of it; the columns follow from the rest."""
        return CopiedAtBeginning(lambda: dict(self._held), self._restore)

    def _restore(self, held: Held) -> None:
        self._held = dict(held)
        self._generation = -1

    def _put_held(self, node_name: str, held: dict[str, tuple[int, ...]]) -> None:
        if held:
            self._held[node_name] = held
        else:
            self._held.pop(node_name, None)

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what happened to pods and nodes since."""
        changes, generation = self._cluster.changes, self._cluster.table.generation
        if self._position == changes.position and self._generation == generation:
            return
        rows = changes.since(self._position)
        if rows is None or self._generation != generation:
            self._renew()
        else:
            for row in rows:
                self._look_at(row)
        self._position, self._generation = changes.position, generation

    def _renew(self) -> None:
        table = self._cluster.table
        resource = table.resources.get(NODE_GPUS)
        none = np.zeros(table.n, np.int64)
        self._count = none if resource is None else table.allocatable[resource, : table.n].copy()
        numbers = np.arange(max(self._count, default=0))
        self._free = np.where(numbers[:, None] < self._count, WHOLE, 0)
        self._kinds = none.copy()
        for follower in self.followers:
            follower.outdate(None)
        for row in np.flatnonzero((table.pod_count[: table.n] > 0) & (self._count > 0)).tolist():
            self._look_at(row)

    def _look_again(self, node_name: str) -> None:
        self.refresh()
        row = self._cluster.table.row_of.get(node_name)
        if row is not None:
            self._look_at(row)

    def _look_at(self, row: int) -> None:
        name = self._cluster.table.names[row]
        free, kinds, held = self._sums(name, int(self._count[row]), self._cluster.row_pods[row])
        self._free[:, row], self._kinds[row] = free, kinds
        for follower in self.followers:
            follower.outdate(row)
        if name in self._held:
            # Whoever is gone, or has its annotation, needs no note.
            self._put_held(name, held)

    def _sums(self, node_name: str, count: int, pods: Any) -> tuple[list[int], int, dict[str, tuple[int, ...]]]:
        """What each GPU of a node has free beside these pods, their kinds, and which of them `hold` GPUs."""
        free = [WHOLE] * count + [0] * (len(self._free) - count)
        kinds, noted, held = 0, self._held.get(node_name, {}), {}
        for pod in pods:
            request = _request(pod)
            if request is None:
                continue
            kinds |= 1 << request.kind
            indexes = indexes_of(pod.annotations)
            if indexes is None and pod.uid in noted:
                indexes = held[pod.uid] = noted[pod.uid]
            for i in indexes or ():
                if i < count:
                    free[i] = max(0, free[i] - request.milli)
        return free, kinds, held


def _request(pod: PodInfo) -> GpuRequest | None:
    try:
        return request_of(pod.annotations)
    except GpuRequestError:
        # Somebody else placed it; whatever it has, nobody can tell.
        return None
