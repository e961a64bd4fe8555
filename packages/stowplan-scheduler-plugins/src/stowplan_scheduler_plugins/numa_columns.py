"""The NUMA cells of all nodes in columns: filled from what is known of a node when that changes, read for all at once.

The last axis of each array are the nodes, the first one their cells in the order of zones. Amounts are integers that
fit into 64 bits even if those of all cells are added up: CPUs in nano-units, and all else in thousandths.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stowplan.plugins import Handle, Ints, Mask, NodeObjects, Nodes, PodInfo, Values
from stowplan.plugins.objects import qos_class
from stowplan_scheduler_plugins.node_topologies import (
    CONTAINER,
    SINGLE,
    Amounts,
    Cell,
    Settings,
    Topology,
    effective_request,
    requests_devices,
    requests_of,
    settings_of,
)
from stowplan_scheduler_plugins.numa_placements import check_freed
from stowplan_scheduler_plugins.topology_caches import Cache, Known

#: More cells than any kubelet has; others are left out.
MAX_CELLS = 64
_LARGEST = 2**56

#: What nodes with a topology have in common apart from amounts: ids and distances of cells.
Layout = tuple[tuple[int, frozenset[tuple[int, int]]], ...]


def unit_of(resource: str) -> int:
    """How many of the amounts here are a whole one."""
    return 10**9 if resource == "cpu" else 1000


def available_amount(resource: str, nano: int) -> int:
    return max(min(nano * unit_of(resource) // 10**9, _LARGEST), -_LARGEST)


def wanted_amount(resource: str, nano: int) -> int:
    return min(-(-nano * unit_of(resource) // 10**9), _LARGEST + 1)


class Wanted(NamedTuple):
    """What a pod requests, in the units of the columns."""

    qos: str
    with_devices: bool
    #: Init containers with whether they are sidecars, containers, and both together.
    init: tuple[tuple[Amounts, bool], ...]
    containers: tuple[Amounts, ...]
    effective: Amounts


def wanted_by(pod: PodInfo) -> Wanted:
    """Computed once for all pods of a template."""
    template, spec = pod.shape.template, pod.pod.spec
    found: Wanted | None = template.memo("NUMA requests", None)
    if found is None:
        found = Wanted(
            qos_class(pod),
            requests_devices(pod),
            tuple((_stored(requests_of(one)), one.restart_policy == "Always") for one in spec.init_containers),
            tuple(_stored(requests_of(one)) for one in spec.containers),
            _stored(effective_request(pod)),
        )
        template.remember("NUMA requests", None, found)
    return found


def _stored(requests: Mapping[str, int]) -> Amounts:
    return {resource: wanted_amount(resource, nano) for resource, nano in requests.items()}


class CellColumns:
    def __init__(self, handle: Handle, cache: Cache) -> None:
        self.table = handle.cluster.table
        self._cache = cache
        self._objects = NodeObjects(handle.cluster, Topology)
        self._slots, self._capacity = 2, 0
        #: Each cell's bit: 2^id; 0: there is no such cell.
        self.bits: Values = np.zeros((2, 0), np.uint64)
        self.available: dict[str, Ints] = {}
        self.named: dict[str, Mask] = {}
        #: Whether nodes name the resource themselves.
        self.allocatable: dict[str, Mask] = {}
        #: Per node. Of one that is not `fresh`, nothing else is known.
        self.fresh: Mask = np.zeros(0, np.bool_)
        self.settings: Values = np.zeros(0, np.intp)
        self.layout: Values = np.zeros(0, np.intp)
        #: What these numbers stand for, from 1 on; 0: the node has no topology.
        self.all_settings: dict[Settings, int] = {}
        self.layouts: dict[Layout, int] = {}

    def follow(self) -> None:
        """Bring all columns up to date."""
        row_of = self.table.row_of
        touched = [row_of[name] for name in self._cache.taken_changes() if name in row_of]
        rows = {*self._objects.changed_rows(), *touched}
        if self._capacity < self.table.n:
            self._resize(self._slots, self.table.capacity)
        for row in rows:
            self._fill(row)

    def _fill(self, row: int) -> None:
        for columns in (self.available, self.named, self.allocatable):
            for column in columns.values():
                column[..., row] = 0
        self.bits[:, row] = self.settings[row] = self.layout[row] = 0
        self.fresh[row] = True
        node = self.table.nodes[row]
        if node is None:
            return
        for resource in node.status.allocatable:
            self._column(self.allocatable, resource, np.bool_)[..., row] = True
        known = self._cache.known(node.metadata.name)
        self.fresh[row] = known.fresh
        if known.topology is not None:
            cells = known.cells()[:MAX_CELLS]
            self.settings[row] = _number(self.all_settings, settings_of(known.topology))
            layout = tuple((cell.id, frozenset(cell.costs.items())) for cell in cells)
            self.layout[row] = _number(self.layouts, layout)
            self._fill_cells(row, cells)

    def _fill_cells(self, row: int, cells: list[Cell]) -> None:
        if len(cells) > self._slots:
            self._resize(len(cells), self._capacity)
        for slot, cell in enumerate(cells):
            self.bits[slot, row] = 1 << cell.id
            for resource, nano in cell.available.items():
                self._column(self.available, resource, np.int64)[slot, row] = available_amount(resource, nano)
                self._column(self.named, resource, np.bool_)[slot, row] = True

    def _column(self, columns: dict[str, Values], resource: str, dtype: type) -> Values:
        found = columns.get(resource)
        if found is None:
            shape = (self._capacity,) if columns is self.allocatable else (self._slots, self._capacity)
            found = columns[resource] = np.zeros(shape, dtype)
        return found

    def _resize(self, slots: int, capacity: int) -> None:
        def resized(column: Values) -> Values:
            larger = np.zeros((slots, capacity) if column.ndim == 2 else capacity, column.dtype)
            larger[tuple(map(slice, column.shape))] = column
            return larger

        self._slots, self._capacity = slots, capacity
        self.bits = resized(self.bits)
        self.fresh, self.settings, self.layout = map(resized, (self.fresh, self.settings, self.layout))
        for columns in (self.available, self.named, self.allocatable):
            for resource, column in columns.items():
                columns[resource] = resized(column)


def _number(known: dict[Any, int], value: object) -> int:
    """The value's number; there are few different values."""
    return known.setdefault(value, len(known) + 1)


