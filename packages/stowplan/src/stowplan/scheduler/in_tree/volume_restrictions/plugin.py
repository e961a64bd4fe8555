"""Reject nodes where a disk or ReadWriteOncePod claim is already in use.

There are two rules. Inline disks (GCE PD, AWS EBS, iSCSI, RBD) must not have conflicting mounts on one node; the
cluster's disk index has the rows of a disk. A claim with access mode ReadWriteOncePod can be used by one pod in the
cluster: while another pod uses it, every node is rejected, unless preemption removes that pod. In preemption's dry run
each node is independent, so the number of users is one value for the cluster plus a difference per row.

Upstream: pkg/scheduler/framework/plugins/volumerestrictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError
from stowplan.scheduler.framework.declarations import Reads, SignPlugin
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.events import NODE, PVC, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PodExtensions,
    PreFilterPlugin,
    PreFilterResult,
)
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.volume_claims import CLAIMS_OF_POD, names_claim, same_namespace
from stowplan.scheduler.in_tree.volume_restrictions.declaration import DECLARATION

DISK_CONFLICT = Reason("DiskConflict", "node(s) had no available disk")
CLAIM_IN_USE = Reason(
    "ReadWriteOncePodClaimInUse",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
CLAIM_MISSING = Reason("ClaimNotFound", 'persistentvolumeclaim "{claim}" not found')
PRE_FILTER_STATE = "PreFilterVolumeRestrictions"

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class _ClaimUse(PlainStruct):
    #: The pod's ReadWriteOncePod claims.
    claims: frozenset[str]
    #: How many of them are in use.
    conflicts: int
    #: Change of that number per table row in hypothetical states; None if there is none.
    shifted: Ints | None = None

    def clone(self) -> _ClaimUse:
        return _ClaimUse(self.claims, self.conflicts, None if self.shifted is None else self.shifted.copy())


class VolumeRestrictions(PreFilterPlugin, FilterPlugin, PodExtensions, SignPlugin, EnqueueExtensions):
    declaration = DECLARATION
    # Disks depend on the node's own pods, but claims on pods anywhere and on claim objects. So the plugin runs in every
    # cycle, and need not declare its objects.
    reads = Reads.ANYTHING

    def ignores(self, shape: PodShape) -> bool:
        return not shape.claim_names and not shape.disks

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        shape = pod.shape
        if self.ignores(shape):
            return SKIP
        lonely = set()
        for name in shape.claim_names:
            claim = self._claim(shape, name)
            if claim is None:
                return unresolvable(CLAIM_MISSING.of(claim=name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                lonely.add(name)
        users = nodes.state.claim_users
        conflicts = sum(users[f"{shape.namespace}/{name}"] > 0 for name in lonely)
        if not shape.disks and not conflicts:
            return SKIP
        state.write(PRE_FILTER_STATE, _ClaimUse(frozenset(lonely), conflicts))
        return None

    def _claim(self, shape: PodShape, name: str) -> PersistentVolumeClaim | None:
        return self.handle.cluster.objects.get(PersistentVolumeClaim, f"{shape.namespace}/{name}")

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """Names of ReadWriteOncePod and missing claims; others do not matter here."""
        shape = pod.shape
        if not shape.claim_names:
            return {}
        claims = ((name, self._claim(shape, name)) for name in shape.claim_names)
        return {
            "claims": tuple(
                name for name, claim in claims if claim is None or READ_WRITE_ONCE_POD in claim.spec.access_modes
            )
        }

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        use = _read(state)
        if isinstance(use, Status):
            return use
        # Parity: the other pod's namespace is not compared, so an equal name elsewhere counts, too.
        amounts = shift.amounts(lambda shape: _mentions(shape, use.claims)) if use.claims else None
        if amounts is not None:
            if use.shifted is None:
                use.shifted = np.zeros(self.handle.cluster.table.n, np.int64)
            use.shifted[shift.rows] += amounts
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        use = _read(state)
        if isinstance(use, Status):
            return use
        disks = pod.shape.disks
        on_disks = nodes.disk_conflicts(disks) if disks else np.zeros(len(nodes), np.bool_)
        if use.shifted is None:
            on_claims = np.full(len(nodes), use.conflicts > 0, np.bool_)
        else:
            on_claims = nodes.take(use.shifted) + use.conflicts > 0
        mask = on_disks | on_claims
        return Rejections(mask, lambda: _entries(on_disks, on_claims)) if mask.any() else None

    def lonely_claims(self, pod: PodInfo) -> list[str]:
        """The pod's ReadWriteOncePod claims."""
        claims = ((name, self._claim(pod.shape, name)) for name in pod.shape.claim_names)
        return [name for name, claim in claims if claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        return (
            on(pods.assigned, Action.Delete, self._after_pod_deletion, by_shape=True),
            on(NODE, Action.Add),
            on(PVC, Action.Add, _after_claim_added, by_shape=True, named=CLAIMS_OF_POD),
        )

    def _after_pod_deletion(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        # Parity: a disk released by a pod of another namespace is not noticed.
        if not same_namespace(pod, old):
            return Hint.SKIP
        gone = self.handle.pod_info(old).shape
        if any(wanted.conflicts(held) for wanted in pod.shape.disks for held in gone.disks):
            return Hint.QUEUE
        return queue_if(not set(pod.shape.claim_names).isdisjoint(gone.claim_names))


def _read(state: CycleState) -> _ClaimUse | Status:
    try:
        use: _ClaimUse = state.read(PRE_FILTER_STATE)
    except NotFoundError:
        return error(f'cannot read "{PRE_FILTER_STATE}" from cycleState')
    return use


def _mentions(shape: PodShape, claims: frozenset[str]) -> int:
    """The number of a pod's volumes that name one of the claims."""
    return sum(name in claims for name in shape.claim_names)


def _entries(on_disks: Mask, on_claims: Mask) -> tuple[Entry, ...]:
    return (
        Entry(on_disks, Code.Unschedulable, DISK_CONFLICT),
        Entry(on_claims & ~on_disks, Code.Unschedulable, CLAIM_IN_USE),
    )


def _after_claim_added(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    return queue_if(names_claim(pod, new))
