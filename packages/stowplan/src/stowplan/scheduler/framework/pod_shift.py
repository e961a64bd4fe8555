"""Pods hypothetically added to or removed from nodes, one per node.

Preemption removes pods from thousands of nodes and tries to add them back one rank at a time. What plugins need of each
pod depends on its shape, so amounts are computed once per distinct shape and spread over the nodes as an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stowplan.scheduler.cluster.arrays import Codes, Ints, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.pod_table import PodTable


class PodShift:
    """`pods[i]` is added to (sign 1) or removed from (sign −1) table row `rows[i]`; rows are distinct."""

    def __init__(
        self,
        rows: Rows,
        sign: int,
        shapes: list[PodShape],
        shape_index: Codes,
        find_pods: Callable[[], Sequence[PodInfo]],
    ) -> None:
        self.rows = rows
        self.sign = sign
        self.shapes = shapes
        #: Index into `shapes`, per pod.
        self.shape_index = shape_index
        self._find_pods = find_pods
        self._pods: Sequence[PodInfo] | None = None

    @classmethod
    def of_pods(cls, rows: Rows, pods: Sequence[PodInfo], sign: int) -> PodShift:
        index: dict[PodShape, int] = {}
        shape_index = np.array([index.setdefault(p.shape, len(index)) for p in pods], np.intp)
        return cls(rows, sign, list(index), shape_index, lambda: pods)

    @classmethod
    def of_slots(cls, table: PodTable, rows: Rows, slots: Ints, sign: int) -> PodShift:
        """A shift of pods given by their slots; shapes are compared by id, without accessing every pod."""
        _, first, shape_index = np.unique(table.shape[slots], return_index=True, return_inverse=True)
        shapes = [info.shape for info in _infos(table, slots[first])]
        return cls(rows, sign, shapes, shape_index, lambda: _infos(table, slots))

    @property
    def pods(self) -> Sequence[PodInfo]:
        if self._pods is None:
            self._pods = self._find_pods()
        return self._pods

    def amounts(self, of_shape: Callable[[PodShape], int]) -> Ints | None:
        """The amount that each pod adds at its row, by shape, with the shift's sign; None if it is zero everywhere."""
        per_shape = np.array([of_shape(shape) for shape in self.shapes], np.int64)
        return self.sign * per_shape[self.shape_index] if per_shape.any() else None


def _infos(table: PodTable, slots: Ints) -> list[PodInfo]:
    return [info for slot in slots.tolist() if (info := table.infos[slot])]
