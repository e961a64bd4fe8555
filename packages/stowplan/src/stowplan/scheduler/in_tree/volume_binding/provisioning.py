"""Dynamic provisioning: allowed topologies and storage capacity.

A driver that tracks its capacity publishes CSIStorageCapacity objects with the amount for a class in a part of the
cluster. Where there is enough for a claim is computed for all rows, and cached until such an object of the class, or
the labels that it selects by, change.

Upstream: checkVolumeProvisions and hasEnoughCapacity of volumebinding/binder.go.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import NamedTuple

from stowplan.kube.api.affinity import TopologySelectorTerm
from stowplan.kube.api.label_selectors import IN, Requirement, SelectorError, compile_label_selector
from stowplan.kube.api.node_selectors import NodeSelectorMatcher, NodeTerm
from stowplan.kube.api.quantity import parse_quantity, value
from stowplan.kube.api.types import CSIDriver, CSIStorageCapacity, StorageClass
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectIndex, ObjectWatch
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets
from stowplan.scheduler.in_tree.volume_binding.volumes import first_on_rows

BY_STORAGE_CLASS = ObjectIndex("storage class", lambda capacity: (capacity.storage_class_name,))

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_MAX_KEPT = 256


class Room(NamedTuple):
    """Where a driver has capacity for a claim."""

    #: Index of the capacity object for each row; negative: there is no capacity.
    first: Ints
    #: The capacity objects that are large enough.
    capacities: tuple[CSIStorageCapacity, ...]


class Provisioning:
    def __init__(self, cluster: ClusterState, node_sets: NodeSets) -> None:
        self._cluster = cluster
        self._node_sets = node_sets
        self._rooms: OrderedDict[tuple[str, int], tuple[ObjectWatch, int, Room]] = OrderedDict()

    def makes(self, storage_class: StorageClass) -> bool:
        """Whether volumes of the class can be provisioned."""
        return storage_class.provisioner not in ("", _NO_PROVISIONER)

    def admitted(self, storage_class: StorageClass) -> Mask | None:
        """Rows in the allowed topologies of the class; None: all."""
        terms = storage_class.allowed_topologies
        return self._node_sets.mask(topology_of(terms)) if terms else None

    def tracks(self, storage_class: StorageClass) -> bool:
        """Whether the driver tracks its capacity."""
        driver = self._cluster.objects.get(CSIDriver, storage_class.provisioner)
        return driver is not None and bool(driver.spec.storage_capacity)

    def room(self, storage_class: StorageClass, size: int | None) -> Room | None:
        """Where there is capacity for a volume of that size (in 10^-9 bytes); None: not tracked, so everywhere."""
        if size is None or not self.tracks(storage_class):
            return None
        key = storage_class.metadata.name, value(size)
        found = self._rooms.get(key)
        if found is not None and found[1] == self._node_sets.version and not found[0].changed():
            self._rooms.move_to_end(key)
            return found[2]
        room = self._look(*key)
        watch = self._watch(key[0])
        self._rooms[key] = watch, self._node_sets.version, room
        self._rooms.move_to_end(key)
        if len(self._rooms) > _MAX_KEPT:
            self._rooms.popitem(last=False)
        return room

    def _watch(self, class_name: str) -> ObjectWatch:
        return ObjectWatch(self._cluster.objects, [capacities_of(class_name)])

    def _look(self, class_name: str, size: int) -> Room:
        enough = [
            (capacity, topology)
            for capacity in self._cluster.objects.indexed(CSIStorageCapacity, BY_STORAGE_CLASS, class_name)
            if (limit := limit_of(capacity)) is not None and limit >= size
            if (topology := accessible_from(capacity)) is not None
        ]
        candidates = ((i, self._node_sets.rows(topology)) for i, (_, topology) in enumerate(enough))
        first = first_on_rows(candidates, 1, self._cluster.table.n)
        return Room(first[0], tuple(capacity for capacity, _ in enough))


def accessible_from(capacity: CSIStorageCapacity) -> NodeSelectorMatcher | None:
    """The nodes that an object applies to; None: not specified, or invalid."""
    if capacity.node_topology is None:
        return None
    try:
        selector = compile_label_selector(capacity.node_topology)
    except SelectorError:
        return None
    return NodeSelectorMatcher((NodeTerm(expressions=selector.requirements),))


def capacities_of(class_name: str) -> ObjectDependency:
    return ObjectDependency.indexed(CSIStorageCapacity, BY_STORAGE_CLASS, class_name)


def limit_of(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume, in bytes, that an object allows; None: not specified, or invalid."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    try:
        return None if limit is None else value(parse_quantity(limit))
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def topology_of(terms: tuple[TopologySelectorTerm, ...]) -> NodeSelectorMatcher:
    """The nodes that match some term; an empty term matches none."""
    return NodeSelectorMatcher(
        tuple(
            NodeTerm(expressions=tuple(Requirement(e.key, IN, tuple(sorted(set(e.values)))) for e in expressions))
            for term in terms
            if (expressions := term.match_label_expressions)
        )
    )
