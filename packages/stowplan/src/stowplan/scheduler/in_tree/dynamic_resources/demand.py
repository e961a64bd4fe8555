"""A pod's device requirements, compiled so that pods with equal claims share results.

Pods of a Deployment each have their own claims, generated from one template. A compiled claim has no name, and equal
claims compile to one object; so the demands of such pods are equal, and so are their signatures. The claims themselves
are read again when a pod is reserved.

Upstream: PreFilter of dynamicresources.go.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from stowplan.kube.api.device_claims import AllocationResult, ResourceClaimConsumerReference
from stowplan.kube.api.node_selectors import NodeSelectorMatcher, compile_node_selector
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.types import DeviceClass, PodGroup, ResourceClaim
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.common.resource_claims import (
    ClaimError,
    group_name,
    pod_resource_claims,
    resource_claims_by_entry,
)
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import (
    ClaimDemand,
    ClaimProblem,
    Features,
    compile_claim,
)
from stowplan.scheduler.in_tree.dynamic_resources.binding_conditions import Readiness
from stowplan.scheduler.in_tree.dynamic_resources.extended_resources import ExtendedDemand, extended_demand
from stowplan.scheduler.in_tree.dynamic_resources.group_claims import consumer_of
from stowplan.scheduler.in_tree.dynamic_resources.node_allocatable import NamedClaim

CLAIM_UNUSABLE = Reason("ResourceClaimUnusable", "{problem}")
IN_FLIGHT = Reason("ResourceClaimInFlight", "resource claim {claim} is in the process of being allocated")
NO_CLASS = Reason("DeviceClassMissing", "request {request}: device class {device_class} does not exist")
NO_PRIORITIZED_LISTS = Reason(
    "PrioritizedListsDisabled",
    "resource claim {claim}, request {request}: has subrequests, but the DRAPrioritizedList feature is disabled",
)
UNKNOWN_REQUEST = Reason("UnknownRequestType", "resource claim {claim}, request {request}: unknown request type")

#: Maximum number of cached compiled claims.
_MAX_KEPT = 4096


class RefusedError(Exception):
    """The pod is unschedulable on every node."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class CompiledClaim:
    """The requirements of an unallocated claim; one object for all equal claims."""

    __slots__ = ("asked", "problem")

    def __init__(self, asked: ClaimDemand | None, problem: str = "") -> None:
        self.asked = asked
        #: Why it cannot be allocated on any node; the attempt's error once a node is filtered.
        self.problem = problem


class AllocatedClaim(NamedTuple):
    #: The nodes that can use its devices; None: all.
    where: NodeSelectorMatcher | None
    #: Whether its devices failed to become ready.
    unusable: bool
    #: Whether drivers count on the node to leave out operations.
    skips: bool = False
    #: Identifies the claim if that matters: with DRANodeAllocatableResources.
    key: str = ""


class Demand(NamedTuple):
    """The state of a pod's claims, in order."""

    allocated: tuple[AllocatedClaim, ...] = ()
    waiting: tuple[CompiledClaim, ...] = ()
    extended: ExtendedDemand | None = None

    def __bool__(self) -> bool:
        return bool(self.allocated or self.waiting or self.extended)


