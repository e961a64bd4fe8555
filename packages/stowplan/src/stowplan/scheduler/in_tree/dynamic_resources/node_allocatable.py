"""Devices that map to cpu, memory or huge pages of their node (DRANodeAllocatableResources).

A device may declare that its user also takes an amount of the node's allocatable resources. What a pod takes by its
claims is added to its containers' requests, compared with what the node has left, counted on the node once the pod is
assumed, and written to the pod's status in PreBind. Such a claim can only be used by one pod per node.

Since 1.37, a device may also declare an overhead, for the pod and for each of its containers that uses the claim, which
need not be any. A claim with nothing but overhead can be shared, and counts for each of its pods.

Upstream: nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.device_claims import ResourceClaim
from stowplan.kube.api.devices import Device, NodeAllocatableOverhead, NodeAllocatableResourceMapping
from stowplan.kube.api.meta import QuantityValue, ResourceList
from stowplan.kube.api.pod import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
)
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.quantity import NANO, Format, format_quantity, parse_quantity, read_quantity
from stowplan.kube.api.resource_names import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY
from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_37, KubernetesVersion
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.diagnosis import Entry
from stowplan.scheduler.framework.requests import Patch
from stowplan.scheduler.framework.status import Code, Reason
from stowplan.scheduler.in_tree.dynamic_resources.allocating import devices_in
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import Amount, World
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import DevicePick

NOT_REFERENCED = Reason(
    "ClaimNotReferenced",
    "claim {claim}: node-allocatable resource claim not referenced by any container within the pod",
)
POD_LEVEL_TOO_LOW = Reason(
    "PodLevelRequestsTooLow",
    "pod level request for {resource} is insufficient to cover the aggregated container and node-allocatable DRA"
    " requests",
)
INSUFFICIENT = Reason("InsufficientNodeResource", "Insufficient {resource}")
USED_BY_ANOTHER = Reason(
    "ClaimUsedByAnotherPod", "node allocatable resource claim {claim} is already used by another pod"
)
USED_BY_SEVERAL = Reason("ClaimUsedByPods", "node allocatable resource claim {claim} shared by multiple pods")


class Footprint(NamedTuple):
    """What a pod takes of a node along with its allocated devices."""

    #: As in the pod's status.
    statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    #: Resource -> the pod's total, in the scheduler's units; for the resources that are compared.
    demand: tuple[tuple[str, int], ...] = ()
    #: Why the pod cannot have the devices on any node.
    refused: Reason | None = None


class MappingError(Exception):
    """A device maps a capacity that the allocation has not consumed."""


PickedDevice = tuple[DevicePick, Device]


class NamedClaim(NamedTuple):
    """A claim with allocated devices, and the pod's name for it."""

    claim: ResourceClaim
    entry: str


def footprint(
    pod: PodInfo,
    asked: Sequence[NamedClaim],
    picks: Sequence[tuple[DevicePick, ...]],
    world: World,
    held: Sequence[tuple[NamedClaim, Sequence[PickedDevice]]] = (),
    version: KubernetesVersion = DEFAULT_VERSION,
) -> Footprint | None:
    """None: no device takes resources of the node. Raises MappingError. `held`: claims that are allocated already."""
    devices = devices_in(world)
    chosen = ([(pick, devices[pick.device][1].device) for pick in of_claim] for of_claim in picks)
    statuses = []
    for (claim, entry), picked in (*zip(asked, chosen, strict=True), *held):
        found = _resources(claim, picked, _mappings if version < V1_37 else _mappings_since_1_37)
        overhead = () if version < V1_37 else tuple(_overhead([device for _, device in picked]))
        if found or overhead:
            mapped = (NodeAllocatableMappedResources(name=name, quantity=amount) for name, amount in found.items())
            statuses.append(
                NodeAllocatableResourceClaimStatus(
                    resource_claim_name=claim.metadata.name,
                    containers=tuple(_users(pod, entry)),
                    resources=found if version < V1_37 else {},
                    mapping=() if version < V1_37 else tuple(mapped),
                    overhead=overhead,
                )
            )
    if not statuses:
        return None
    statuses.sort(key=lambda status: status.resource_claim_name)
    unused = next((status for status in statuses if not status.containers), None)
    if unused is not None and version < V1_37:
        return Footprint(refused=NOT_REFERENCED.of(claim=unused.resource_claim_name))
    return _footprint(pod, tuple(statuses))


