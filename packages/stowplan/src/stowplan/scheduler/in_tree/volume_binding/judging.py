"""Check a pod's claims on all nodes.

For bound claims: whether their volumes can be used on the node. For waiting claims: whether there is a free volume for
each of them, or one can be provisioned. Results are computed per distinct selector, size and class (`Volumes`,
`Provisioning`), and combined here per claim, with arrays over the rows.

Upstream: FindPodVolumes of volumebinding/binder.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import field

from stowplan.kube.api.types import CSINode, StorageClass
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectIndex, ObjectWatch
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.diagnosis import Entry
from stowplan.scheduler.framework.status import Code, Reason, Status, error
from stowplan.scheduler.in_tree.common.annotations import MIGRATED_PLUGINS
from stowplan.scheduler.in_tree.volume_binding.claims import BoundVolume, DelayedClaim, PodClaims
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets
from stowplan.scheduler.in_tree.volume_binding.provisioning import Provisioning, Room
from stowplan.scheduler.in_tree.volume_binding.volumes import NONE, Volumes

AFFINITY_MISMATCH = Reason("VolumeNodeAffinityMismatch", "node(s) didn't match PersistentVolume's node affinity")
NO_VOLUME = Reason("NoVolumeToBind", "node(s) didn't find available persistent volumes to bind")
NO_CAPACITY = Reason("NotEnoughStorage", "node(s) did not have enough free storage")
VOLUME_GONE = Reason("BoundVolumeMissing", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")

#: CSINodes by the in-tree plugins that are migrated there.
BY_MIGRATED_PLUGIN = ObjectIndex(
    "migrated plugin", lambda node: node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")
)


def migrated_nodes(plugin: str) -> ObjectDependency:
    return ObjectDependency.indexed(CSINode, BY_MIGRATED_PLUGIN, plugin)


class Provision(NamedTuple):
    """A claim for which volumes are provisioned on some rows."""

    rows: Mask
    #: None: capacity is not tracked.
    room: Room | None


class ClaimJudgement(PlainStruct):
    """The result for a pod's claims on all rows."""

    n: int
    #: Reason -> rejected rows.
    refused: dict[Reason, Mask] = field(default_factory=dict)
    #: Rows for which the check failed, and why.
    errors: list[tuple[Mask, Status]] = field(default_factory=list)
    #: Claim (index among the waiting ones) -> its volume on each row, `NONE` where there is none.
    matched: dict[int, Ints] = field(default_factory=dict)
    #: Claim -> where a volume is provisioned for it, in the order of provisioning.
    provisions: dict[int, Provision] = field(default_factory=dict)

    def refuse(self, reason: Reason, rows: Mask) -> None:
        if rows.any():
            known = self.refused.get(reason)
            self.refused[reason] = rows.copy() if known is None else known | rows

    def entries(self) -> Iterator[Entry]:
        """The rejections, in the reference's order of reasons."""
        for reason in (AFFINITY_MISMATCH, NO_VOLUME, NO_CAPACITY, VOLUME_GONE):
            if reason in self.refused:
                yield Entry(self.refused[reason], Code.UnschedulableAndUnresolvable, reason)


