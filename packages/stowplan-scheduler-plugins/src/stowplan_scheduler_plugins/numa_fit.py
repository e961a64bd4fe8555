"""Whether the resources of a pod or a container can come from one NUMA cell.

Upstream: pkg/noderesourcetopology/{filter.go,numaresources.go} in scheduler-plugins.
"""

from collections.abc import Collection, Mapping, Sequence

from stowplan_scheduler_plugins.node_topologies import Amounts, Cell, is_native

#: Resources that the kubelet assigns to pods of class Guaranteed alone, beside huge pages.
_ALIGNED_FOR_GUARANTEED = ("cpu", "memory")
_ALWAYS_ALLOCATABLE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def is_aligned(resource: str, qos: str) -> bool:
    """Whether the resource has to come from certain cells for pods of this class."""
    shared = resource in _ALIGNED_FOR_GUARANTEED or resource.startswith("hugepages-")
    return qos == "Guaranteed" or not shared


def suffices(resource: str, wanted: int, available: int, qos: str) -> bool:
    return not is_aligned(resource, qos) or available >= wanted


def _is_host_level(resource: str) -> bool:
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def fitting_cell(requests: Amounts, cells: Sequence[Cell], allocatable: Collection[str], qos: str) -> int | None:
    """The lowest cell that has all requested resources; 0 if nothing is requested, None if there is none.

    `allocatable` are resources that the node has as a whole.
    """
    left: set[int] | None = None
    for resource, wanted in requests.items():
        if not wanted:
            continue
        if resource not in _ALWAYS_ALLOCATABLE and resource not in allocatable:
            return None
        having = [cell for cell in cells if resource in cell.available]
        if not having and _is_host_level(resource):
            continue
        fitting = {cell.id for cell in having if suffices(resource, wanted, cell.available[resource], qos)}
        left = fitting if left is None else left & fitting
        if not left:
            return None
    return 0 if left is None else min(left)


def take(requests: Mapping[str, int], cells: Sequence[Cell], number: int, qos: str) -> None:
    """Subtract requests from a cell."""
    for cell in cells:
        if cell.id == number:
            for resource, wanted in requests.items():
                if is_aligned(resource, qos) and cell.available.get(resource):
                    cell.available[resource] -= wanted
