"""What is useful and what is a fragment of each node's free GPUs, as columns that follow the GPUs.

All pods read the same columns, so a node that changed is measured once, whoever asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import proxy

import numpy as np

from gpu_sharing.devices import devices_of
from gpu_sharing.request import GPU_MODEL
from stowplan.plugins import Nodes

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpu_sharing.fragmentation import TypicalPods
    from stowplan.plugins import Handle

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class FragmentColumns:
    def __init__(self, handle: Handle, typical: TypicalPods) -> None:
        self._devices = devices_of(handle)
        # The devices know who follows them, and must not keep their cluster alive.
        self._cluster = proxy(handle.cluster)
        self._typical = typical
        self._useful: Ints = np.zeros(0, np.int64)
        self._fragments: Ints = np.zeros(0, np.int64)
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

    def useful(self, nodes: Nodes) -> Ints:
        """What of the free GPUs is useful on each of the view's nodes, scaled."""
        if type(nodes) is not Nodes:
            # Preemption asks what would be if pods left.
            return self._typical.useful(self.free_cpu(nodes), self._devices.free(nodes), self.allowed(nodes))
        self._refresh()
        return nodes.take(self._useful)

    @property
    def total(self) -> int:
        """The fragments of all nodes, scaled."""
        self._refresh()
        return self._total

    def free_cpu(self, nodes: Nodes) -> Ints:
        cpu = nodes.table.resources["cpu"]
        found: Ints = nodes.allocatable(cpu) - nodes.requested(cpu)
        return found

    def allowed(self, nodes: Nodes) -> Bools:
        """Which typical pods each node's model suits, shape (T, nodes)."""
        column = nodes.label(GPU_MODEL)
        by_code: Bools = nodes.table.memo((type(self), self), lambda: self._typical.allowed(column.values))
        return by_code.take(nodes.codes(GPU_MODEL), axis=1)

    def _refresh(self) -> None:
        self._devices.refresh()
        outdated, self._outdated = self._outdated, set()
        if outdated is None:
            nodes: Any = Nodes(self._cluster)
            self._useful, self._fragments = self._measured(nodes)
            self._total = int(self._fragments.sum())
        elif outdated:
            rows = np.array(sorted(outdated), np.intp)
            useful, fragments = self._measured(Nodes(self._cluster, rows))
            self._total += sum(fragments.tolist()) - sum(self._fragments.take(rows).tolist())
            self._useful[rows], self._fragments[rows] = useful, fragments

    def _measured(self, nodes: Nodes) -> tuple[Ints, Ints]:
        free = self._devices.free(nodes)
        useful = self._typical.useful(self.free_cpu(nodes), free, self.allowed(nodes))
        return useful, self._typical.weight * np.add.reduce(free, axis=0) - useful