class Demands:
    def __init__(self, cluster: ClusterState, features: Features, readiness: Readiness) -> None:
        self._cluster = cluster
        self._features = features
        self._readiness = readiness
        #: The last result, with its pod and the versions of claims and classes.
        self._last: tuple[tuple[Pod, int, int], Demand] | None = None
        self._compiled: OrderedDict[bytes, tuple[tuple[DeviceClass | None, ...], CompiledClaim]] = OrderedDict()

    def claims(self, pod: PodInfo) -> list[ResourceClaim]:
        """The pod's claims as in the API server; raises RefusedError."""
        if not pod.pod.spec.resource_claims:
            return []
        try:
            return pod_resource_claims(pod, self._cluster, of_groups=self._features.group_claims)
        except ClaimError as e:
            raise RefusedError(CLAIM_UNUSABLE.of(problem=str(e))) from None

    def of(self, pod: PodInfo) -> Demand:
        """The pod's current requirements; raises RefusedError."""
        # Called several times per cycle: for the signature, in PreFilter and in Reserve.
        objects = self._cluster.objects
        stand = pod.pod, objects.version(ResourceClaim), objects.version(DeviceClass)
        if self._last is not None and self._last[0][0] is pod.pod and self._last[0][1:] == stand[1:]:
            return self._last[1]
        found = self._of(pod)
        # Readiness of devices depends on the clock; pending allocations of a group depend on its pods.
        depends = found.allocated or self._features.group_sharing or self._features.group_claims
        self._last = None if depends else (stand, found)
        return found

    def _of(self, pod: PodInfo) -> Demand:
        allocated, waiting = [], []
        if self._features.group_claims:
            self.consumers(pod)
        for claim in self.claims(pod):
            if claim.status.allocation is not None:
                allocated.append(self._allocated(claim))
            elif (shared := self.shared(pod, claim)) is not None:
                allocated.append(AllocatedClaim(_where(shared), unusable=False))
            else:
                self._check(claim)
                waiting.append(self.compiled(claim))
        extended = extended_demand(pod, self._cluster) if self._features.extended_resources else None
        return Demand(tuple(allocated), tuple(waiting), extended)

    def _allocated(self, claim: ResourceClaim) -> AllocatedClaim:
        assert claim.status.allocation is not None
        key = claim_key(claim) if self._features.node_allocatable else ""
        results = claim.status.allocation.devices.results
        skips = self._features.optional_node_operations and any(result.skip_node_operations for result in results)
        unusable = self._readiness.is_unusable(claim)
        return AllocatedClaim(_where(claim.status.allocation), unusable=unusable, skips=skips, key=key)

    def waiting(self, pod: PodInfo) -> list[ResourceClaim]:
        """The pod's unallocated claims; raises RefusedError."""
        return [
            claim for claim in self.claims(pod) if claim.status.allocation is None and self.shared(pod, claim) is None
        ]

    def held_by_entry(self, pod: PodInfo) -> list[NamedClaim]:
        """The pod's allocated claims with the pod's names for them."""
        entries = resource_claims_by_entry(pod, self._cluster, of_groups=self._features.group_claims)
        return [NamedClaim(claim, entry.name) for entry, claim in entries if claim.status.allocation is not None]

    def waiting_by_entry(self, pod: PodInfo) -> list[NamedClaim]:
        """The pod's unallocated claims with the pod's names for them."""
        entries = resource_claims_by_entry(pod, self._cluster, of_groups=self._features.group_claims)
        waiting = {claim_key(claim) for claim in self.waiting(pod)}
        return [NamedClaim(claim, entry.name) for entry, claim in entries if claim_key(claim) in waiting]

    # -- pod groups ---------------------------------------------------------------------------------------------------

    def shared(self, pod: PodInfo, claim: ResourceClaim) -> AllocationResult | None:
        """The pending allocation of the claim by another pod of the group, which is not written yet."""
        if not self._features.group_sharing or pod.pod.spec.scheduling_group is None:
            return None
        held = self._cluster.in_flight.held(ResourceClaim, claim_key(claim))
        if held is None or held[0].metadata.uid != claim.metadata.uid:
            return None
        copy, holders = held
        holder = self._cluster.placed(holders[0])
        if holder is None or holder.uid == pod.uid or group_key(holder.pod) != group_key(pod.pod):
            return None
        return copy.status.allocation

    def consumers(self, pod: PodInfo) -> dict[str, ResourceClaimConsumerReference]:
        """For whom each claim is reserved: the pod, or its group if that has the same claim; raises RefusedError."""
        group = None
        if self._features.group_claims and (name := group_name(pod)):
            group = self._cluster.objects.get(PodGroup, f"{pod.namespace}/{name}")
            if group is None:
                raise RefusedError(CLAIM_UNUSABLE.of(problem=f'podgroup.scheduling.k8s.io "{name}" not found'))
        try:
            entries = resource_claims_by_entry(pod, self._cluster, of_groups=self._features.group_claims)
            return {claim_key(claim): consumer_of(pod, entry, group) for entry, claim in entries}
        except ClaimError as e:
            raise RefusedError(CLAIM_UNUSABLE.of(problem=str(e))) from None

    def _check(self, claim: ResourceClaim) -> None:
        key = claim_key(claim)
        if self._cluster.in_flight.is_held(ResourceClaim, key):
            raise RefusedError(IN_FLIGHT.of(claim=key))
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                self._check_class(request.name, request.exactly.device_class_name)
            elif not request.first_available:
                raise RefusedError(UNKNOWN_REQUEST.of(claim=key, request=request.name))
            elif not self._features.prioritized_list:
                raise RefusedError(NO_PRIORITIZED_LISTS.of(claim=key, request=request.name))
            for alternative in request.first_available:
                self._check_class(f"{request.name}/{alternative.name}", alternative.device_class_name)

    def _check_class(self, request: str, name: str) -> None:
        if not name:
            raise ValueError(f"request {request}: unsupported request type")
        if self._class_named(name) is None:
            raise RefusedError(NO_CLASS.of(request=request, device_class=name))

    def _class_named(self, name: str) -> DeviceClass | None:
        return self._cluster.objects.get(DeviceClass, name)

    def compiled(self, claim: ResourceClaim) -> CompiledClaim:
        """The compiled claim."""
        key = msgspec.json.encode(claim.spec.devices)
        known = self._compiled.get(key)
        classes = tuple(self._class_named(name) for name in _class_names(claim))
        if known is not None and all(a is b for a, b in zip(known[0], classes, strict=True)):
            return known[1]
        try:
            found = CompiledClaim(compile_claim(claim, self._features, self._class_named))
        except ClaimProblem as e:
            # The error contains the claim's name, so it is not shared.
            return CompiledClaim(None, str(e))
        self._compiled[key] = classes, found
        self._compiled.move_to_end(key)
        if len(self._compiled) > _MAX_KEPT:
            self._compiled.popitem(last=False)
        return found


def _where(allocation: AllocationResult) -> NodeSelectorMatcher | None:
    selector = allocation.node_selector
    return None if selector is None else compile_node_selector(selector)


def _class_names(claim: ResourceClaim) -> list[str]:
    names = []
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            names.append(request.exactly.device_class_name)
        names += [alternative.device_class_name for alternative in request.first_available]
    return names


def claim_key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
