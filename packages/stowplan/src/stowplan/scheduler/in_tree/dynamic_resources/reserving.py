"""Reserve and PreBind: hold the allocations for a pod on its node, and write them to its claims.

From Reserve on the allocations are held in flight, so that no other claim gets the same devices; PreBind writes them
(`writing.py`). For an extended resource, the generated claim is stored first.

Upstream: Reserve, Unreserve and PreBind of dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from msgspec import field
from msgspec.structs import replace

from stowplan.kube.api.device_claims import AllocationResult, ResourceClaimConsumerReference
from stowplan.kube.api.devices import DeviceClass as Class
from stowplan.kube.api.types import DeviceClass, ResourceClaim
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.requests import Create, Done, Outcome, Request, Steps, Wait
from stowplan.scheduler.framework.status import Status, error, unresolvable
from stowplan.scheduler.in_tree.dynamic_resources import writing
from stowplan.scheduler.in_tree.dynamic_resources.allocating import Allocating, AllocationError
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import ClaimDemand, Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import SearchResult, Verdict
from stowplan.scheduler.in_tree.dynamic_resources.binding_conditions import Readiness, awaits_conditions
from stowplan.scheduler.in_tree.dynamic_resources.demand import Demands, RefusedError, claim_key
from stowplan.scheduler.in_tree.dynamic_resources.extended_resources import (
    IN_MEMORY,
    Variant,
    in_memory_claim,
    in_memory_key,
)
from stowplan.scheduler.in_tree.dynamic_resources.finding import Finding, asked_by
from stowplan.scheduler.in_tree.dynamic_resources.group_claims import as_consumer, is_reserved
from stowplan.scheduler.in_tree.dynamic_resources.node_allocatable import taking

#: CycleState key for what Reserve took.
RESERVED = "DynamicResources/reserved"


class ReservedDevices(PlainStruct):
    """A pod's claims on its node; updated as they are written."""

    claims: list[ResourceClaim] = field(default_factory=list)
    #: Claim -> its new allocation.
    allocations: dict[str, AllocationResult] = field(default_factory=dict)
    #: Claim -> its new consumer.
    consumers: dict[str, ResourceClaimConsumerReference] = field(default_factory=dict)
    #: Claims whose allocation another pod of the group writes.
    shared: set[str] = field(default_factory=set)
    #: For extended resources: the generated claim, and its name once it is stored.
    extended: Variant | None = None
    stored: str = ""
    #: Whether the pod's status lists what it takes of its node.
    takes: bool = False


