"""Bind claims to volumes, and reject nodes where that is impossible.

The volumes of bound claims must be usable on the node. For claims that wait for the pod's node (WaitForFirstConsumer)
there must be free volumes, or a volume can be provisioned. This is checked for all rows at once (`judging.py`), per
distinct selector, size and class. Once the pod has a node, volumes and claims are assumed in their future state,
written, and waited for (`writing.py`).

Pods with equal claims share results, though each has claims of its own (`claims.py`).

Upstream: pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from stowplan.kube.api import types as t
from stowplan.kube.api.quantity import parse_quantity, value
from stowplan.kube.api.types import CSIDriver, PersistentVolume, Pod, StorageClass
from stowplan.kube.claims.claim_terms import is_fully_bound
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.assumed_objects import AssumeError
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectWatch
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, SignPlugin
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PV,
    PVC,
    STORAGE_CLASS,
    Action,
    ClusterEventWithHint,
    Hint,
    on,
    queue_if,
)
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.requests import Steps
from stowplan.scheduler.framework.status import SKIP, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.annotations import MIGRATED_PLUGINS
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, after_claim_change
from stowplan.scheduler.in_tree.volume_binding.claims import Claim, DelayedClaim, PodClaims, claims_of, compiled
from stowplan.scheduler.in_tree.volume_binding.declaration import DECLARATION, VolumeBindingArgs
from stowplan.scheduler.in_tree.volume_binding.judging import NO_VOLUME, ClaimJudgement, Judge, migrated_nodes
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets
from stowplan.scheduler.in_tree.volume_binding.provisioning import Provisioning, capacities_of
from stowplan.scheduler.in_tree.volume_binding.scoring import Scorer
from stowplan.scheduler.in_tree.volume_binding.volumes import FREE_BY_CLASS, NONE, Volumes
from stowplan.scheduler.in_tree.volume_binding.writing import Reserved, Writer, assume, assume_provision, give_back

_STATE = "VolumeBinding"
#: What Reserve took for one pod; the other key's state is shared by equal pods.
_RESERVED = "VolumeBinding/reserved"


class _State(PlainStruct):
    """The state of a pod's claims from PreFilter, and of the nodes from Filter; shared by equal pods."""

    claims: PodClaims
    #: The result for the claims, and what it depends on.
    judgement: ClaimJudgement | None = None
    stamp: tuple[int, ...] = ()
    watch: ObjectWatch | None = None


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    SignPlugin,
    EnqueueExtensions,
):
    declaration = DECLARATION
    short_name = "volumes"
    # The state of claims is in the signature; everything else is lookup objects (`reads_objects`).
    reads = Reads.NODES
    in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        settings = args if args is not None else VolumeBindingArgs()
        self._timeout = settings.bind_timeout_seconds
        self._scorer = Scorer(settings.shape) if settings.shape else None
        cluster = handle.cluster
        self.node_sets = NodeSets(cluster.table)
        self.volumes = Volumes(cluster, self.node_sets)
        self.provisioning = Provisioning(cluster, self.node_sets)
        self.judge = Judge(cluster, node_sets=self.node_sets, volumes=self.volumes, provisioning=self.provisioning)
        #: The result for the last pod's claims, and what it depends on; used several times per cycle.
        self._claims: tuple[Pod, tuple[int, int], list[Claim] | Status] | None = None

    # -- the pod ------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.shape.has_claims:
            return SKIP
        claims = self.claims(pod)
        if isinstance(claims, Status):
            return claims
        state.write(_STATE, _State(compiled(claims)))
        return None

    def claims(self, pod: PodInfo) -> list[Claim] | Status:
        """The current state of the pod's claims; or why it is unschedulable."""
        self.volumes.refresh()
        stamp, known = (self.handle.cluster.objects.total_version, self.volumes.epoch), self._claims
        if known is not None and known[0] is pod.pod and known[1] == stamp:
            return known[2]
        claims = claims_of(pod, self.handle.cluster, self.volumes)
        self._claims = pod.pod, stamp, claims
        return claims

    def ignores(self, shape: PodShape) -> bool:
        return not shape.has_claims

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        if not pod.shape.has_claims:
            return {}
        claims = self.claims(pod)
        if isinstance(claims, Status):
            return {"refused": (claims.code, claims.message)}
        return {"claims": compiled(claims)}

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        claims = self.claims(pod) if pod.shape.has_claims else []
        return () if isinstance(claims, Status) else self._read_beyond(compiled(claims))

    def _read_beyond(self, claims: PodClaims) -> tuple[ObjectDependency, ...]:
        """Lookup objects for claims that are not part of the claims."""
        found: dict[ObjectDependency, None] = {}
        for class_name in {claim.wanted.class_name: None for claim in claims.delayed}:
            found.update(dict.fromkeys(self._read_for(class_name)))
        for volume in claims.bound:
            if volume.plugin:
                found[migrated_nodes(volume.plugin)] = None
        return tuple(found)

    def _read_for(self, class_name: str) -> list[ObjectDependency]:
        """Lookup objects for a waiting claim of this class."""
        found = [
            ObjectDependency.named(StorageClass, class_name),
            ObjectDependency.indexed(PersistentVolume, FREE_BY_CLASS, class_name),
        ]
        storage_class = self.handle.cluster.objects.get(StorageClass, class_name)
        if storage_class is not None and self.provisioning.makes(storage_class):
            found.append(ObjectDependency.named(CSIDriver, storage_class.provisioner))
            if self.provisioning.tracks(storage_class):
                found.append(capacities_of(class_name))
        return found

    # -- the nodes ----------------------------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        known = self._state_of(state, pod)
        if isinstance(known, Status):
            return known
        judgement = self._judgement(known)
        for mask, problem in judgement.errors:
            asked = nodes.take(mask & self.handle.cluster.table.valid[: judgement.n])
            if nodes.candidates is not None:
                asked = asked & nodes.candidates
            if asked.any():
                self._count_error("predicate", state)
                return problem
        entries = [entry._replace(mask=nodes.take(entry.mask)) for entry in judgement.entries()]
        if not entries:
            return None
        mask = np.logical_or.reduce([entry.mask for entry in entries])
        return Rejections(mask, entries) if mask.any() else None

    def _state_of(self, state: CycleState, pod: PodInfo) -> _State | Status:
        known: _State | None = state.get(_STATE)
        if known is not None:
            return known
        claims = self.claims(pod)
        return claims if isinstance(claims, Status) else _State(compiled(claims))

    def _judgement(self, known: _State) -> ClaimJudgement:
        """The current result for the claims on all nodes."""
        self.volumes.refresh()
        self.node_sets.refresh()
        cluster = self.handle.cluster
        stamp = cluster.table.generation, self.volumes.epoch
        if known.judgement is None or known.stamp != stamp or known.watch is None or known.watch.changed():
            known.judgement, known.stamp = self.judge.judge(known.claims), stamp
            known.watch = ObjectWatch(cluster.objects, self._read_beyond(known.claims))
        return known.judgement

    # -- scores -------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        # The reference scores pods without claims to bind as well, with 0 on all nodes.
        known: _State | None = state.get(_STATE)
        return SKIP if self._scorer is None or known is None or not known.claims.delayed else None

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        known: _State | None = state.get(_STATE)
        if known is None or self._scorer is None:
            return np.zeros(len(nodes), np.int64)
        judgement = self._judgement(known)
        return nodes.take(self._scorer.scores(known.claims.delayed, judgement, self.volumes))

    # -- Reserve ------------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        reserved = Reserved()
        state.write(_RESERVED, reserved)
        claims = self.claims(pod) if pod.shape.has_claims else []
        if isinstance(claims, Status):
            return claims
        if all(is_fully_bound(claim.obj) for claim in claims):
            reserved.all_bound = True
            return None
        row = self.handle.cluster.table.row_of.get(node_name)
        if row is None:
            return error(f'node "{node_name}" not found')
        try:
            return self._assume(reserved, claims, row, state.get(_STATE))
        except AssumeError as e:
            give_back(reserved, self.handle.cluster.assumed)
            self._count_error("assume", state)
            return error(e)

    def _assume(self, reserved: Reserved, claims: list[Claim], row: int, known: _State | None) -> Status | None:
        """Reserve a row's volumes for the pod's claims.

        Uses this pod's current claims, as the shared result was for an equal pod; and the current volumes, as they may
        have changed while an extender was waited for.
        """
        cluster = self.handle.cluster
        now = compiled(claims)
        judgement = self._judgement(known if known is not None and known.claims == now else _State(now))
        waiting = [claim for claim in claims if isinstance(claim.state, DelayedClaim)]
        problem = next((status for mask, status in judgement.errors if mask[row]), None)
        if problem is not None:
            return problem
        refused = tuple(entry.reason for entry in judgement.entries() if entry.mask[row])
        if refused:
            return unresolvable(*refused)
        bindings = [
            (self.volumes.known[int(ids[row])].name, waiting[i].obj)
            for i, ids in judgement.matched.items()
            if ids[row] != NONE
        ]
        provisions = [waiting[i].obj for i, provision in judgement.provisions.items() if provision.rows[row]]
        for name, claim in bindings:
            volume = cluster.assumed.get(PersistentVolume, name)
            if volume is None:
                return unresolvable(NO_VOLUME)
            assume(reserved, volume, claim, cluster.assumed)
        for claim in provisions:
            assume_provision(reserved, claim, cluster.table.names[row], cluster.assumed)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved: Reserved | None = state.get(_RESERVED)
        if reserved is not None:
            give_back(reserved, self.handle.cluster.assumed)
            state.delete(_RESERVED)

    # -- PreBind ------------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPreFlightResult | Status:
        reserved: Reserved | None = state.get(_RESERVED)
        if reserved is None:
            return error(f'no pod volume found for node "{node_name}"')
        return SKIP if reserved.all_bound else PreBindPreFlightResult(allow_parallel=True)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        reserved: Reserved | None = state.get(_RESERVED)
        if reserved is None:
            return error(f'no pod volume found for node "{node_name}"')
        if reserved.all_bound:
            return None
        writer = Writer(self.handle.cluster, judge=self.judge, node_sets=self.node_sets, pod=pod, node_name=node_name)
        failed = yield from writer.steps(reserved, self._timeout)
        if failed is not None:
            self._count_error("bind", state)
        return failed

    def _count_error(self, stage: str, state: CycleState) -> None:
        metrics = self.handle.metrics
        if metrics is not None and not state.asking:
            metrics.volume_scheduling_stage_error_total.with_label_values(stage).inc()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events()


