"""Allocate devices to pods that claim them.

A node must have the devices that the pod's claims ask for, and free; of claims that have devices already, it must be
one from which these can be used. Nodes are told apart by what they have (`inventory.py`), equal ones are searched once
(`answers.py`, `allocator/`), and pods whose claims ask for the same share what was found (`demand.py`). When the pod
has its node, the allocation is held in flight and written, and devices that have to become ready are waited for
(`writing.py`).

Upstream: pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stowplan.api.types import DeviceClass, DeviceTaintRule, PodGroup, ResourceClaim, ResourceSlice
from stowplan.cluster.object_dependencies import ObjectDependency
from stowplan.cluster.pod_info import group_key
from stowplan.cluster.view import Nodes
from stowplan.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from stowplan.framework.rejections import Entry, Rejections
from stowplan.framework.requests import Create, Done
from stowplan.framework.status import SKIP, Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.framework.unfinished import unfinished
from stowplan.in_tree.common.device_classes import device_classes_read
from stowplan.in_tree.common.node_selection import matches_selector
from stowplan.in_tree.common.resource_claims import ClaimError, group_name
from stowplan.in_tree.dynamic_resources.allocating import Allocating, AllocationError
from stowplan.in_tree.dynamic_resources.allocator.claims import MAX_ALTERNATIVES, Features
from stowplan.in_tree.dynamic_resources.allocator.search import Verdict
from stowplan.in_tree.dynamic_resources.answers import Answers
from stowplan.in_tree.dynamic_resources.binding_conditions import Readiness, awaits_conditions
from stowplan.in_tree.dynamic_resources.declaration import DECLARATION, DynamicResourcesArgs
from stowplan.in_tree.dynamic_resources.demand import Demand, Demands, RefusedError, claim_key
from stowplan.in_tree.dynamic_resources.extended_resources import (
    IN_MEMORY,
    extended_names,
    in_memory_claim,
    in_memory_key,
    stored_claim,
    variant,
)
from stowplan.in_tree.dynamic_resources.group_claims import as_consumer, is_reserved, reserved_for_group
from stowplan.in_tree.dynamic_resources.hints import events
from stowplan.in_tree.dynamic_resources.inventory import Inventory
from stowplan.in_tree.dynamic_resources.writing import (
    FINALIZER,
    ClaimWriter,
    WriteError,
    deallocating,
    discarding,
    observe_wait,
    served_by,
    unreserving,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from stowplan.api.device_claims import AllocationResult, ResourceClaimConsumerReference
    from stowplan.api.devices import DeviceClass as Class
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.config.features import FeatureGates
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.events import ClusterEventWithHint
    from stowplan.framework.explanations.explanation import Explanation
    from stowplan.framework.explanations.inspection import Inspection
    from stowplan.framework.handle import Handle
    from stowplan.framework.requests import Outcome, Request, Steps, Wait
    from stowplan.in_tree.dynamic_resources.allocator.claims import Claim
    from stowplan.in_tree.dynamic_resources.allocator.search import Answer
    from stowplan.in_tree.dynamic_resources.demand import CompiledClaim
    from stowplan.in_tree.dynamic_resources.extended_resources import Variant

    Mask = npt.NDArray[np.bool_]

NOT_ALLOCATABLE = Reason("CannotAllocateClaims", "cannot allocate all claims")
INVALID_POOLS = Reason("InvalidResourcePools", "invalid resource pools were encountered")
UNAVAILABLE = Reason("ResourceClaimUnavailable", "resourceclaim not available on the node")

NO_SUCH_RESOURCE = Reason("ResourceNotServed", "cannot fit resource")
STALE_CLAIM = Reason("StaleExtendedResourceClaim", "cannot schedule extended resource claim")

NOTHING_TO_DEALLOCATE = Reason("NothingToDeallocate", "no new claims to deallocate")
DEALLOCATED = Reason("ResourceClaimDeallocated", "deallocation of ResourceClaim completed")
DISCARDED = Reason("ResourceClaimDeleted", "deletion of ResourceClaim completed")
UNRESERVED = Reason("ResourceClaimUnreserved", "ResourceClaim unreserved for PodGroup")
STILL_UNSCHEDULABLE = Reason("StillUnschedulable", "still not schedulable")
DISABLED = Reason("PluginDisabled", "plugin disabled")

_STATE = "DynamicResources"
#: What Reserve took: of one pod, while the other is of all its equals.
_RESERVED = "DynamicResources/reserved"

_ALL_SLICES = ObjectDependency.of_kind(ResourceSlice)
_ALL_CLAIMS = ObjectDependency.of_kind(ResourceClaim)
_ALL_TAINT_RULES = ObjectDependency.of_kind(DeviceTaintRule)


@dataclass(slots=True)
class _State:
    """What PreFilter found out of a pod; shared by equal pods. PostFilter tells by it that the attempt came so far."""

    demand: Demand = field(default_factory=Demand)


@dataclass(slots=True)
class _Reserved:
    """A pod's claims on its node, as they are written more and more."""

    claims: list[ResourceClaim] = field(default_factory=list)
    #: Claim -> what it is to get.
    allocations: dict[str, AllocationResult] = field(default_factory=dict)
    #: Claim -> for whom it is to be reserved.
    consumers: dict[str, ResourceClaimConsumerReference] = field(default_factory=dict)
    #: Claims whose allocation another pod of the group is to write.
    shared: set[str] = field(default_factory=set)
    #: For extended resources: what the last claim asks for, and its name once it is stored.
    extended: Variant | None = None
    stored: str = ""


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
    name = "DynamicResources"
    declaration = DECLARATION
    # Writes of PostFilter are left out for questions.
    effect_free = True
    short_name = "devices"
    # What claims ask for is in the signature, and what may be found for them are objects (`reads_objects`).
    reads = Reads.NODES
    normalizes = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        gates = handle.features
        self._enabled = gates.enabled("DynamicResourceAllocation")
        self.features = features_of(gates)
        settings = args if args is not None else DynamicResourcesArgs().completed(gates)
        self._filter_timeout = _seconds(settings.filter_timeout)
        self._readiness = Readiness(
            enabled=self.features.binding_conditions,
            timeout=_seconds(settings.binding_timeout),
            wall_clock=handle.wall_clock,
        )
        self.demands = Demands(handle.cluster, self.features, self._readiness)

    @cached_property
    def inventory(self) -> Inventory:
        """Made with the first pod that needs devices: clusters without such pods need not pay for it."""
        return Inventory(self.handle.cluster, self.features)

    @cached_property
    def _answers(self) -> dict[bool, Answers]:
        """Of attempts, and of questions (True)."""
        return {
            asking: Answers(self.inventory, self.features, filter_timeout=self._filter_timeout, asking=asking)
            for asking in (False, True)
        }

    def _needs_devices(self, shape: PodShape) -> bool:
        """Whether pods of the shape may have claims, or ask for devices by extended resources."""
        if not self._enabled:
            return False
        if shape.pod.spec.resource_claims:
            return True
        return self.features.extended_resources and bool(extended_names(shape))

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

    def ignores(self, shape: PodShape) -> bool:
        return not self._needs_devices(shape)

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        # The reference has no signature for pods with claims; it does without sharing.
        if not self._needs_devices(pod.shape):
            return {}
        try:
            return {"claims": self.demands.of(pod)}
        except RefusedError as e:
            return {"refused": str(e.reason)}
        except ValueError as e:
            return unschedulable(str(e))

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        if not self._needs_devices(pod.shape):
            return ()
        try:
            demand = self.demands.of(pod)
        except (RefusedError, ValueError):
            return ()
        if not demand.waiting and demand.extended is None:
            return ()
        # Classes of claims are in the signature; of extended resources their names alone are.
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

        if demand.extended is not None:
            if demand.extended.stale:
                refuse(~refused, STALE_CLAIM)
            for name in demand.extended.others:
                refuse(self._lacking(nodes, name), NO_SUCH_RESOURCE)
        for asked, places in self._asked(pod, demand, nodes, ~refused):
            problem = next((claim.problem for claim in asked if claim.problem), "")
            within = _marked(places, len(nodes))
            if problem:
                if (self._in_question(nodes) & within).any():
                    return error(problem)
                continue
            verdicts = self._verdicts(asked, nodes, places, asking=state.asking)
            failed = self._failure(pod, asked, nodes, verdicts, asking=state.asking)
            if failed is not None:
                return failed
            refuse(verdicts == Verdict.NONE.value, NOT_ALLOCATABLE)
            refuse(verdicts == Verdict.INVALID_POOL.value, INVALID_POOLS)
        refuse(self._unavailable(demand, nodes), UNAVAILABLE)
        return Rejections(refused, entries) if entries else None

    def _demand_of(self, state: CycleState) -> Demand:
        known: _State | None = state.get(_STATE)
        return known.demand if known is not None else Demand()

    def _in_question(self, nodes: Nodes) -> Mask:
        present: Mask = nodes.take(nodes.table.valid)
        return present if nodes.candidates is None else present & nodes.candidates

    @staticmethod
    def _lacking(nodes: Nodes, resource: str) -> Mask:
        """Where no device plugin serves a resource."""
        index = nodes.table.resources.get(resource)
        return np.ones(len(nodes), np.bool_) if index is None else nodes.allocatable(index) <= 0

    def _asked(
        self, pod: PodInfo, demand: Demand, nodes: Nodes, mask: Mask
    ) -> Iterator[tuple[tuple[CompiledClaim, ...], npt.NDArray[np.intp]]]:
        """What has to be allocated, and the places of the nodes for which that is so."""
        present = np.flatnonzero(nodes.take(nodes.table.valid) & mask)
        if demand.extended is None:
            if demand.waiting and len(present):
                yield demand.waiting, present
            return
        if all(name not in nodes.table.resources for name, _ in demand.extended.classes):
            # No node has a device plugin for them: there is one kind of nodes.
            extra = self._compiled_variant(pod, dict(demand.extended.classes))
            if len(present) and (demand.waiting or extra):
                yield (*demand.waiting, *extra), present
            return
        lacking = np.zeros(len(nodes), np.intp)
        for i, (name, _) in enumerate(demand.extended.classes):
            lacking += self._lacking(nodes, name).astype(np.intp) << i
        for bits in np.unique(lacking[present]).tolist():
            classes = {name: c for i, (name, c) in enumerate(demand.extended.classes) if bits >> i & 1}
            extra = self._compiled_variant(pod, classes) if classes else ()
            if demand.waiting or extra:
                yield (*demand.waiting, *extra), present[lacking[present] == bits]

    def _compiled_variant(self, pod: PodInfo, classes: dict[str, str]) -> tuple[CompiledClaim, ...]:
        """What is asked for where these resources come from devices; nothing, if only of containers that want none."""
        devices = variant(pod, classes).devices
        return (self.demands.compiled(in_memory_claim(pod, devices)),) if devices.requests else ()

    def _verdicts(
        self, asked: tuple[CompiledClaim, ...], nodes: Nodes, places: npt.NDArray[np.intp], *, asking: bool
    ) -> npt.NDArray[np.int8]:
        """Of the nodes at these places; the others are said to have been found something for."""
        self.inventory.refresh()
        rows = places if nodes.rows is None else nodes.rows[places]
        found = np.full(len(nodes), Verdict.FOUND.value, np.int8)
        found[places] = self._answers[asking].verdicts(asked_by(asked), rows)
        return found

    def _failure(
        self,
        pod: PodInfo,
        asked: tuple[CompiledClaim, ...],
        nodes: Nodes,
        verdicts: npt.NDArray[np.int8],
        *,
        asking: bool,
    ) -> Status | None:
        """The error of the first node that is in question and has one: it ends the attempt."""
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
        row, answers = nodes.row(int(places[0])), self._answers[asking]
        if verdicts[places[0]] == Verdict.UNFINISHED.value:
            return unfinished(self._timed_out(row), answers.max_portions)
        return error(self._problem_text(pod, answers.answer(asked_by(asked), row), row))

    def _timed_out(self, row: int) -> str:
        return f"node {self.handle.cluster.table.names[row]}: timed out trying to allocate devices"

    def _problem_text(self, pod: PodInfo, answer: Answer, row: int) -> str:
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

    def _unavailable(self, demand: Demand, nodes: Nodes) -> Mask:
        """Where devices that claims have already cannot be used."""
        found = np.zeros(len(nodes), np.bool_)
        for claim in demand.allocated:
            if claim.unusable:
                found[:] = True
            elif claim.where is not None:
                found |= ~matches_selector(nodes, claim.where)
        return found

    # -- no node fits -------------------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if not self._enabled:
            return PostFilterResult(unschedulable(DISABLED))
        known: _State | None = state.get(_STATE)
        if known is None:
            # Parity: an earlier PreFilter ended the attempt, and the reference misses its own state.
            return PostFilterResult(error("not found"))
        if not known.demand:
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

    def _in_the_way(self, pod: PodInfo, diagnosis: Diagnosis) -> Iterator[ResourceClaim]:
        """The pod's claims whose devices keep it off nodes."""
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
                # Another pod of the group is about to have it.
                continue
            if of_claim.unusable or (
                of_claim.where is not None and (refused & ~matches_selector(view, of_claim.where)).any()
            ):
                yield claim

    def _unreserve_group(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Take back one claim of a group that has no pod on a node yet; None if there is none."""
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

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64] | Status:
        demand = self._demand_of(state)
        total = np.zeros(len(nodes), np.int64)
        if not self.features.prioritized_list or not (demand.waiting or demand.extended):
            return total
        of_allocated = sum(self._score_of_allocated(claim) for claim in self._allocated_claims(pod))
        for asked, places in self._asked(pod, demand, nodes, np.ones(len(nodes), np.bool_)):
            claims = asked_by(asked)
            if len(claims) < len(asked):
                continue
            if of_allocated or any(request.prioritized for claim in claims for request in claim.requests):
                self.inventory.refresh()
                rows = places if nodes.rows is None else nodes.rows[places]
                scored = self._answers[state.asking].scores(claims, rows)
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

    def normalize(
        self, state: CycleState, pod: PodInfo, scores: npt.NDArray[np.int64], feasible: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64] | Status:
        highest = int(scores[feasible].max(initial=0))
        return scores * 100 // highest if highest else scores

    # -- Reserve ------------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if not self._needs_devices(pod.shape):
            return None
        reserved = _Reserved()
        state.write(_RESERVED, reserved)
        try:
            reserved.claims = self.demands.claims(pod)
            reserved.consumers = self.demands.consumers(pod)
            demand = self.demands.of(pod)
        except RefusedError as e:
            return unresolvable(e.reason)
        row = self.handle.cluster.table.row_of.get(node_name)
        if row is None:
            return error(f'node "{node_name}" not found')
        self._share(reserved, pod)
        view = Nodes(self.handle.cluster, np.array([row], np.intp))
        # Equal pods were judged as one, and what was known then need not hold any more: this pod's claims count, now.
        for asked, _ in self._asked(pod, demand, view, np.ones(1, np.bool_)):
            problem = next((claim.problem for claim in asked if claim.problem), "")
            if problem:
                return error(problem)
            waiting = self.demands.waiting(pod)
            if len(asked) > len(waiting):
                reserved.extended = self._variant_on(pod, demand, view)
                made_up = in_memory_claim(pod, reserved.extended.devices)
                reserved.claims.append(made_up)
                waiting.append(made_up)
            self.inventory.refresh()
            answer = self._answers[state.asking].answer(asked_by(asked), row)
            if answer.verdict is not Verdict.FOUND:
                return error("claim allocation not found for node")
            try:
                self._allocate(reserved, waiting, asked_by(asked), answer, row)
            except AllocationError as e:
                return error(str(e))
            for claim in waiting:
                self._hold(pod, claim, reserved.allocations[claim_key(claim)])
        return None

    def _variant_on(self, pod: PodInfo, demand: Demand, view: Nodes) -> Variant:
        assert demand.extended is not None
        return variant(pod, {name: c for name, c in demand.extended.classes if self._lacking(view, name)[0]})

    def _share(self, reserved: _Reserved, pod: PodInfo) -> None:
        """Take part in what another pod of the group is about to have."""
        for claim in reserved.claims:
            allocation = None if claim.status.allocation is not None else self.demands.shared(pod, claim)
            if allocation is not None:
                reserved.allocations[claim_key(claim)] = allocation
                reserved.shared.add(claim_key(claim))
        # Not before all are found: who takes part is no other pod any more.
        for key in sorted(reserved.shared):
            self.handle.cluster.in_flight.share(ResourceClaim, key, pod.uid)

    def _hold(self, pod: PodInfo, claim: ResourceClaim, allocation: AllocationResult) -> None:
        metadata = replace(claim.metadata, finalizers=tuple(dict.fromkeys((*claim.metadata.finalizers, FINALIZER))))
        status = replace(claim.status, allocation=allocation)
        self.handle.cluster.in_flight.hold(
            _flight_key(pod, claim), replace(claim, metadata=metadata, status=status), pod.uid
        )

    def _allocate(
        self, reserved: _Reserved, waiting: list[ResourceClaim], asked: tuple[Claim, ...], answer: Answer, row: int
    ) -> None:
        world = self.inventory.world(row)
        for claim, of_claim, picks in zip(waiting, asked, answer.picks, strict=True):
            allocating = Allocating(
                claim,
                of_claim,
                node_name=self.handle.cluster.table.names[row],
                features=self.features,
                class_named=self._class_named,
            )
            reserved.allocations[claim_key(claim)] = allocating.allocation(picks, world)

    def _class_named(self, name: str) -> Class | None:
        return self.handle.cluster.objects.get(DeviceClass, name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved: _Reserved | None = state.get(_RESERVED)
        if reserved is None:
            return
        state.delete(_RESERVED)
        for claim in reserved.claims:
            self.handle.cluster.in_flight.release(ResourceClaim, _flight_key(pod, claim), pod.uid)
            if state.asking:
                continue
            if reserved.stored == claim.metadata.name:
                for request in discarding(claim):
                    self.handle.carry_out(request)
            elif claim.status.allocation is not None and is_reserved(claim, pod, of_groups=False):
                self.handle.carry_out(unreserving(claim, pod.uid))

    # -- PreBind ------------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPreFlightResult | Status:
        reserved: _Reserved | None = state.get(_RESERVED)
        if reserved is None or not reserved.claims:
            return SKIP
        return PreBindPreFlightResult(allow_parallel=True)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        reserved: _Reserved | None = state.get(_RESERVED)
        if reserved is None:
            return None
        cluster = self.handle.cluster
        writer = ClaimWriter(cluster, self._readiness, pod=pod)
        for i, claim in enumerate(reserved.claims):
            if is_reserved(claim, pod, of_groups=self.features.group_claims):
                continue
            allocation = reserved.allocations.get(claim_key(claim))
            try:
                if claim.metadata.name == IN_MEMORY:
                    assert allocation is not None
                    claim = yield from self._store(reserved, i, pod, allocation)
                consumer = reserved.consumers.get(claim_key(claim)) or as_consumer(pod)
                written = yield from self._written(reserved, writer, claim, allocation, consumer)
            except WriteError as e:
                cluster.in_flight.release(ResourceClaim, _flight_key(pod, claim), pod.uid)
                return error(str(e))
            reserved.claims[i] = written
            cluster.in_flight.wrote(written, created=written.metadata.name == reserved.stored)
        if reserved.extended is not None:
            outcome = yield served_by(pod, reserved.stored, reserved.extended.mappings)
            if not isinstance(outcome, Done):
                return error(f"update pod {pod.key} ExtendedResourceClaimStatus: {outcome.error}")
        awaited = [claim for claim in reserved.claims if awaits_conditions(claim)]
        if not self._readiness.enabled or not awaited:
            return None
        if self.handle.event_recorder is not None:
            self.handle.event_recorder.event(
                pod.pod,
                type_="Normal",
                reason="BindingConditionsPending",
                action="Scheduling",
                note=f"waiting for binding conditions for device on node {node_name}",
            )
        waited = yield from writer.wait([claim_key(claim) for claim in reserved.claims])
        if self.handle.metrics is not None:
            observe_wait(self.handle.metrics.scheduler, self.handle.profile_name, reserved.claims, waited)
        return error(str(waited.problem)) if waited.problem is not None else None

    def _written(
        self,
        reserved: _Reserved,
        writer: ClaimWriter,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        consumer: ResourceClaimConsumerReference,
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Allocate and reserve a claim, unless another pod of the group allocates it; raises WriteError."""
        if claim_key(claim) in reserved.shared:
            claim, is_writer = yield from writer.turn(claim)
            if not is_writer:
                known = any(user.uid == consumer.uid for user in claim.status.reserved_for)
                return claim if known else (yield from writer.join(claim, consumer))
        return (yield from writer.write(claim, allocation, consumer))

    def _store(
        self, reserved: _Reserved, place: int, pod: PodInfo, allocation: AllocationResult
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Store the claim that was made up; raises WriteError."""
        made_up = reserved.claims[place]
        stored = replace(made_up, metadata=replace(made_up.metadata, name="", uid=""))
        outcome = yield Create(obj=stored)
        counter = self.handle.metrics
        if counter is not None:
            status = "success" if isinstance(outcome, Done) else "failure"
            counter.scheduler.resourceclaim_creates_total.with_label_values(status).inc()
        if not isinstance(outcome, Done) or not isinstance(outcome.value, ResourceClaim):
            what = f"{pod.namespace}/{IN_MEMORY}"
            problem = "no answer" if isinstance(outcome, Done) else outcome.error
            raise WriteError(f"create claim for extended resources {what}: {problem}")
        claim = outcome.value
        reserved.claims[place], reserved.stored = claim, claim.metadata.name
        # First held under its own name, then released under the other: its devices are never free in between.
        self._hold(pod, claim, allocation)
        self.handle.cluster.in_flight.release(ResourceClaim, _flight_key(pod, made_up), pod.uid)
        return claim

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan.in_tree.dynamic_resources.explanation import DynamicResourcesExplanation

        return DynamicResourcesExplanation(inspection, self)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(self.handle, self.features) if self._enabled else ()


def asked_by(claims: tuple[CompiledClaim, ...]) -> tuple[Claim, ...]:
    """What claims ask for that can be allocated at all."""
    return tuple(claim.asked for claim in claims if claim.asked is not None)


def _flight_key(pod: PodInfo, claim: ResourceClaim) -> str:
    return in_memory_key(pod) if claim.metadata.name == IN_MEMORY else claim_key(claim)


def _marked(places: npt.NDArray[np.intp], length: int) -> Mask:
    found = np.zeros(length, np.bool_)
    found[places] = True
    return found


def features_of(gates: FeatureGates) -> Features:
    return Features(
        admin_access=gates.enabled("DRAAdminAccess"),
        prioritized_list=gates.enabled("DRAPrioritizedList"),
        partitionable_devices=gates.enabled("DRAPartitionableDevices"),
        device_taints=gates.enabled("DRADeviceTaints"),
        device_taint_rules=gates.enabled("DRADeviceTaints") and gates.enabled("DRADeviceTaintRules"),
        consumable_capacity=gates.enabled("DRAConsumableCapacity"),
        binding_conditions=gates.enabled("DRADeviceBindingConditions")
        and gates.enabled("DRAResourceClaimDeviceStatus"),
        list_attributes=gates.enabled("DRAListTypeAttributes"),
        extended_resources=gates.enabled("DRAExtendedResource"),
        group_sharing=gates.enabled("GenericWorkload"),
        group_claims=gates.enabled("DRAWorkloadResourceClaims"),
    )


def _seconds(duration: Any) -> float:
    return 0.0 if duration is None else duration / 1e9
