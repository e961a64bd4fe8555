"""Pods on nodes: where they are, what they share, and everything that is counted of them.

`ClusterState` decides what happens to nodes and pods; here each pod is put on a node and taken off again, with all
counters. Nothing of this is logged: transactions use it to undo.
"""

from __future__ import annotations

from collections import Counter
from weakref import WeakValueDictionary

import numpy as np

from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.cluster.disks import DiskIndex
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pending_pods import PendingPods
from stowplan.scheduler.cluster.pod_groups import PodGroups
from stowplan.scheduler.cluster.pod_indexes import IndexedPods, PodIndex, PodsByValue
from stowplan.scheduler.cluster.pod_info import (
    PodInfo,
    PodShape,
    PodTemplate,
    claims_key,
    is_copy,
    shape_key,
    template_key,
)
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.ports import UsedPorts
from stowplan.scheduler.cluster.terms import HeldCounts, MatchCounts
from stowplan.scheduler.cluster.volumes import MountedVolumes

#: Number of shapes kept without placed pods, so that later equal pods find them.
_IDLE_SHAPES = 4096

#: Number of specs cached by identity.
_KEPT_SPECS = 512

#: Memo key for a shape's resource vector.
_VECTOR = "ClusterState.vector"


class PodsOnNodes:
    """Nodes and the pods on them, with all counters."""

    def __init__(self, *, emulated_version: KubernetesVersion, counts_claims: bool) -> None:
        self.emulated_version = emulated_version
        self.table = NodeTable()
        self.pods = PodTable()
        self.matches = MatchCounts(self.table.capacity)
        self.held = HeldCounts(self.table.capacity)
        self.ports = UsedPorts()
        self.disks = DiskIndex()
        self.volumes = MountedVolumes()
        self.pending = PendingPods(self.pod_info)
        self.pod_groups = PodGroups(self.pending)
        #: Rows whose pods changed, in order; read by reuse.
        self.changes: ChangeLog[int] = ChangeLog()
        #: Pods on each row, in the node's order.
        self.row_pods: list[list[PodInfo]] = []
        #: "namespace/claim" -> number of pods on known nodes that mount it.
        self.claim_users: Counter[str] = Counter()
        self._placed: dict[str, PodInfo] = {}
        #: Those of plugins.
        self._indexes: dict[PodIndex, PodsByValue] = {}
        self._assumed: set[str] = set()
        #: Whether resources allocated by claims count for pods (DRANodeAllocatableResources).
        self.counts_claims = counts_claims
        self._on_unknown_nodes: dict[str, list[PodInfo]] = {}
        self._shapes: dict[bytes, PodShape] = {}
        self._idle: dict[bytes, PodShape] = {}
        #: The pod that was compiled last; the same pod is often compiled several times in a row.
        self._compiled_last: PodInfo | None = None
        #: Identity of a spec -> the last pod with it, and its shape.
        self._specs: dict[int, tuple[Pod, PodShape]] = {}
        #: Templates live as long as a shape (or an evaluation) refers to them.
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._shape_ids = 0
        self._free_shape_ids: list[int] = []
        #: What a pod of each shape with placed pods adds to the sums of its row.
        self._columns: dict[int, Ints] = {}
        #: Set that collects the UIDs of changed pods; None if nobody follows.
        self._touched: set[str] | None = None

    def fit_to_table(self) -> None:
        """Grow everything with per-row columns along with the table."""
        while len(self.row_pods) < self.table.n:
            self.row_pods.append([])
        if self.matches.counts.shape[1] < self.table.capacity:
            self.matches.grow(self.table.capacity)
            self.held.grow(self.table.capacity)

    def _forget_sums(self) -> None:
        self.matches.forget_sums()
        self.held.forget_sums()

    def placed(self, uid: str) -> PodInfo | None:
        return self._placed.get(uid)

    def placed_pods(self) -> list[PodInfo]:
        """In the order of their placement."""
        return self.pods.in_order()

    def pods_by(self, index: PodIndex) -> PodsByValue:
        """All pods by a value; kept up to date from the first call on."""
        found = self._indexes.get(index)
        if found is None:
            placed = IndexedPods(index, self._placed.values())
            found = self._indexes[index] = PodsByValue(placed, self.pending.indexed(index))
        return found

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def _attach(self, info: PodInfo, node_name: str, row: int) -> None:
        """Append a pod to a node's pods; row -1 for an unknown node."""
        if self._touched is not None:
            self._touched.add(info.uid)
        # First, as it may raise; after that nothing does.
        self._hold(info.shape)
        info.node_name, info.row = node_name, row
        info.slot = self.pods.add(info, row)
        self._placed[info.uid] = info
        if info.pod.spec.scheduling_group is not None:
            self.pod_groups.attached(info)
        self._index(info)
        if row < 0:
            self._on_unknown_nodes.setdefault(node_name, []).append(info)
        else:
            self._add_to_counters(info, row, 1)
            self.row_pods[row].append(info)

    def _index(self, info: PodInfo) -> None:
        for index in self._indexes.values():
            index.placed.add(info)

    def _list_of(self, info: PodInfo) -> list[PodInfo]:
        """The list of its node's pods."""
        return self.row_pods[info.row] if info.row >= 0 else self._on_unknown_nodes[info.node_name]

    def _unlist(self, info: PodInfo, pods: list[PodInfo]) -> None:
        """Remove the pod from its node's list."""
        position = pods.index(info)
        # Parity: removing a pod moves the node's last pod to its position.
        last = pods.pop()
        if last is not info:
            pods[position] = last
            self.pods.order[last.slot] = self.pods.order[info.slot]

    def _detach(self, info: PodInfo) -> None:
        """Remove the pod from its node."""
        if self._touched is not None:
            self._touched.add(info.uid)
        row = info.row
        pods = self._list_of(info)
        self._unlist(info, pods)
        if row >= 0:
            self._add_to_counters(info, row, -1)
        elif not pods:
            del self._on_unknown_nodes[info.node_name]
        self._forget_place(info)

    def _forget_place(self, info: PodInfo) -> None:
        """The pod is on no node's list, and counted nowhere."""
        self.pods.remove(info.slot)
        del self._placed[info.uid]
        if info.pod.spec.scheduling_group is not None:
            self.pod_groups.detached(info)
        for index in self._indexes.values():
            index.placed.discard(info)
        self._release(info.shape)
        info.slot, info.row, info.node_name = -1, -1, ""

    # -- counters ------------------------------------------------------------------------------------------------------

    def _add_to_counters(self, info: PodInfo, row: int, sign: int) -> None:
        """Add a pod to, or remove it from, all per-row sums."""
        self.table.use(row, self._columns[info.shape.id], sign)
        self._book_terms(info, row, sign)

    def _book_terms(self, info: PodInfo, row: int, sign: int) -> None:
        """Update everything that is counted by more than the row.

        Whatever changes a row's sums ends here (or in `many_pods`), because of the entry in `changes`: for results that
        are reused, a change without one did not happen.
        """
        shape = info.shape
        self.matches.count(shape, row, sign, terminating=info.terminating)
        self.held.count(shape, row, sign)
        self._book_uses(info, row, sign)
        self.changes.append(row)

    def _book_uses(self, info: PodInfo, row: int, sign: int) -> None:
        """Update what is used by name: ports, disks, volumes and claims."""
        shape = info.shape
        if shape.host_ports:
            if sign > 0:
                self.ports.add(row, shape.host_ports)
            else:
                self.ports.remove(row, shape.host_ports)
        if shape.disks:
            if sign > 0:
                self.disks.add(row, shape.disks)
            else:
                self.disks.remove(row, shape.disks)
        if shape.volume_uses != ():
            self.volumes.book(row, info.volume_uses, sign)
        for claim in shape.claim_names:
            self._count_claim(f"{shape.namespace}/{claim}", sign)

    def _count_claim(self, key: str, sign: int) -> None:
        self.claim_users[key] += sign
        if not self.claim_users[key]:
            del self.claim_users[key]

    # -- shapes --------------------------------------------------------------------------------------------------------

    def pod_info(self, pod: Pod) -> PodInfo:
        """Compile the pod; equal pods share their shape."""
        last = self._compiled_last
        if last is None or last.pod is not pod or self._shapes.get(last.shape.key) is not last.shape:
            last = self._compiled_last = PodInfo(pod, self._shape_of_spec(pod))
        elif last.node_name:
            # It has been placed, which changes it.
            last = self._compiled_last = PodInfo(pod, last.shape)
        return last

    def expect(self, info: PodInfo) -> None:
        """The pod to be compiled next is this one."""
        self._compiled_last = info

    def _shape_of_spec(self, pod: Pod) -> PodShape:
        """Pods created from a template may share the spec object, as in simulations."""
        known = self._specs.get(id(pod.spec))
        if known is not None:
            like, shape = known
            if like.spec is pod.spec and is_copy(pod, like) and self._shapes.get(shape.key) is shape:
                return shape
        shape = self._shape_of(pod)
        if len(self._specs) >= _KEPT_SPECS:
            self._specs.clear()
        # With the pod, which keeps its spec alive: otherwise another spec could have this identity.
        self._specs[id(pod.spec)] = pod, shape
        return shape

    def _shape_of(self, pod: Pod) -> PodShape:
        by_claims = self.counts_claims and bool(pod.status.node_allocatable_resource_claim_statuses)
        of_claims = claims_key(pod) if by_claims else b""
        key = shape_key(pod) + of_claims
        shape = self._shapes.get(key)
        if shape is None:
            of_template = template_key(pod) + of_claims
            template = self._templates.get(of_template)
            if template is None:
                template = self._templates[of_template] = PodTemplate(of_template)
            shape = PodShape(pod, key, -1, template, self.emulated_version)
            shape.counts_claims = by_claims
            self._shapes[key] = shape
            self._rest(shape)
        return shape

    def _hold(self, shape: PodShape) -> None:
        """Add the first placed pod of a shape: it is included in all counts from now on."""
        if not shape.refs:
            # A pod that was compiled long ago may have a shape that was dropped since, and another one have its key.
            known = self._shapes.setdefault(shape.key, shape)
            if known is shape:
                self._idle.pop(shape.key, None)
            self._register(shape)
        shape.refs += 1

    def _register(self, shape: PodShape) -> None:
        # May raise, so it comes before any change of state.
        vector = self.vector_of(shape)
        column = np.array((*shape.non_zero_used, 1, *vector), np.int64)
        if self._free_shape_ids:
            shape.id = self._free_shape_ids.pop()
        else:
            shape.id, self._shape_ids = self._shape_ids, self._shape_ids + 1
        self._columns[shape.id] = column
        self.pods.add_shape(shape, vector)
        self.matches.add_shape(shape)
        self.held.add_shape(shape)

    def _release(self, shape: PodShape) -> None:
        shape.refs -= 1
        if shape.refs:
            return
        self.held.remove_shape(shape)
        self.matches.remove_shape(shape)
        del self._columns[shape.id]
        # Last, when nothing is counted under it any more.
        self._free_shape_ids.append(shape.id)
        shape.id = -1
        if self._shapes.get(shape.key) is shape:
            self._rest(shape)

    def _rest(self, shape: PodShape) -> None:
        """Keep a shape without pods for a while, and drop the oldest such shape."""
        self._idle[shape.key] = shape
        if len(self._idle) > _IDLE_SHAPES:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._shapes[oldest]

    def vector(self, requests: dict[str, int]) -> Ints:
        """Amounts by name as an array in the table's resource order."""
        indexes = [(self.table.resource(name), amount) for name, amount in requests.items()]
        vector = np.zeros(max([3, *(i + 1 for i, _ in indexes)]), np.int64)
        for i, amount in indexes:
            vector[i] = amount
        return vector

    def vector_of(self, shape: PodShape) -> Ints:
        """The resource vector of a pod of the shape; read-only."""
        # The index of a resource never changes.
        found: Ints | None = shape.template.memo(_VECTOR, None)
        if found is None:
            found = self.vector(shape.used)
            shape.template.remember(_VECTOR, None, found)
        return found
