"""Nodes with pods hypothetically added or removed, each node independent of the others.

Preemption asks for thousands of nodes whether the pod would fit if certain pods were removed. Each question only
changes that node's own pods, so one overlay answers all of them: a copy of the pod columns for these rows, which
`shift` changes for many rows at once. The table itself is never modified.

The overlay uses positions: position i is the view's i-th row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.columns import with_rows
from stowplan.scheduler.cluster.pod_info import Disk, PodInfo
from stowplan.scheduler.cluster.ports import Port, ports_conflict
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes, unwritable


class HypotheticalNodes(Nodes):
    """A view in which pods can be added to and removed from rows."""

    def __init__(self, state: ClusterState, rows: Rows, sums: tuple[Ints, Ints, Ints] | None = None) -> None:
        """`sums`: those of another such view, in place of the cluster's."""
        super().__init__(state, rows)
        if sums is None:
            table = state.table
            sums = (
                self.take(table.requested).copy(),
                self.take(table.non_zero_requested).copy(),
                self.take(table.pod_count).copy(),
            )
        self._requested, self._non_zero, self._pod_count = sums
        #: Position -> the node's pods, for positions that were changed individually.
        self._pods: dict[int, list[PodInfo]] = {}
        self._ports: dict[int, set[Port]] = {}

    def restricted(self, rows: Rows) -> Nodes:
        raise NotImplementedError("take positions of a hypothetical view with `at`")

    def protected(self) -> Nodes:
        assert self.rows is not None
        sums = unwritable(self._requested), unwritable(self._non_zero), unwritable(self._pod_count)
        found = HypotheticalNodes(self.state, self.rows, sums)
        # The same objects: what is listed later shows in the protected view, too.
        found._pods, found._ports = self._pods, self._ports
        return found._protecting(self)

    def position_of(self, row: int) -> int:
        """Position of a table row."""
        assert self.rows is not None
        return int(np.flatnonzero(self.rows == row)[0])

    def at(self, positions: Rows) -> HypotheticalNodes:
        """The same overlay, restricted to some positions."""
        assert self.rows is not None
        sums = self._requested[:, positions], self._non_zero[:, positions], self._pod_count[positions]
        part = HypotheticalNodes(self.state, self.rows[positions], sums)
        if self._pods:
            part._pods = {i: list(self._pods[p]) for i, p in enumerate(positions.tolist()) if p in self._pods}
        if self._ports:
            part._ports = {i: set(self._ports[p]) for i, p in enumerate(positions.tolist()) if p in self._ports}
        return part

    def shift(
        self,
        positions: Rows,
        requests: Ints,
        non_zero: Ints,
        sign: int,
        pods: Ints | int = 1,
    ) -> None:
        """Add (or remove) pods at distinct, ascending positions; `requests` has one column per position."""
        height = requests.shape[0]
        if height > self._requested.shape[0]:
            # A nominated pod requests a resource that no node or placed pod has named before.
            self._requested = with_rows(self._requested, height)
        # Usually all positions change, and a slice is several times faster than an index array.
        where = slice(None) if len(positions) == len(self) else positions
        self._requested[:height, where] += sign * requests
        self._non_zero[:, where] += sign * non_zero
        self._pod_count[where] += sign * pods

    def add_pod(self, position: int, info: PodInfo) -> None:
        """List another pod on the node, with its ports; the sums are changed by `shift`."""
        self._listed(position).append(info)
        if info.shape.host_ports:
            self._ports_at(position).update(info.shape.host_ports)

    def remove_pod(self, position: int, info: PodInfo) -> None:
        pods = self._listed(position)
        at = pods.index(info)
        pods[at] = pods[-1]
        pods.pop()
        if info.shape.host_ports:
            # Parity: a port is free as soon as one of its holders leaves, even if another one holds it too.
            self._ports_at(position).difference_update(info.shape.host_ports)

    def _listed(self, position: int) -> list[PodInfo]:
        if position not in self._pods:
            # A copy on first use: the list of the state is read by all other views.
            self._pods[position] = list(self.state.row_pods[self.row(position)])
        return self._pods[position]

    def _ports_at(self, position: int) -> set[Port]:
        if position not in self._ports:
            self._ports[position] = set(self.state.ports.on(self.row(position)))
        return self._ports[position]

    # -- hypothetical resource usage -----------------------------------------------------------------------------------

    def requested(self, resource: int | slice) -> Ints:
        if not isinstance(resource, slice) and resource >= self._requested.shape[0]:
            return np.zeros(len(self), np.int64)
        found: Ints = self._requested[resource]
        return found

    def non_zero_requested(self, resource: int | slice) -> Ints:
        found: Ints = self._non_zero[resource]
        return found

    def pod_count(self) -> Ints:
        return self._pod_count

    def port_conflicts(self, wanted: Sequence[Port]) -> Mask:
        taken = super().port_conflicts(wanted)
        for position, ports in self._ports.items():
            taken[position] = ports_conflict(wanted, ports)
        return taken

    def disk_conflicts(self, disks: Sequence[Disk]) -> Mask:
        found = super().disk_conflicts(disks)
        for position, pods in self._pods.items():
            found[position] = any(a.conflicts(b) for pod in pods for b in pod.shape.disks for a in disks)
        return found

    def pods(self, i: int) -> Sequence[PodInfo]:
        found = self._pods.get(i)
        return super().pods(i) if found is None else found
