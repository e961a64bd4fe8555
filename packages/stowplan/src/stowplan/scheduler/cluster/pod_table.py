"""Placed pods as columns, for operations on many pods at once.

Preemption selects all pods below a priority on thousands of nodes, and a new term is counted over all pods; both are
array operations here. A pod has a slot while it is on a node, including unknown nodes (row -1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import is_not
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.columns import grown, with_rows
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape


class PodsBefore(NamedTuple):
    """The pods of some time, for `PodTable.replaced_since`."""

    infos: list[PodInfo | None]
    order: Ints


class PodTable:
    """Slots of placed pods. Only `ClusterState` writes."""

    _PER_SLOT = ("row", "priority", "start_time", "shape", "terminating", "order")

    def __init__(self, capacity: int = 256) -> None:
        #: Slots ever used.
        self.n = 0
        self.infos: list[PodInfo | None] = []
        #: Row of the pod's node; -1 for a free slot or an unknown node.
        self.row: Ints = np.full(capacity, -1, np.int64)
        self.priority: Ints = np.zeros(capacity, np.int64)
        #: Nanoseconds since 1970; the largest int64 if the pod has not started.
        self.start_time: Ints = np.zeros(capacity, np.int64)
        #: Id of the pod's shape.
        self.shape: Ints = np.zeros(capacity, np.int64)
        self.terminating: Mask = np.zeros(capacity, np.bool_)
        #: Increases with every placement: the order of pods on a node.
        self.order: Ints = np.zeros(capacity, np.int64)
        #: What a pod of each shape uses, by the node table's resources; shape (resources, shapes).
        self.shape_requests: Ints = np.zeros((3, 64), np.int64)
        self.shape_non_zero: Ints = np.zeros((2, 64), np.int64)
        #: Changes with every modification, including the order of a node's pods.
        self.version = 0
        #: The last version assigned; never reused, not even when a transaction rewinds the version.
        self._clock = 0
        self._free: list[int] = []
        self._next_order = 0

    def add(self, info: PodInfo, row: int) -> int:
        slot = self._free.pop() if self._free else self._append()
        self.infos[slot] = info
        self.row[slot] = row
        self.priority[slot] = info.priority
        self.start_time[slot] = info.start_time
        self.shape[slot] = info.shape.id
        self.terminating[slot] = info.terminating
        self.place_last(slot)
        return slot

    def add_all(self, infos: Sequence[PodInfo]) -> None:
        """Add pods with their `row` set, and set their `slot`."""
        slots = [self._free.pop() if self._free else self._append() for _ in infos]
        for info, slot in zip(infos, slots, strict=True):
            self.infos[slot], info.slot = info, slot
        self.row[slots] = [info.row for info in infos]
        self.priority[slots] = [info.priority for info in infos]
        self.start_time[slots] = [info.start_time for info in infos]
        self.shape[slots] = [info.shape.id for info in infos]
        self.terminating[slots] = [info.terminating for info in infos]
        self.order[slots] = np.arange(self._next_order, self._next_order + len(slots))
        self._next_order += len(slots)
        self.version = self._clock = self._clock + 1

    def place_last(self, slot: int) -> None:
        """Move the pod to the end of the order."""
        self.order[slot] = self._next_order
        self._next_order += 1
        self.version = self._clock = self._clock + 1

    def remove(self, slot: int) -> None:
        self.infos[slot] = None
        self.row[slot] = -1
        self._free.append(slot)
        self.version = self._clock = self._clock + 1

    def mark(self) -> tuple[int, int]:
        return self.version, self._next_order

    def rewind(self, mark: tuple[int, int]) -> None:
        """Restore version and order as of the mark, after the changes since were undone."""
        self.version, self._next_order = mark

    def in_order(self) -> list[PodInfo]:
        """The pods in the order of their placement."""
        slots: list[int] = np.argsort(self.order[: self.n]).tolist()
        return [info for slot in slots if (info := self.infos[slot]) is not None]

    def snapshot(self) -> PodsBefore:
        """The pods as they are now."""
        return PodsBefore(list(self.infos), self.order[: self.n].copy())

    def replaced_since(self, before: PodsBefore) -> list[PodInfo]:
        """The pods of that time that are gone, or were placed again, in their order then."""
        # Not by comparing orders: a pod of the same node may have taken both slot and order.
        changed = sorted(compress(count(), map(is_not, before.infos, self.infos)), key=before.order.item)
        return [info for slot in changed if (info := before.infos[slot]) is not None]

    def _append(self) -> int:
        if self.n == len(self.row):
            for name in self._PER_SLOT:
                setattr(self, name, grown(getattr(self, name), self.n * 2))
            self.row[self.n :] = -1
        self.infos.append(None)
        self.n += 1
        return self.n - 1

    def add_shape(self, shape: PodShape, vector: Ints) -> None:
        if len(vector) > self.shape_requests.shape[0]:
            self.shape_requests = with_rows(self.shape_requests, len(vector))
        if shape.id >= self.shape_requests.shape[1]:
            self.shape_requests = grown(self.shape_requests, shape.id * 2)
            self.shape_non_zero = grown(self.shape_non_zero, shape.id * 2)
        self.shape_requests[:, shape.id] = 0
        self.shape_requests[: len(vector), shape.id] = vector
        self.shape_non_zero[:, shape.id] = shape.non_zero_used

    def count_by_row(self, shape_ids: list[int], capacity: int, *, live_only: bool) -> Ints:
        """The number of pods of the given shapes per row."""
        chosen = self.row[: self.n] >= 0
        if len(shape_ids) == 1:
            chosen &= self.shape[: self.n] == shape_ids[0]
        else:
            wanted = np.zeros(self.shape_requests.shape[1], np.bool_)
            wanted[shape_ids] = True
            chosen &= wanted[self.shape[: self.n]]
        if live_only:
            chosen &= ~self.terminating[: self.n]
        return np.bincount(self.row[: self.n][chosen], minlength=capacity)
