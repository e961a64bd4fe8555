"""What is useful and what is a fragment of each node's free GPUs, as columns that follow the GPUs.

All pods read the same columns, so a node that changed is measured once, whoever asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_sharing.devices import devices_of
from gpu_sharing.fragmentation import Rooms
from gpu_sharing.request import GPU_MODEL
from stowplan.plugins import Nodes

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpu_sharing.fragmentation import TypicalPods
    from stowplan.plugins import Handle

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Measures(NamedTuple):
    """What typical pods find on nodes."""

    free_cpu: Ints
    rooms: Rooms
    #: What of the free GPUs is useful, scaled.
    useful: Ints


class FragmentColumns:
    def __init__(self, handle: Handle, typical: TypicalPods) -> None:
        self._devices = devices_of(handle)
        self._cluster = handle.cluster
        self._typical = typical
        self._known: Measures
        self._fragments: Ints
        self._total = 0
        #: Rows that changed since; None: all.
        self._outdated: set[int] | None = None
        self._devices.followers.add(self)

    def outdate(self, row: int | None) -> None:
        """The row has other GPUs or other pods now; None: any may."""
        if row is None:
            self._outdated = None
        elif self._outdated is not None:
            self._outdated.add(row)

    def of(self, nodes: Nodes) -> Measures:
        """The view's nodes as they are."""
        if type(nodes) is not Nodes:
            # Preemption asks what would be if pods left.
            return self._measured(nodes)
        self._refresh()
        free_cpu, rooms, useful = self._known
        return Measures(nodes.take(free_cpu), Rooms(*map(nodes.take, rooms)), nodes.take(useful))

    @property
    def total(self) -> int:
        """The fragments of all nodes, scaled."""
        self._refresh()
        return self._total

    def _refresh(self) -> None:
        self._devices.refresh()
        outdated, self._outdated = self._outdated, set()
        if outdated is None:
            every: Any = Nodes(self._cluster)
            self._known = self._measured(every)
            self._fragments = self._fragments_of(every, self._known)
            self._total = int(self._fragments.sum())
        elif outdated:
            rows = np.array(sorted(outdated), np.intp)
            nodes = Nodes(self._cluster, rows)
            found = self._measured(nodes)
            fragments = self._fragments_of(nodes, found)
            self._total += sum(fragments.tolist()) - sum(self._fragments.take(rows).tolist())
            self._fragments[rows] = fragments
            known = self._known
            known.free_cpu[rows], known.useful[rows] = found.free_cpu, found.useful
            known.rooms.gpus[:, rows], known.rooms.milli[:, rows] = found.rooms

    def _measured(self, nodes: Nodes) -> Measures:
        cpu = nodes.table.resources["cpu"]
        free_cpu: Ints = nodes.allocatable(cpu) - nodes.requested(cpu)
        rooms = self._typical.rooms(self._devices.free(nodes), self._allowed(nodes))
        return Measures(free_cpu, rooms, self._typical.useful(free_cpu, rooms))

    def _fragments_of(self, nodes: Nodes, found: Measures) -> Ints:
        return self._typical.weight * np.add.reduce(self._devices.free(nodes), axis=0) - found.useful

    def _allowed(self, nodes: Nodes) -> Bools:
        """Which typical pods each node's model suits, shape (T, nodes)."""
        column = nodes.label(GPU_MODEL)
        by_code: Bools = nodes.table.memo((type(self), self), lambda: self._typical.allowed(column.values))
        return by_code.take(nodes.codes(GPU_MODEL), axis=1)