def events() -> tuple[ClusterEventWithHint, ...]:
    return (
        on(STORAGE_CLASS, Action.Add | Action.Update, _after_storage_class_change, by_shape=True),
        on(PVC, Action.Add | Action.Update, after_claim_change, named=CLAIMS_OF_POD),
        on(PV, Action.Add | Action.Update),
        on(NODE, Action.Add | Action.UpdateNodeLabel),
        on(CSI_NODE, Action.Add | Action.Update, _after_migration_change, by_shape=True),
        on(CSI_DRIVER, Action.Update, _after_driver_update, by_shape=True),
        on(CSI_STORAGE_CAPACITY, Action.Add | Action.Update, _after_capacity_change, by_shape=True),
    )


def _after_storage_class_change(pod: PodInfo, old: t.StorageClass | None, new: t.StorageClass) -> Hint:
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_migration_change(pod: PodInfo, old: t.CSINode | None, new: t.CSINode) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return queue_if(before != after)


def _after_driver_update(pod: PodInfo, old: t.CSIDriver, new: t.CSIDriver) -> Hint:
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return Hint.SKIP
    drivers = (volume.csi.driver for volume in pod.pod.spec.volumes if volume.csi is not None)
    return queue_if(new.metadata.name in drivers)


def _after_capacity_change(pod: PodInfo, old: t.CSIStorageCapacity | None, new: t.CSIStorageCapacity) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = _volume_limit(old), _volume_limit(new)
    return queue_if(after is not None and (before is None or after > before))


def _volume_limit(capacity: t.CSIStorageCapacity) -> int | None:
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if limit is None else value(parse_quantity(limit))
