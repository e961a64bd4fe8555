"""The cluster's nodes as a table: a node is a row number, its properties are columns.

Everything that plugins need of all nodes at once is an array whose last axis is the row. Rows are reused: removing a
node leaves a hole (`valid` is False there, every column zero) that the next new node takes. `generation` changes
whenever a node object changed in a way that plugins can observe, so values that depend on node objects alone are valid
while it stays the same.

Upstream: pkg/scheduler/framework/types.go (NodeInfo), one object per node; imageStates of pkg/scheduler/backend/cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from stowplan.kube.api.quantity import milli_value, parse_quantity, value
from stowplan.kube.api.resource_names import is_scalar
from stowplan.kube.api.types import Node, Taint
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask, Values
from stowplan.scheduler.cluster.columns import grown, with_rows
from stowplan.scheduler.cluster.dumped import DumpedNodes
from stowplan.scheduler.cluster.labels import LabelColumn, LabelColumns
from stowplan.scheduler.cluster.node_order import NodeOrder, zone_of


class ImageState:
    """One image name: its first reported size, and the rows that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        #: Parity: the first reported size is kept while any node has the image.
        self.size = size
        self.rows: set[int] = set()


class ImageIndex:
    """Image name -> state, updated as nodes change."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def __bool__(self) -> bool:
        return bool(self._states)

    def items(self) -> list[tuple[str, ImageState]]:
        return list(self._states.items())

    def add(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def remove(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]

    def set_size(self, name: str, size: int) -> None:
        self._states[name].size = size

    def saved(self, row: int, *nodes: Node) -> Callable[[], None]:
        """A function that restores the images of a row's node in its current version."""
        names = {name for node in nodes for image in node.status.images for name in image.names}
        states = [(name, self._states.get(name)) for name in names]
        held = [(name, state, state is not None and row in state.rows) for name, state in states]

        def restore() -> None:
            for name, state, on_row in held:
                if state is None:
                    self._states.pop(name, None)
                    continue
                # Rows of other nodes have not changed since.
                self._states[name] = state
                if on_row:
                    state.rows.add(row)
                else:
                    state.rows.discard(row)

        return restore


CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
_BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Maximum number of memoized values per generation.
_MAX_MEMOS = 1024


class Interner:
    """Small integers for the distinct values of rows; 0 is the first, common one.

    Numbers of unused values are freed, because autoscalers add taints whose values are timestamps.
    """

    def __init__(self, common: Any) -> None:
        #: Number -> value; unused numbers have the common value.
        self.values: list[Any] = [common]
        self._ids: dict[Any, int] = {common: 0}
        self._rows: list[int] = [0]
        self._free: list[int] = []

    def exchange(self, old: int, item: Any) -> int:
        """Replace a row's old number by that of another value, and return it."""
        new = self._ids.get(item)
        if new is None:
            new = self._ids[item] = self._allocate(item)
        self._rows[new] += 1
        self._release(old)
        return new

    def _allocate(self, item: Any) -> int:
        if self._free:
            new = self._free.pop()
            self.values[new] = item
        else:
            new = len(self.values)
            self.values.append(item)
            self._rows.append(0)
        return new

    def _release(self, old: int) -> None:
        self._rows[old] -= 1
        if old and not self._rows[old]:
            del self._ids[self.values[old]]
            self.values[old] = self.values[0]
            self._free.append(old)

    def __len__(self) -> int:
        """Number of distinct values in use, always including the common one."""
        return len(self._ids)

    def __bool__(self) -> bool:
        return bool(self._ids)

    def saved(self) -> Callable[[], None]:
        """A function that restores the current numbers."""
        copies = list(self.values), dict(self._ids), list(self._rows), list(self._free)

        def restore() -> None:
            self.values, self._ids, self._rows, self._free = copies

        return restore