class Judge:
    def __init__(
        self, cluster: ClusterState, *, node_sets: NodeSets, volumes: Volumes, provisioning: Provisioning
    ) -> None:
        self._cluster = cluster
        self._node_sets = node_sets
        self._volumes = volumes
        self._provisioning = provisioning
        #: In-tree plugin -> the migrated rows, and what they were computed from.
        self._migrated: dict[str, tuple[ObjectWatch, int, Mask]] = {}

    def judge(self, claims: PodClaims) -> ClaimJudgement:
        """`Volumes` and `NodeSets` must be up to date."""
        found = ClaimJudgement(self._cluster.table.n)
        self._bound(claims.bound, found)
        if claims.delayed:
            self._delayed(claims.delayed, found)
        return found

    # -- bound claims -------------------------------------------------------------------------------------------------

    def _bound(self, volumes: tuple[BoundVolume, ...], found: ClaimJudgement) -> None:
        # A node is rejected for the first volume that it does not match.
        left = np.ones(found.n, np.bool_)
        for volume in volumes:
            if volume.missing:
                found.refuse(VOLUME_GONE, left)
                return
            fits = self._node_sets.mask(volume.affinity)
            if volume.plugin:
                migrated = self.migrated(volume.plugin)
                if volume.problem:
                    if (broken := left & migrated).any():
                        found.errors.append((broken, error(volume.problem)))
                        left = left & ~migrated
                else:
                    fits = np.where(migrated, self._node_sets.mask(volume.migrated), fits)
            found.refuse(AFFINITY_MISMATCH, left & ~fits)
            left = left & fits

    def migrated(self, plugin: str) -> Mask:
        """Rows whose CSINode lists the plugin as migrated."""
        table = self._cluster.table
        known = self._migrated.get(plugin)
        if known is not None and known[1] == table.generation and len(known[2]) == table.n and not known[0].changed():
            return known[2]
        watch = ObjectWatch(self._cluster.objects, [migrated_nodes(plugin)])
        mask = np.zeros(table.n, np.bool_)
        nodes = self._cluster.objects.indexed(CSINode, BY_MIGRATED_PLUGIN, plugin)
        mask[[row for node in nodes if (row := table.row_of.get(node.metadata.name)) is not None]] = True
        self._migrated[plugin] = watch, table.generation, mask
        return mask

    # -- waiting claims ------------------------------------------------------------------------------------------------

    def _delayed(self, claims: tuple[DelayedClaim, ...], found: ClaimJudgement) -> None:
        elsewhere = self._elsewhere(claims, found.n)
        left = np.ones(found.n, np.bool_)
        if elsewhere is not None:
            found.refuse(NO_VOLUME, elsewhere)
            left = ~elsewhere
        selected = [i for i, claim in enumerate(claims) if claim.selected_node is not None]
        wanting = [i for i, claim in enumerate(claims) if claim.selected_node is None]
        wanting.sort(key=lambda i: claims[i].wanted.size or 0)
        for place, i in enumerate(wanting):
            if claims[i].wanted.problem:
                found.errors.append((left, error(claims[i].wanted.problem)))
                return
            earlier = [found.matched[j] for j in wanting[:place]]
            found.matched[i] = self._matched(claims[i], earlier, found.n)
        for i in [*selected, *wanting]:
            rows = left & (found.matched[i] == NONE) if i in found.matched else left
            if rows.any():
                left = left & ~self._unprovisioned(claims[i], i, rows, found)

    def _elsewhere(self, claims: tuple[DelayedClaim, ...], n: int) -> Mask | None:
        """Rows other than the one for which a volume of some claim is being provisioned."""
        found = None
        for name in {claim.selected_node for claim in claims} - {None}:
            others = np.ones(n, np.bool_)
            row = self._cluster.table.row_of.get(name or "")
            if row is not None:
                others[row] = False
            found = others if found is None else found | others
        return found

    def _matched(self, claim: DelayedClaim, earlier: list[Ints], n: int) -> Ints:
        """The volume for a claim on each row, without those for earlier claims."""
        picked = np.full(n, NONE, np.int64)
        open_rows = np.ones(n, np.bool_)
        for id in claim.held:
            # If a volume is reserved for the claim, no other is considered, wherever it can be used.
            volume = self._volumes.known.get(id)
            if volume is None:
                continue
            free = open_rows & ~_taken(np.full(n, id, np.int64), earlier)
            picked[free & self._node_sets.mask(volume.affinity)] = id
            open_rows &= ~free
        if not open_rows.any():
            return picked
        for candidates in self._volumes.best(claim.wanted, len(earlier) + 1):
            usable = open_rows & (candidates != NONE) & ~_taken(candidates, earlier)
            picked[usable] = candidates[usable]
            open_rows &= ~usable
        return picked

    def _unprovisioned(self, claim: DelayedClaim, place: int, rows: Mask, found: ClaimJudgement) -> Mask:
        """Those of these rows on which no volume is provisioned for the claim."""
        name = claim.wanted.class_name
        storage_class = self._cluster.objects.get(StorageClass, name) if name else None
        if storage_class is None:
            found.errors.append((rows, error(f'failed to find storage class "{name}"')))
            return rows
        if not self._provisioning.makes(storage_class):
            found.refuse(NO_VOLUME, rows)
            return rows
        refused = np.zeros(found.n, np.bool_)
        admitted = self._provisioning.admitted(storage_class)
        if admitted is not None:
            refused = rows & ~admitted
            found.refuse(NO_VOLUME, refused)
        room = self._provisioning.room(storage_class, claim.wanted.size)
        if room is not None:
            full = rows & ~refused & (room.first == NONE)
            found.refuse(NO_CAPACITY, full)
            refused = refused | full
        found.provisions[place] = Provision(rows & ~refused, room)
        return refused


def _taken(candidates: Ints, earlier: list[Ints]) -> Mask:
    taken = np.zeros(len(candidates), np.bool_)
    for picked in earlier:
        taken |= picked == candidates
    return taken
