"""Pods hypothetically added to or removed from nodes, one per node.

Preemption removes pods from thousands of nodes and tries to add them back one rank at a time. What plugins need of each
pod depends on its shape, so amounts are computed once per distinct shape and spread over the nodes as an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from stowplan.scheduler.cluster.arrays import Codes, Ints, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.pod_table import PodTable


class PodShift:
    """`pods[i]` is added to (sign 1) or removed from (sign −1) table row `rows[i]`; rows are distinct."""

    rows: Rows
    sign: int
    shapes: list[PodShape]
    shape_index: Codes
    _table: PodTable
    _slots: Ints

    def __init__(self, rows: Rows, pods: Sequence[PodInfo], sign: int) -> None:
        self.rows = rows
        self.pods = pods
        self.sign = sign
        index: dict[PodShape, int] = {}
        #: Index into `shapes`, per pod.
        self.shape_index = np.array([index.setdefault(p.shape, len(index)) for p in pods], np.intp)
        self.shapes: list[PodShape] = list(index)

    @classmethod
    def of_slots(cls, table: PodTable, rows: Rows, slots: Ints, sign: int) -> PodShift:
        """A shift of pods given by their slots; shapes are compared by id, without accessing every pod."""
        shift = cls.__new__(cls)
        shift.rows, shift.sign, shift._table, shift._slots = rows, sign, table, slots
        _, first, shift.shape_index = np.unique(table.shape[slots], return_index=True, return_inverse=True)
        shift.shapes = [info.shape for slot in slots[first].tolist() if (info := table.infos[slot])]
        return shift

    @cached_property
    def pods(self) -> Sequence[PodInfo]:
        return [info for slot in self._slots.tolist() if (info := self._table.infos[slot])]

    def amounts(self, of_shape: Callable[[PodShape], int]) -> Ints | None:
        """The amount that each pod adds at its row, by shape, with the shift's sign; None if it is zero everywhere."""
        per_shape = np.array([of_shape(shape) for shape in self.shapes], np.int64)
        return self.sign * per_shape[self.shape_index] if per_shape.any() else None
