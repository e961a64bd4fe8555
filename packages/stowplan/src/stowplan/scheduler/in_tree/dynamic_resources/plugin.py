"""Allocate devices for the ResourceClaims of pods.

A node must have free devices that satisfy the pod's claims; for allocated claims, the node must be one that can use
their devices. Nodes are distinguished by their devices (`inventory.py`), equal ones are searched once (`answers.py`,
`allocator/`), and pods with equal claims share results (`demand.py`). Once the pod has a node, the allocation is held
in flight and written, and the plugin waits for devices that have to become ready (`writing.py`).

Upstream: pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import field

from stowplan.kube.api.pod import NodeAllocatableResourceClaimStatus
from stowplan.kube.api.types import DeviceTaintRule, Pod, PodGroup, ResourceClaim, ResourceSlice
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows, Verdicts
from stowplan.scheduler.cluster.objects import ObjectDependency
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape, group_key
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, SignPlugin
from stowplan.scheduler.framework.diagnosis import Diagnosis, Entry, Rejections
from stowplan.scheduler.framework.events import ClusterEventWithHint
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.requests import Steps
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.scheduler.framework.unfinished import unfinished
from stowplan.scheduler.in_tree.common.device_classes import device_classes_read
from stowplan.scheduler.in_tree.common.node_selection import matches_selector
from stowplan.scheduler.in_tree.common.resource_claims import ClaimError, group_name
from stowplan.scheduler.in_tree.dynamic_resources.allocating import devices_in
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import MAX_ALTERNATIVES, ClaimDemand, Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import SearchResult, Verdict
from stowplan.scheduler.in_tree.dynamic_resources.binding_conditions import Readiness
from stowplan.scheduler.in_tree.dynamic_resources.declaration import DECLARATION, DynamicResourcesArgs
from stowplan.scheduler.in_tree.dynamic_resources.demand import CompiledClaim, Demand, Demands, RefusedError, claim_key
from stowplan.scheduler.in_tree.dynamic_resources.extended_resources import (
    IN_MEMORY,
    extended_names,
    stored_claim,
)
from stowplan.scheduler.in_tree.dynamic_resources.finding import Finding, asked_by
from stowplan.scheduler.in_tree.dynamic_resources.group_claims import reserved_for_group
from stowplan.scheduler.in_tree.dynamic_resources.hints import events
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.scheduler.in_tree.dynamic_resources.node_allocatable import (
    USED_BY_ANOTHER,
    USED_BY_SEVERAL,
    MappingError,
    shortages,
    users_of,
    with_statuses,
)
from stowplan.scheduler.in_tree.dynamic_resources.reserving import RESERVED, ReservedDevices, Reserving
from stowplan.scheduler.in_tree.dynamic_resources.writing import (
    deallocating,
    discarding,
    unreserving,
)

NOT_ALLOCATABLE = Reason("CannotAllocateClaims", "cannot allocate all claims")
INVALID_POOLS = Reason("InvalidResourcePools", "invalid resource pools were encountered")
CALLS_DRIVERS = Reason("NodeCallsDrivers", "node(s) cannot leave out operations of device drivers")
UNAVAILABLE = Reason("ResourceClaimUnavailable", "resourceclaim not available on the node")

NO_SUCH_RESOURCE = Reason("ResourceNotServed", "cannot fit resource")
STALE_CLAIM = Reason("StaleExtendedResourceClaim", "cannot schedule extended resource claim")

NOTHING_TO_DEALLOCATE = Reason("NothingToDeallocate", "no new claims to deallocate")
DEALLOCATED = Reason("ResourceClaimDeallocated", "deallocation of ResourceClaim completed")
DISCARDED = Reason("ResourceClaimDeleted", "deletion of ResourceClaim completed")
UNRESERVED = Reason("ResourceClaimUnreserved", "ResourceClaim unreserved for PodGroup")
STILL_UNSCHEDULABLE = Reason("StillUnschedulable", "still not schedulable")
DISABLED = Reason("PluginDisabled", "plugin disabled")

#: What nodes declare (NodeDeclaredFeatures).
OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"

_STATE = "DynamicResources"

_ALL_SLICES = ObjectDependency.of_kind(ResourceSlice)
_ALL_CLAIMS = ObjectDependency.of_kind(ResourceClaim)
_ALL_TAINT_RULES = ObjectDependency.of_kind(DeviceTaintRule)


class _State(PlainStruct):
    """The result of PreFilter; shared by equal pods. Its presence tells PostFilter that PreFilter succeeded."""

    demand: Demand = field(default_factory=Demand)


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    SignPlugin,
    EnqueueExtensions,
):
    declaration = DECLARATION
    # PostFilter writes nothing for questions.
    effect_free = True
    short_name = "devices"
    # The claims' requirements are in the signature; everything else is lookup objects (`reads_objects`).
    reads = Reads.NODES
    normalizes_by_bounds = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        gates = handle.features
        self._enabled = gates.enabled("DynamicResourceAllocation")
        self.features = features_of(gates)
        settings = args if args is not None else DynamicResourcesArgs().completed(gates)
        if self.features.node_allocatable:
            self.reads, self.changes_assumed_pods = Reads.NODE_PODS, True
        readiness = Readiness(
            enabled=self.features.binding_conditions,
            timeout=_seconds(settings.binding_timeout),
            wall_clock=handle.wall_clock,
        )
        self.demands = Demands(handle.cluster, self.features, readiness)
        timeout = _seconds(settings.filter_timeout)
        self.finding = Finding(handle.cluster, self.features, self.demands, filter_timeout=timeout)
        self._reserving = Reserving(handle, self.features, self.demands, self.finding, readiness)

    @property
    def inventory(self) -> Inventory:
        return self.finding.inventory

    def ignores(self, shape: PodShape) -> bool:
        """Pods of the shape have neither claims nor extended resources that may be backed by devices."""
        if not self._enabled:
            return True
        if shape.pod.spec.resource_claims:
            return False
        return not (self.features.extended_resources and extended_names(shape))

    # -- the pod ------------------------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.pod.spec.resource_claims or not self._enabled:
            return None
        try:
            self.demands.claims(pod)
        except RefusedError as e:
            return unresolvable(e.reason)
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not self._enabled:
            return SKIP
        known = _State()
        state.write(_STATE, known)
        try:
            known.demand = self.demands.of(pod)
        except RefusedError as e:
            return unresolvable(e.reason)
        return None if known.demand else SKIP

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        # The reference does not sign pods with claims, so they share no results there.
        if self.ignores(pod.shape):
            return {}
        try:
            found: dict[str, Any] = {"claims": self.demands.of(pod)}
            if self.features.node_allocatable:
                # Reasons contain the names.
                found["names"] = tuple(claim_key(claim) for claim in self.demands.claims(pod))
            return found
        except RefusedError as e:
            return {"refused": str(e.reason)}
        except ValueError as e:
            return unschedulable(str(e))

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        if self.ignores(pod.shape):
            return ()
        try:
            demand = self.demands.of(pod)
        except (RefusedError, ValueError):
            return ()
        if not demand.waiting and demand.extended is None:
            return (_ALL_SLICES,) if self._counts_held(demand) else ()
        # Classes of claims are in the signature; for extended resources only the names of classes are.
        classes = device_classes_read(pod.shape) if demand.extended is not None else ()
        rules = (_ALL_TAINT_RULES,) if self.features.device_taint_rules else ()
        return _ALL_SLICES, _ALL_CLAIMS, *rules, *classes

    # -- the nodes ----------------------------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        demand = self._demand_of(state)
        entries: list[Entry] = []
        refused = np.zeros(len(nodes), np.bool_)

        def refuse(mask: Mask, reason: Reason) -> None:
            nonlocal refused
            mask = mask & ~refused
            if mask.any():
                entries.append(Entry(mask, Code.UnschedulableAndUnresolvable, reason))
                refused = refused | mask

        if self.features.node_allocatable:
            for mask, reason in self._used_by_others(pod, nodes):
                refuse(mask, reason)
        if demand.extended is not None:
            if demand.extended.stale:
                refuse(~refused, STALE_CLAIM)
            for name in demand.extended.others:
                refuse(self.finding.lacking(nodes, name), NO_SUCH_RESOURCE)
        for asked, places in self.finding.asked(pod, demand, nodes, ~refused):
            problem = next((claim.problem for claim in asked if claim.problem), "")
            within = _marked(places, len(nodes))
            if problem:
                if (self._in_question(nodes) & within).any():
                    return error(problem)
                continue
            verdicts = self.finding.verdicts(asked, nodes, places, asking=state.asking)
            failed = self._failure(pod, asked, nodes, verdicts, asking=state.asking)
            if failed is not None:
                return failed
            refuse(verdicts == Verdict.NONE.value, NOT_ALLOCATABLE)
            refuse(verdicts == Verdict.INVALID_POOL.value, INVALID_POOLS)
            if self.features.optional_node_operations:
                chosen = self._skipping(asked, nodes, within & ~refused, asking=state.asking)
                refuse(chosen & _calls_drivers(nodes) if chosen.any() else chosen, CALLS_DRIVERS)
            if self.features.node_allocatable:
                try:
                    short = self._shortages(pod, asked, nodes, within & ~refused, asking=state.asking)
                except MappingError as e:
                    return error(str(e))
                for entry in short:
                    entries.append(entry)
                    refused = refused | entry.mask
        refuse(self._unavailable(demand, nodes), UNAVAILABLE)
        if self._counts_held(demand) and not demand.waiting:
            self.inventory.refresh()
            present = nodes.take(nodes.table.valid)
            for entry in self._shortages(pod, (), nodes, present & ~refused, asking=state.asking):
                entries.append(entry)
                refused = refused | entry.mask
        if any(claim.skips for claim in demand.allocated):
            refuse(_calls_drivers(nodes), CALLS_DRIVERS)
        return Rejections(refused, entries) if entries else None

    def _demand_of(self, state: CycleState) -> Demand:
        known: _State | None = state.get(_STATE)
        return known.demand if known is not None else Demand()

    def _in_question(self, nodes: Nodes) -> Mask:
        present: Mask = nodes.take(nodes.table.valid)
        return present if nodes.candidates is None else present & nodes.candidates

    def _failure(
        self,
        pod: PodInfo,
        asked: tuple[CompiledClaim, ...],
        nodes: Nodes,
        verdicts: Verdicts,
        *,
        asking: bool,
    ) -> Status | None:
        """The error of the first candidate node that has one; it ends the attempt."""
        broken = verdicts >= Verdict.ERROR.value
        problems = self.inventory.problems
        if not problems and not broken.any():
            return None
        in_question = self._in_question(nodes)
        for mask, text in problems:
            if (nodes.take(mask) & in_question).any():
                return error(text)
        places = np.flatnonzero(broken & in_question)
        if not len(places):
            return None
        row, answers = nodes.row(int(places[0])), self.finding.answers[asking]
        if verdicts[places[0]] == Verdict.UNFINISHED.value:
            return unfinished(self._timed_out(row), answers.max_portions)
        return error(self._problem_text(pod, answers.answer(asked_by(asked), row), row))

    def _timed_out(self, row: int) -> str:
        return f"node {self.handle.cluster.table.names[row]}: timed out trying to allocate devices"

    def _problem_text(self, pod: PodInfo, answer: SearchResult, row: int) -> str:
        problem = answer.problem
        if problem is None:
            return self._timed_out(row)
        world = self.inventory.world(row)
        device = pool = ""
        if problem.device is not None:
            view, pooled = [(view, d) for view, _ in world.pools for d in view.devices][problem.device]
            device = f"{view.driver}/{view.name}/{pooled.name}"
        if problem.pool is not None:
            pool = f"{world.pools[problem.pool][0].driver}/{world.pools[problem.pool][0].name}"
        waiting = [claim_key(claim) for claim in self.demands.waiting(pod)]
        waiting.append(f"{pod.namespace}/{IN_MEMORY}")
        return problem.template.format(claim=waiting[problem.claim], device=device, pool=pool)

    # -- node-allocatable resources ------------------------------------------------------------------------------------

    def _used_by_others(self, pod: PodInfo, nodes: Nodes) -> Iterator[tuple[Mask, Reason]]:
        """Nodes on which other pods take resources through claims that the pod also has."""
        for claim in self._allocated_claims(pod):
            for node_name, uids in users_of(claim, self.handle.cluster).items():
                if uids != {pod.uid}:
                    row = nodes.table.row_of.get(node_name, -1)
                    rows = np.arange(len(nodes)) if nodes.rows is None else nodes.rows
                    reason = USED_BY_SEVERAL if len(uids) > 1 else USED_BY_ANOTHER
                    yield rows == row, reason.of(claim=claim.metadata.name)

    def _shortages(
        self, pod: PodInfo, asked: tuple[CompiledClaim, ...], nodes: Nodes, mask: Mask, *, asking: bool
    ) -> list[Entry]:
        """Nodes without enough resources for what the pod takes along with its devices; raises MappingError."""
        places = np.flatnonzero(mask)
        codes = self.inventory.codes[places if nodes.rows is None else nodes.rows[places]]
        found = []
        for code in np.unique(codes).tolist():
            of_code = places[codes == code]
            taken = self.finding.footprint(pod, asked, nodes.row(int(of_code[0])), asking=asking)
            if taken is not None:
                found += shortages(nodes, _marked(of_code, len(nodes)), taken)
        return found

    def _counts_held(self, demand: Demand) -> bool:
        """Whether the pod takes resources of its node by claims that are allocated already."""
        return self.features.node_allocatable and self.features.emulated_version >= V1_37 and bool(demand.allocated)

    def _skipping(self, asked: tuple[CompiledClaim, ...], nodes: Nodes, mask: Mask, *, asking: bool) -> Mask:
        """Nodes on which a chosen device's driver counts on the node to leave out operations."""
        places, found = np.flatnonzero(mask), np.zeros(len(nodes), np.bool_)
        codes = self.inventory.codes[places if nodes.rows is None else nodes.rows[places]]
        for code in np.unique(codes).tolist():
            of_code = places[codes == code]
            row = nodes.row(int(of_code[0]))
            picks = self.finding.answers[asking].answer(asked_by(asked), row).picks
            devices = devices_in(self.inventory.world(row))
            found[of_code] = any(devices[p.device][1].content.skips_operations for of_claim in picks for p in of_claim)
        return found

    def assumed(self, state: CycleState, pod: PodInfo, node_name: str) -> Pod:
        """The pod with its node-allocatable resources, so that they are counted on the node."""
        statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
        row = self.handle.cluster.table.row_of.get(node_name)
        if row is not None and not self.ignores(pod.shape):
            try:
                for asked in tuple(self.finding.asked_on(pod, row)) or ((),):
                    self.inventory.refresh()
                    taken = self.finding.footprint(pod, asked, row, asking=state.asking)
                    statuses = taken.statuses if taken is not None else ()
            except (RefusedError, MappingError):
                # Reserve reports it.
                return pod.pod
        if statuses == pod.pod.status.node_allocatable_resource_claim_statuses:
            return pod.pod
        return with_statuses(pod.pod, statuses)

    def _unavailable(self, demand: Demand, nodes: Nodes) -> Mask:
        """Nodes that cannot use the devices of allocated claims."""
        found = np.zeros(len(nodes), np.bool_)
        for claim in demand.allocated:
            if claim.unusable:
                found[:] = True
            elif claim.where is not None:
                found |= ~matches_selector(nodes, claim.where)
        return found

    # -- PostFilter ----------------------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if not self._enabled:
            return PostFilterResult(unschedulable(DISABLED))
        known: _State | None = state.get(_STATE)
        if known is None and self.name not in state.skip_filter:
            # Parity: an earlier PreFilter ended the attempt, so the reference does not find its own state.
            return PostFilterResult(error("not found"))
        if known is None or not known.demand:
            return PostFilterResult(unschedulable(NOTHING_TO_DEALLOCATE))
        for claim in self._in_the_way(pod, diagnosis):
            users = claim.status.reserved_for
            if not users or (len(users) == 1 and users[0].uid == pod.uid):
                if not state.asking:
                    self.handle.carry_out(deallocating(claim))
                return PostFilterResult(unschedulable(DEALLOCATED))
        left = stored_claim(pod, self.handle.cluster) if known.demand.extended is not None else None
        if left is not None:
            if not state.asking:
                for request in discarding(left):
                    self.handle.carry_out(request)
            return PostFilterResult(unschedulable(DISCARDED))
        if self.features.group_claims and (answer := self._unreserve_group(state, pod)) is not None:
            return PostFilterResult(answer)
        return PostFilterResult(unschedulable(STILL_UNSCHEDULABLE))

    def repeats(self, result: PostFilterResult, pods: Sequence[PodInfo]) -> bool:
        return all(self.ignores(pod.shape) for pod in pods)

    def _in_the_way(self, pod: PodInfo, diagnosis: Diagnosis) -> Iterator[ResourceClaim]:
        """The pod's claims whose allocated devices restrict the nodes."""
        masks = [
            e.mask & hit for plugin, e, hit in diagnosis.entries() if plugin == self.name and e.reason is UNAVAILABLE
        ]
        if not masks:
            return
        refused = np.logical_or.reduce(masks)
        waiting = self.demands.waiting(pod)
        claims = [claim for claim in self.demands.claims(pod) if claim not in waiting]
        for claim, of_claim in zip(claims, self.demands.of(pod).allocated, strict=True):
            view = Nodes(self.handle.cluster)
            if claim.status.allocation is None:
                # Another pod of the group is about to get it.
                continue
            if of_claim.unusable or (
                of_claim.where is not None and (refused & ~matches_selector(view, of_claim.where)).any()
            ):
                yield claim

    def _unreserve_group(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Deallocate one claim of a group without placed pods; None if there is none."""
        cluster, key = self.handle.cluster, group_key(pod.pod)
        if not key or cluster.pod_groups.scheduled(key, but_for_trial=True):
            return None
        group = cluster.objects.get(PodGroup, key)
        if group is None:
            return error(f'podgroup.scheduling.k8s.io "{group_name(pod)}" not found')
        try:
            for claim in reserved_for_group(pod, group, cluster):
                if not state.asking:
                    self.handle.carry_out(unreserving(claim, group.metadata.uid))
                return unresolvable(UNRESERVED)
        except ClaimError as e:
            return error(str(e))
        return None

    # -- scores -------------------------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        demand = self._demand_of(state)
        total = np.zeros(len(nodes), np.int64)
        if not self.features.prioritized_list or not (demand.waiting or demand.extended):
            return total
        of_allocated = sum(self._score_of_allocated(claim) for claim in self._allocated_claims(pod))
        if not of_allocated and not any(_is_prioritized(claim) for claim in asked_by(demand.waiting)):
            # Extended resources have no alternatives.
            return total
        for asked, places in self.finding.asked(pod, demand, nodes, np.ones(len(nodes), np.bool_)):
            claims = asked_by(asked)
            if len(claims) < len(asked):
                continue
            self.inventory.refresh()
            rows = places if nodes.rows is None else nodes.rows[places]
            scored = self.finding.answers[state.asking].scores(claims, rows)
            total[places] = np.where(scored >= 0, scored + of_allocated, 0)
        return total

    def _allocated_claims(self, pod: PodInfo) -> list[ResourceClaim]:
        return [claim for claim in self.demands.claims(pod) if claim.status.allocation is not None]

    @staticmethod
    def _score_of_allocated(claim: ResourceClaim) -> int:
        assert claim.status.allocation is not None
        chosen = {result.request for result in claim.status.allocation.devices.results}
        total = 0
        for request in claim.spec.devices.requests:
            for i, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    total += MAX_ALTERNATIVES - i
                    break
        return total

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        highest = int(scores[feasible].max(initial=0)) if np.count_nonzero(scores) else 0
        return scores * 100 // highest if highest else scores

    # -- Reserve ------------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if self.ignores(pod.shape) else self._reserving.reserve(state, pod, node_name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._reserving.unreserve(state, pod, node_name)

    # -- PreBind ------------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPreFlightResult | Status:
        reserved: ReservedDevices | None = state.get(RESERVED)
        if reserved is None or not reserved.claims:
            return SKIP
        return PreBindPreFlightResult(allow_parallel=True)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        return (yield from self._reserving.pre_bind(state, pod, node_name))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(self.handle, self.features) if self._enabled else ()


def _is_prioritized(claim: ClaimDemand) -> bool:
    return any(request.prioritized for request in claim.requests)


def _marked(places: Rows, length: int) -> Mask:
    found = np.zeros(length, np.bool_)
    found[places] = True
    return found


def _calls_drivers(nodes: Nodes) -> Mask:
    """Nodes whose kubelets call drivers that are not there."""
    table = nodes.table
    lacking = np.array([OPTIONAL_OPERATIONS not in declared for declared in table.feature_sets.values], np.bool_)
    mask: Mask = nodes.take(lacking[table.feature_set[: table.n]])
    return mask


def features_of(gates: FeatureGates) -> Features:
    return Features(
        emulated_version=gates.emulated_version,
        admin_access=gates.enabled("DRAAdminAccess"),
        prioritized_list=gates.enabled("DRAPrioritizedList"),
        partitionable_devices=gates.enabled("DRAPartitionableDevices"),
        device_taints=gates.enabled("DRADeviceTaints"),
        device_taint_rules=gates.enabled("DRADeviceTaints") and gates.enabled("DRADeviceTaintRules"),
        consumable_capacity=gates.enabled("DRAConsumableCapacity"),
        binding_conditions=gates.enabled("DRADeviceBindingConditions")
        and gates.enabled("DRAResourceClaimDeviceStatus"),
        list_attributes=gates.enabled("DRAListTypeAttributes"),
        fractional_ranges=gates.enabled("DRAFractionalCapacityRange"),
        extended_resources=gates.enabled("DRAExtendedResource"),
        group_sharing=gates.enabled("GenericWorkload"),
        group_claims=gates.enabled("DRAWorkloadResourceClaims"),
        node_allocatable=gates.enabled("DRANodeAllocatableResources"),
        derived_attributes=gates.enabled("DRADerivedAttributes"),
        compatibility_groups=gates.enabled("DRADeviceCompatibilityGroups"),
        optional_node_operations=gates.enabled("DRAOptionalNodeOperations"),
    )


def _seconds(duration: Any) -> float:
    return 0.0 if duration is None else duration / 1e9