class Reserving:
    def __init__(
        self, handle: Handle, features: Features, demands: Demands, finding: Finding, readiness: Readiness
    ) -> None:
        self._handle = handle
        self._cluster = handle.cluster
        self._features = features
        self._demands = demands
        self._finding = finding
        self._readiness = readiness

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        reserved = ReservedDevices()
        state.write(RESERVED, reserved)
        try:
            reserved.claims = self._demands.claims(pod)
            reserved.consumers = self._demands.consumers(pod)
            demand = self._demands.of(pod)
        except RefusedError as e:
            return unresolvable(e.reason)
        row = self._cluster.table.row_of.get(node_name)
        if row is None:
            return error(f'node "{node_name}" not found')
        self._share(reserved, pod)
        view = Nodes(self._cluster, np.array([row], np.intp))
        # Equal pods shared a result that may be outdated by now: use this pod's current claims.
        for asked, _ in self._finding.asked(pod, demand, view, np.ones(1, np.bool_)):
            problem = next((claim.problem for claim in asked if claim.problem), "")
            if problem:
                return error(problem)
            waiting = self._demands.waiting(pod)
            if len(asked) > len(waiting):
                reserved.extended = self._finding.variant_on(pod, demand, view)
                made_up = in_memory_claim(pod, reserved.extended.devices)
                reserved.claims.append(made_up)
                waiting.append(made_up)
            self._finding.inventory.refresh()
            answer = self._finding.answers[state.asking].answer(asked_by(asked), row)
            if answer.verdict is not Verdict.FOUND:
                return error("claim allocation not found for node")
            try:
                self._allocate(reserved, waiting, asked_by(asked), answer, row)
            except AllocationError as e:
                return error(str(e))
            for claim in waiting:
                self._hold(pod, claim, reserved.allocations[claim_key(claim)])
        return None

    def _share(self, reserved: ReservedDevices, pod: PodInfo) -> None:
        """Join pending allocations of another pod of the group."""
        for claim in reserved.claims:
            allocation = None if claim.status.allocation is not None else self._demands.shared(pod, claim)
            if allocation is not None:
                reserved.allocations[claim_key(claim)] = allocation
                reserved.shared.add(claim_key(claim))
        # After all lookups: once the pod is a holder itself, `shared` no longer finds the other pod's allocation.
        for key in sorted(reserved.shared):
            self._cluster.in_flight.share(ResourceClaim, key, pod.uid)

    def _hold(self, pod: PodInfo, claim: ResourceClaim, allocation: AllocationResult) -> None:
        metadata = replace(
            claim.metadata, finalizers=tuple(dict.fromkeys((*claim.metadata.finalizers, writing.FINALIZER)))
        )
        status = replace(claim.status, allocation=allocation)
        self._cluster.in_flight.hold(_flight_key(pod, claim), replace(claim, metadata=metadata, status=status), pod.uid)

    def _allocate(
        self,
        reserved: ReservedDevices,
        waiting: list[ResourceClaim],
        asked: tuple[ClaimDemand, ...],
        answer: SearchResult,
        row: int,
    ) -> None:
        world = self._finding.inventory.world(row)
        for claim, of_claim, picks in zip(waiting, asked, answer.picks, strict=True):
            allocating = Allocating(
                claim,
                of_claim,
                node_name=self._cluster.table.names[row],
                features=self._features,
                class_named=self._class_named,
            )
            reserved.allocations[claim_key(claim)] = allocating.allocation(picks, world)

    def _class_named(self, name: str) -> Class | None:
        return self._cluster.objects.get(DeviceClass, name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved: ReservedDevices | None = state.get(RESERVED)
        if reserved is None:
            return
        state.delete(RESERVED)
        if reserved.takes and not state.asking:
            self._handle.carry_out(taking(pod, ()))
        for claim in reserved.claims:
            self._cluster.in_flight.release(ResourceClaim, _flight_key(pod, claim), pod.uid)
            if state.asking:
                continue
            if reserved.stored == claim.metadata.name:
                for request in writing.discarding(claim):
                    self._handle.carry_out(request)
            elif claim.status.allocation is not None and is_reserved(claim, pod, of_groups=False):
                self._handle.carry_out(writing.unreserving(claim, pod.uid))

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        reserved: ReservedDevices | None = state.get(RESERVED)
        if reserved is None:
            return None
        writer = writing.ClaimWriter(self._cluster, self._readiness, pod=pod)
        problem = yield from self._write_claims(reserved, writer, pod)
        if problem is None:
            problem = yield from self._write_pod_status(reserved, pod)
        awaited = [claim for claim in reserved.claims if awaits_conditions(claim)]
        if problem is not None or not self._readiness.enabled or not awaited:
            return problem
        if self._handle.event_recorder is not None:
            self._handle.event_recorder.event(
                pod.pod,
                type_="Normal",
                reason="BindingConditionsPending",
                action="Scheduling",
                note=f"waiting for binding conditions for device on node {node_name}",
            )
        waited = yield from writer.wait([claim_key(claim) for claim in reserved.claims])
        if self._handle.metrics is not None:
            writing.observe_wait(self._handle.metrics, self._handle.profile_name, reserved.claims, waited)
        return error(str(waited.problem)) if waited.problem is not None else None

    def _write_claims(self, reserved: ReservedDevices, writer: writing.ClaimWriter, pod: PodInfo) -> Steps:
        in_flight = self._cluster.in_flight
        for i, claim in enumerate(reserved.claims):
            if is_reserved(claim, pod, of_groups=self._features.group_claims):
                continue
            allocation = reserved.allocations.get(claim_key(claim))
            try:
                if claim.metadata.name == IN_MEMORY:
                    assert allocation is not None
                    claim = yield from self._store(reserved, i, pod, allocation)
                consumer = reserved.consumers.get(claim_key(claim)) or as_consumer(pod)
                written = yield from self._written(reserved, writer, claim, allocation, consumer)
            except writing.WriteError as e:
                in_flight.release(ResourceClaim, _flight_key(pod, claim), pod.uid)
                return error(str(e))
            reserved.claims[i] = written
            in_flight.wrote(written, created=written.metadata.name == reserved.stored)
        return None

    def _write_pod_status(self, reserved: ReservedDevices, pod: PodInfo) -> Steps:
        """Write to the pod's status what the kubelet cannot derive from the claims."""
        if reserved.extended is not None:
            outcome = yield writing.served_by(pod, reserved.stored, reserved.extended.mappings)
            if not isinstance(outcome, Done):
                return error(f"update pod {pod.key} ExtendedResourceClaimStatus: {outcome.error}")
        statuses = pod.pod.status.node_allocatable_resource_claim_statuses
        if self._features.node_allocatable and statuses:
            outcome = yield taking(pod, statuses)
            if not isinstance(outcome, Done):
                return error(f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {outcome.error}")
            reserved.takes = True
        return None

    def _written(
        self,
        reserved: ReservedDevices,
        writer: writing.ClaimWriter,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        consumer: ResourceClaimConsumerReference,
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Allocate and reserve a claim, unless another pod of the group allocates it; raises WriteError."""
        if claim_key(claim) in reserved.shared:
            claim, is_writer = yield from writer.turn(claim)
            if not is_writer:
                if any(user.uid == consumer.uid for user in claim.status.reserved_for):
                    return claim
                allocation = None
        if allocation is None:
            return (yield from writer.reserve(claim, consumer))
        return (yield from writer.allocate(claim, allocation, consumer))

    def _store(
        self, reserved: ReservedDevices, place: int, pod: PodInfo, allocation: AllocationResult
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Store the generated claim; raises WriteError."""
        made_up = reserved.claims[place]
        stored = replace(made_up, metadata=replace(made_up.metadata, name="", uid=""))
        outcome = yield Create(obj=stored)
        metrics = self._handle.metrics
        if metrics is not None:
            status = "success" if isinstance(outcome, Done) else "failure"
            metrics.claim_for_extended_resources(status)
        if not isinstance(outcome, Done) or not isinstance(outcome.value, ResourceClaim):
            what = f"{pod.namespace}/{IN_MEMORY}"
            problem = "no answer" if isinstance(outcome, Done) else outcome.error
            raise writing.WriteError(f"create claim for extended resources {what}: {problem}")
        claim = outcome.value
        reserved.claims[place], reserved.stored = claim, claim.metadata.name
        # Hold it under the new name before releasing the old one, so that its devices are never free in between.
        self._hold(pod, claim, allocation)
        self._cluster.in_flight.release(ResourceClaim, _flight_key(pod, made_up), pod.uid)
        return claim


def _flight_key(pod: PodInfo, claim: ResourceClaim) -> str:
    return in_memory_key(pod) if claim.metadata.name == IN_MEMORY else claim_key(claim)