class Cells:
    """The cells of a view's nodes. What is taken from them is taken here alone."""

    def __init__(self, columns: CellColumns, nodes: Nodes) -> None:
        self._columns = columns
        self._nodes = nodes
        self.bits = nodes.take(columns.bits)
        self.fresh = nodes.take(columns.fresh)
        #: 0 for nodes without a topology.
        self.settings, self.layout = nodes.take(columns.settings), nodes.take(columns.layout)
        self._available: dict[str, Ints] = {}

    def where(self, wanted: Callable[[Settings], bool]) -> Mask:
        """Nodes with a topology whose settings are like this."""
        hits = np.array([False, *map(wanted, self._columns.all_settings)])
        return hits[self.settings]

    def named(self, resource: str) -> Mask | None:
        """Cells that have the resource; None if no node's cells do."""
        column = self._columns.named.get(resource)
        return None if column is None else self._nodes.take(column)

    def available(self, resource: str) -> Ints:
        """What is left of a resource that is `named`."""
        found = self._available.get(resource)
        return self._nodes.take(self._columns.available[resource]) if found is None else found

    def allocatable(self, resource: str) -> Mask:
        """Nodes that have the resource as a whole."""
        column = self._columns.allocatable.get(resource)
        return np.zeros(len(self._nodes), np.bool_) if column is None else self._nodes.take(column)

    def take(self, resource: str, amount: Ints) -> None:
        """Subtract an amount per cell."""
        self._available[resource] = self.available(resource) - amount

    def give_back(self, position: int, known: Known, more: Mapping[int, Amounts]) -> None:
        """Add what is known to become free to the cells of one node."""
        found = known.cells()[:MAX_CELLS]
        assert known.topology is not None
        check_freed(known.topology, {cell.id: cell.available for cell in found}, more)
        for slot, cell in enumerate(found):
            for resource, amount in more.get(cell.id, {}).items():
                if resource in cell.available:
                    before = cell.available[resource]
                    given = self.available(resource).copy()
                    given[slot, position] += available_amount(resource, before + amount) - available_amount(
                        resource, before
                    )
                    self._available[resource] = given

    def leave_out(self, nodes: Mask) -> None:
        """As if these nodes had no topology."""
        self.settings = np.where(nodes, 0, self.settings)

    def max_cells(self) -> Ints:
        limits = np.array([1, *(one.max_cells for one in self._columns.all_settings)])
        return limits[self.settings]

    def layouts(self) -> Iterator[tuple[Layout, Ints]]:
        """Each layout of cells, and the positions of its nodes."""
        layouts = list(self._columns.layouts)
        for number in np.unique(self.layout).tolist():
            if number:
                yield layouts[number - 1], np.flatnonzero(self.layout == number)


def single_per_container(settings: Settings) -> bool:
    return settings.policy == SINGLE and settings.scope == CONTAINER


def single_per_pod(settings: Settings) -> bool:
    return settings.policy == SINGLE and settings.scope != CONTAINER
