"""Whether the resources of a pod or a container can come from one NUMA cell, for all nodes at once.

Upstream: pkg/noderesourcetopology/{filter.go,numaresources.go} in scheduler-plugins.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from stowplan.plugins import Code, Entry, Mask, Reason, Rejections, Values
from stowplan_scheduler_plugins.node_topologies import is_native
from stowplan_scheduler_plugins.numa_columns import Cells, Wanted, single_per_container, single_per_pod

STALE = Reason("StaleTopology", "invalid node topology data")
POD_NOT_ALIGNED = Reason("PodNotAligned", "cannot align pod")
NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align container")
INIT_NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align init container")
SIDECAR_NOT_ALIGNED = Reason("ContainerNotAligned", "cannot align sidecar container")

#: Resources that the kubelet assigns to pods of class Guaranteed alone, beside huge pages.
_ALIGNED_FOR_GUARANTEED = ("cpu", "memory")
_ALWAYS_ALLOCATABLE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_ANY_CELL = np.uint64(2**64 - 1)


def is_aligned(resource: str, qos: str) -> bool:
    """Whether the resource has to come from certain cells for pods of this class."""
    shared = resource in _ALIGNED_FOR_GUARANTEED or resource.startswith("hugepages-")
    return qos == "Guaranteed" or not shared


def _is_host_level(resource: str) -> bool:
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def simulation_failed(error: Exception) -> Reason:
    return Reason("EvictionUnknown", f"eviction simulation in NRT is not possible:{error}")


def misaligned(wanted: Wanted, cells: Cells, impossible: Sequence[tuple[Mask, Reason]] = ()) -> Rejections | None:
    """The nodes that are unknown, or whose kubelet could not align the pod; those that are `impossible` come first."""
    found = [(~cells.fresh, STALE), *impossible]
    for mask, _ in impossible:
        cells.leave_out(mask)
    if (per_pod := cells.where(single_per_pod)).any():
        found.append((per_pod & (fitting_cells(wanted.effective, cells, wanted.qos) == 0), POD_NOT_ALIGNED))
    if (left := cells.where(single_per_container)).any():
        for requests, is_sidecar in wanted.init:
            # They run one after the other.
            fails = left & (fitting_cells(requests, cells, wanted.qos) == 0)
            found.append((fails, SIDECAR_NOT_ALIGNED if is_sidecar else INIT_NOT_ALIGNED))
            left = left & ~fails
        for requests in wanted.containers:
            fitting = fitting_cells(requests, cells, wanted.qos)
            fails = left & (fitting == 0)
            found.append((fails, NOT_ALIGNED))
            left = left & ~fails
            take(requests, cells, fitting & (~fitting + np.uint64(1)), wanted.qos)
    entries = [Entry(mask, Code.Unschedulable, reason) for mask, reason in found if mask.any()]
    return Rejections(np.logical_or.reduce([entry.mask for entry in entries]), entries) if entries else None


def fitting_cells(requests: Mapping[str, int], cells: Cells, qos: str) -> Values:
    """Per node, the bits of the cells that have all requested resources: all bits if nothing is requested."""
    left = np.full(len(cells.fresh), _ANY_CELL)
    for resource, wanted in requests.items():
        if not wanted:
            continue
        if resource not in _ALWAYS_ALLOCATABLE:
            left[~cells.allocatable(resource)] = 0
        named = cells.named(resource)
        if named is None:
            if not _is_host_level(resource):
                left[:] = 0
            continue
        enough = named & (cells.available(resource) >= wanted) if is_aligned(resource, qos) else named
        fitting = np.bitwise_or.reduce(np.where(enough, cells.bits, np.uint64(0)), axis=0)
        if _is_host_level(resource):
            fitting[~named.any(axis=0)] = _ANY_CELL
        left &= fitting
    return left


def take(requests: Mapping[str, int], cells: Cells, chosen: Values, qos: str) -> None:
    """Subtract requests from one cell per node, which its bit says."""
    of_cell = cells.bits == chosen
    for resource, wanted in requests.items():
        named = cells.named(resource) if is_aligned(resource, qos) else None
        if named is not None:
            cells.take(resource, np.where(of_cell & named & (cells.available(resource) != 0), wanted, 0))