def _footprint(pod: PodInfo, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Footprint:
    assumed = with_statuses(pod.pod, statuses)
    total = pod_requests(assumed, dra_node_allocatable=True)
    resources = pod.pod.spec.resources
    if resources is not None and resources.requests:
        apart = pod_requests(assumed, dra_node_allocatable=True, skip_pod_level=True)
        low = next((name for name, amount in total.items() if apart.get(name, 0) > amount), None)
        if low is not None:
            return Footprint(refused=POD_LEVEL_TOO_LOW.of(resource=low))
    compared = ((name, amount) for name, amount in to_vector(total).items() if _is_compared(name) and amount > 0)
    return Footprint(statuses, tuple(compared))


def _is_compared(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGEPAGES_PREFIX)


def _users(pod: PodInfo, entry: str) -> Iterator[str]:
    """The containers that use a claim, by the pod's name for it."""
    spec = pod.pod.spec
    for container in (*spec.init_containers, *spec.containers):
        for used in container.resources.claims:
            if entry and used.name == entry:
                yield container.name


def _mappings(device: Device) -> Mapping[str, NodeAllocatableResourceMapping]:
    return device.node_allocatable_resource_mappings


def _mappings_since_1_37(device: Device) -> Mapping[str, NodeAllocatableResourceMapping]:
    """In the form that they had before."""
    mapped = {name: entry.mapping for name, entry in device.node_allocatable_resources.items()}
    return {
        name: NodeAllocatableResourceMapping(
            capacity_key=mapping.capacity_key,
            allocation_multiplier=mapping.capacity_multiplier if mapping.capacity_key else mapping.device_multiplier,
        )
        for name, mapping in mapped.items()
        if mapping is not None
    }


def _overhead(devices: Sequence[Device]) -> Iterator[NodeAllocatableOverheadResources]:
    """What a pod needs beside the devices of a claim, by resource."""
    found: dict[str, list[NodeAllocatableOverhead]] = {}
    for device in devices:
        for name, entry in device.node_allocatable_resources.items():
            if entry.overhead is not None:
                found.setdefault(name, []).append(entry.overhead)
    for name, overheads in found.items():
        yield NodeAllocatableOverheadResources(
            name=name,
            per_pod=_added([one.per_pod for one in overheads]),
            per_container=_added([one.per_container for one in overheads]),
        )


def _added(quantities: Sequence[QuantityValue | None]) -> str | None:
    given = [read_quantity(quantity) for quantity in quantities if quantity is not None]
    return format_quantity(sum(one.nano for one in given), given[0].format) if given else None


def _resources(
    claim: ResourceClaim,
    picked: Sequence[PickedDevice],
    mappings_of: Callable[[Device], Mapping[str, NodeAllocatableResourceMapping]],
) -> ResourceList:
    """What the devices of a claim take of their node."""
    total: dict[str, tuple[Amount, Format]] = {}
    for pick, device in picked:
        for resource, mapping in mappings_of(device).items():
            found = _amount(claim, pick, device, resource, mapping)
            if found is not None:
                amount, format_ = total.get(resource, (0, found[1]))
                total[resource] = amount + found[0], format_
    return {resource: format_quantity(amount, format_) for resource, (amount, format_) in total.items()}


def _amount(
    claim: ResourceClaim, pick: DevicePick, device: Device, resource: str, mapping: NodeAllocatableResourceMapping
) -> tuple[Amount, Format] | None:
    """None: the mapping does not apply to this allocation."""
    multiplier = mapping.allocation_multiplier
    if not mapping.capacity_key:
        read = read_quantity(0 if multiplier is None else multiplier)
        return read.nano, read.format
    if pick.consumed is None:
        whose = f"claim {claim.metadata.namespace}/{claim.metadata.name}, device {device.name}"
        key = f"Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResourceMappings"
        raise MappingError(f"{whose}: ConsumedCapacity is nil, but {key} for resource {resource}")
    consumed = dict(pick.consumed).get(mapping.capacity_key)
    if consumed is None:
        return None
    if multiplier is not None:
        consumed = consumed * parse_quantity(multiplier) // NANO
    return consumed, read_quantity(device.capacity[mapping.capacity_key].value).format


def shortages(nodes: Nodes, mask: Mask, taken: Footprint) -> list[Entry]:
    """Those of some nodes on which the pod does not fit with these resources."""
    if taken.refused is not None:
        return [Entry(mask, Code.UnschedulableAndUnresolvable, taken.refused)]
    found = []
    for name, amount in taken.demand:
        index = nodes.table.resources.get(name)
        allocatable = nodes.allocatable(index) if index is not None else np.zeros(len(nodes), np.int64)
        requested = nodes.requested(index) if index is not None else np.zeros(len(nodes), np.int64)
        hopeless = allocatable < amount
        for code, short in (
            (Code.Unschedulable, (allocatable - requested < amount) & ~hopeless),
            (Code.UnschedulableAndUnresolvable, hopeless),
        ):
            if (hit := mask & short).any():
                found.append(Entry(hit, code, INSUFFICIENT.of(resource=name)))
    return found


def with_statuses(pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Pod:
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


def users_of(claim: ResourceClaim, cluster: ClusterState) -> dict[str, set[str]]:
    """Node -> UIDs of the pods there that take resources of the node through the claim.

    Bound pods are in the claim's reservations; assumed ones may not be yet.
    """
    found: dict[str, set[str]] = {}
    for uid in (*(user.uid for user in claim.status.reserved_for), *cluster.assumed_uids):
        info = cluster.placed(uid)
        if info is None or info.namespace != claim.metadata.namespace:
            continue
        statuses = info.pod.status.node_allocatable_resource_claim_statuses
        # What is overhead alone can be shared.
        exclusive = (status for status in statuses if status.mapping or not status.overhead)
        if any(status.resource_claim_name == claim.metadata.name for status in exclusive):
            found.setdefault(info.node_name, set()).add(uid)
    return found


def taking(pod: PodInfo, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Patch:
    """The request that writes what the pod takes of its node to its status; None if that is nothing."""
    written = [to_dict(status) for status in statuses] or None
    return Patch(
        kind=Pod,
        namespace=pod.namespace,
        name=pod.name,
        body={"metadata": {"uid": pod.uid}, "status": {"nodeAllocatableResourceClaimStatuses": written}},
        type_="merge",
        subresource="status",
    )