class NodeTable:
    """Rows of nodes. Only `ClusterState` writes."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        #: Rows ever used; columns are read as `column[..., :n]`.
        self.n = 0
        #: Number of nodes in the table.
        self.count = 0
        self.generation = 0
        #: The last generation assigned; never reused, not even when a transaction rewinds the generation.
        self._clock = 0
        self.nodes: list[Node | None] = []
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self._free: list[int] = []
        #: Resource name -> first index of the matrices below.
        self.resources: dict[str, int] = {name: i for i, name in enumerate(_BASE_RESOURCES)}
        #: Base units: milli-CPU, bytes, counts; shape (resources, capacity).
        self.allocatable: Ints = np.zeros((3, capacity), np.int64)
        #: Sums over the pods of each row, one matrix so that a pod changes one column.
        self._used: Ints = np.zeros((6, capacity), np.int64)
        self._divide_used()
        self.allowed_pods: Ints = np.zeros(capacity, np.int64)
        self.valid: Mask = np.zeros(capacity, np.bool_)
        self.unschedulable: Mask = np.zeros(capacity, np.bool_)
        #: Id in `taint_sets`; set 0 is "no taints".
        self.taint_set: Codes = np.zeros(capacity, np.intp)
        self.taint_sets = Interner(())
        #: Id in `feature_sets` (status.declaredFeatures); set 0 is "none".
        self.feature_set: Codes = np.zeros(capacity, np.intp)
        self.feature_sets = Interner(())
        #: Number of rows with `unschedulable` set; makes the common case cheap.
        self.unschedulable_count = 0
        self.images = ImageIndex()
        self.order = NodeOrder()
        self._labels = LabelColumns()
        self._memos: dict[Hashable, tuple[int, Any]] = {}
        #: The generation at the last cleanup of memos.
        self._memos_of = -1

    _PER_ROW = (
        "allocatable",
        "_used",
        "allowed_pods",
        "valid",
        "unschedulable",
        "taint_set",
        "feature_set",
    )
    #: Columns that depend on node objects alone.
    _OF_NODES = ("allocatable", "allowed_pods", "valid", "unschedulable", "taint_set", "feature_set")

    # -- rows ---------------------------------------------------------------------------------------------------------

    def add(self, node: Node) -> int:
        """Assign a row to a new node. A node with unparsable amounts raises before anything is changed."""
        amounts = allocatable_amounts(node)
        row = self._free.pop() if self._free else self._append()
        self.row_of[node.metadata.name] = row
        self.names[row] = node.metadata.name
        self.valid[row] = True
        self.count += 1
        self._write(row, node, amounts)
        self.order.add(row, zone_of(node))
        return row

    def update(self, row: int, node: Node) -> bool:
        """Replace the node object; return whether anything changed that plugins may depend on (`_same`).

        If not, the generation stays, and with it all results that are reused.
        """
        old = self.nodes[row]
        assert old is not None
        if _same(old, node):
            self.nodes[row] = node
            return False
        amounts = allocatable_amounts(node)
        self.images.remove(row, old)
        self._write(row, node, amounts)
        self.order.move(row, zone_of(old), zone_of(node))
        return True

    def remove(self, row: int) -> None:
        old = self.nodes[row]
        assert old is not None
        self.images.remove(row, old)
        self.order.remove(row, zone_of(old))
        self._labels.set_row(row, {})
        self.taint_sets.exchange(int(self.taint_set[row]), ())
        self.feature_sets.exchange(int(self.feature_set[row]), ())
        self.unschedulable_count -= int(self.unschedulable[row])
        for name in self._PER_ROW:
            getattr(self, name)[..., row] = 0
        del self.row_of[self.names[row]]
        self.nodes[row], self.names[row] = None, ""
        self._free.append(row)
        self.count -= 1
        self._move_on()

    def _move_on(self) -> None:
        # Not `generation + 1`: after an undo, that number may be known to a reader of the undone state.
        self._clock += 1
        self.generation = self._clock

    def _append(self) -> int:
        if self.n == self.capacity:
            self._grow(self.capacity * 2)
        self.nodes.append(None)
        self.names.append("")
        self.n += 1
        return self.n - 1

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        for name in self._PER_ROW:
            setattr(self, name, grown(getattr(self, name), capacity))
        self._divide_used()
        self._labels.grow(capacity)

    def _divide_used(self) -> None:
        """Name the parts of a new `_used`; they are views of it."""
        #: cpu and memory, with the scheduler's defaults for containers that request none; shape (2, capacity).
        self.non_zero_requested = self._used[:2]
        self.pod_count = self._used[2]
        #: What is requested, like `allocatable`.
        self.requested = self._used[3:]

    def use(self, row: int, amounts: Ints, sign: int) -> None:
        """Add or remove a pod; `amounts`: of it, like a column of the sums, which may have more resources."""
        used = self._used[: len(amounts), row]
        if sign > 0:
            used += amounts
        else:
            used -= amounts

    def _write(self, row: int, node: Node, amounts: dict[str, int]) -> None:
        self.nodes[row] = node
        self._write_allocatable(row, amounts)
        self.unschedulable_count += int(node.spec.unschedulable) - int(self.unschedulable[row])
        self.unschedulable[row] = node.spec.unschedulable
        self.taint_set[row] = self.taint_sets.exchange(int(self.taint_set[row]), node.spec.taints)
        features = node.status.declared_features
        self.feature_set[row] = self.feature_sets.exchange(int(self.feature_set[row]), features)
        self._labels.set_row(row, node.metadata.labels)
        self.images.add(row, node)
        self._move_on()

    def _write_allocatable(self, row: int, amounts: dict[str, int]) -> None:
        self.allocatable[:, row] = 0
        self.allowed_pods[row] = amounts.get("pods", 0)
        for name, amount in amounts.items():
            if name in _BASE_RESOURCES or is_scalar(name):
                # Must come first: it may reallocate the matrix.
                i = self.resource(name)
                self.allocatable[i, row] = amount

    def resource(self, name: str) -> int:
        """The index of a resource, created on first use."""
        i = self.resources.get(name)
        if i is None:
            i = self.resources[name] = len(self.resources)
            self.allocatable = with_rows(self.allocatable, i + 1)
            self._used = with_rows(self._used, i + 4)
            self._divide_used()
        return i

    # -- transactions, dump and load ----------------------------------------------------------------------------------

    def saved(self) -> Callable[[], None]:
        """A function that restores everything that depends on node objects, except for images (`ImageIndex.saved`).

        Arrays that grew in the meantime keep their size. Pod columns are not restored here.
        """
        numbers = self.n, self.count, self.generation, self.unschedulable_count
        rows = list(self.nodes), list(self.names), dict(self.row_of), list(self._free)
        columns = [(name, getattr(self, name), getattr(self, name).copy()) for name in self._OF_NODES]
        parts = [part.saved() for part in (self.taint_sets, self.feature_sets, self.order, self._labels)]
        memos = self._memos, self._memos_of
        self._memos = {}

        def restore() -> None:
            self.n, self.count, self.generation, self.unschedulable_count = numbers
            self.nodes, self.names, self.row_of, self._free = rows
            for name, array, copy in columns:
                # Into the array of before, which evaluations may hold, and into the one that took its place.
                _write_back(array, copy)
                if getattr(self, name) is not array:
                    _write_back(getattr(self, name), copy)
            for restore_part in parts:
                restore_part()
            self._memos, self._memos_of = memos

        return restore

    def dump(self) -> DumpedNodes:
        return DumpedNodes(
            rows=list(self.nodes),
            free_rows=list(self._free),
            zones=self.order.by_zone(),
            image_sizes={name: state.size for name, state in self.images.items()},
            resources=list(self.resources),
        )

    def load(self, dumped: DumpedNodes) -> None:
        """Fill the table, which must have no nodes."""
        for name in dumped.resources:
            self.resource(name)
        self.n = 0
        self.nodes, self.names = [], []
        for _ in dumped.rows:
            self._append()
        for row, node in enumerate(dumped.rows):
            if node is not None:
                self._free = [row]
                self.add(node)
        self._free = list(dumped.free_rows)
        self.order.load(dumped.zones)
        for name, size in dumped.image_sizes.items():
            self.images.set_size(name, size)

    # -- what plugins read --------------------------------------------------------------------------------------------

    def label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            labels = [None if node is None else node.metadata.labels for node in self.nodes]
            column = self._labels.create(key, self.capacity, labels)
        return column

    def memo(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """A value that depends on node objects alone; recomputed only after one of them changed."""
        found = self._memos.get(key)
        if found is not None and found[0] == self.generation:
            return found[1]
        if self._memos_of != self.generation or len(self._memos) >= _MAX_MEMOS:
            # The values are arrays of the table's size, so stale ones must be freed early.
            self._memos_of = self.generation
            self._memos = {k: v for k, v in self._memos.items() if v[0] == self.generation}
            if len(self._memos) >= _MAX_MEMOS:
                self._memos.clear()
        result = compute()
        self._memos[key] = (self.generation, result)
        return result

    def sums(self, row: int) -> tuple[Any, ...]:
        """The capacity of a row, and the sums over its pods.

        Readers of nothing else cannot tell rows with equal sums apart.
        """
        return (
            self._used[:, row].tobytes(),
            self.allocatable[:, row].tobytes(),
            self.allowed_pods.item(row),
        )

    def taints(self, row: int) -> tuple[Taint, ...]:
        found: tuple[Taint, ...] = self.taint_sets.values[self.taint_set[row]]
        return found


def _write_back(array: Values, copy: Values) -> None:
    """Copy the content back into the array, which may have grown."""
    if array.shape == copy.shape:
        array[...] = copy
    else:
        array[...] = 0
        array[tuple(slice(size) for size in copy.shape)] = copy


def allocatable_amounts(node: Node) -> dict[str, int]:
    """Allocatable as integers: cpu in millicores, everything else (including pods) rounded up."""
    amounts = {name: parse_quantity(quantity) for name, quantity in node.status.allocatable.items()}
    return {name: milli_value(nano) if name == "cpu" else value(nano) for name, nano in amounts.items()}


def _same(old: Node, new: Node) -> bool:
    return (
        old.status == new.status
        and old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
