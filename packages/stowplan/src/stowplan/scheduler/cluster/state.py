"""The scheduler's cluster state: one owner, one writer, no locks.

`ClusterState` accepts nodes, pods and other objects in any order and keeps every column, counter and index up to date.
The node of a pod may be unknown: the pod is then stored without being counted until the node is added, and likewise
after its node was removed. `assume` places a pod that is not bound yet; `add_pod` with the bound object confirms it,
and `forget` undoes it. Everything can be tried in a `transaction`.

Upstream: pkg/scheduler/backend/cache.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from msgspec.structs import replace

from stowplan.scheduler.cluster.assumed_objects import AssumedObjects
from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.cluster.columns import settle_allocator
from stowplan.scheduler.cluster.disks import DiskIndex
from stowplan.scheduler.cluster.in_flight import InFlightObjects
from stowplan.scheduler.cluster.many_pods import count_off, count_on
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.pending_pods import PendingPods
from stowplan.scheduler.cluster.placements import PlacementLog, Placements
from stowplan.scheduler.cluster.pod_groups import PodGroups
from stowplan.scheduler.cluster.pod_info import (
    PodInfo,
    PodShape,
    PodTemplate,
    claims_key,
    group_key,
    is_copy,
    shape_key,
    template_key,
)
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.ports import UsedPorts
from stowplan.scheduler.cluster.terms import HeldCounts, MatchCounts
from stowplan.scheduler.cluster.transaction import Transaction, Transactions
from stowplan.scheduler.cluster.volumes import MountedVolumes, volume_uses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import numpy.typing as npt

    from stowplan.kube.api.types import Node, Pod

#: Number of shapes kept without placed pods, so that later equal pods find them.
_IDLE_SHAPES = 4096

#: Number of specs cached by identity.
_KEPT_SPECS = 512

#: Memo key for a shape's resource vector.
_VECTOR = "ClusterState.vector"


class ClusterState:
    """Nodes, placed pods and lookup objects, with everything derived from them."""

    def __init__(self) -> None:
        settle_allocator()
        self.table = NodeTable()
        self.pods = PodTable()
        self.matches = MatchCounts(self.table.capacity)
        self.held = HeldCounts(self.table.capacity)
        self.ports = UsedPorts()
        self.disks = DiskIndex()
        self.volumes = MountedVolumes()
        self.objects = ObjectStore()
        #: The lookup objects, with the pending writes of single-request decisions.
        self.assumed = AssumedObjects(self.objects)
        #: The lookup objects, with the pending writes of decisions that take several requests.
        self.in_flight = InFlightObjects(self.objects)
        self.nominator = Nominator()
        self.pending = PendingPods()
        self.pod_groups = PodGroups(self.pending)
        #: Rows whose pods changed, in order; read by reuse.
        self.changes: ChangeLog[int] = ChangeLog()
        #: Pods on each row, in the node's order.
        self.row_pods: list[list[PodInfo]] = []
        #: "namespace/claim" -> number of pods on known nodes that mount it.
        self.claim_users: Counter[str] = Counter()
        self._placed: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        #: Whether resources allocated by claims count for pods (DRANodeAllocatableResources); set before the first pod.
        self.counts_claims = False
        self._ghosts: dict[str, list[PodInfo]] = {}
        self._shapes: dict[bytes, PodShape] = {}
        self._idle: dict[bytes, PodShape] = {}
        #: The pod that was compiled last; the same pod is often compiled several times in a row.
        self._compiled_last: tuple[Pod | None, PodShape | None] = None, None
        #: Identity of a spec -> the last pod with it, and its shape.
        self._specs: dict[int, tuple[Pod, PodShape]] = {}
        #: Templates live as long as a shape (or an evaluation) refers to them.
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._shape_ids = 0
        self._free_shape_ids: list[int] = []
        self._vectors: dict[int, npt.NDArray[np.int64]] = {}
        #: Set that collects the UIDs of changed pods; None if nobody follows.
        self._touched: set[str] | None = None
        #: The undo log; None while no transaction is open.
        self._log: PlacementLog | None = None
        self.nominator.compile = self.pending.compile = self.pod_info
        #: Owners of related state register here to have it restored by transactions.
        self.transactions = Transactions()
        self.transactions.register("nodes and pods", Placements(self))
        self.transactions.register("objects", self.objects)
        self.transactions.register("assumed objects", self.assumed)
        self.transactions.register("objects in flight", self.in_flight)
        self.transactions.register("nominations", self.nominator)
        self.transactions.register("pending pods", self.pending)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node, or update a known one."""
        row = self.table.row_of.get(node.metadata.name)
        if self._log is not None:
            self._log.adding_node(node)
        if row is not None:
            if self.table.update(row, node):
                self._forget_sums()
            return
        row = self.table.add(node)
        self.fit_to_table()
        self._forget_sums()
        pods = self._ghosts.pop(node.metadata.name, [])
        self.row_pods[row] = pods
        count_on(self, {row: pods})
        if self._log is not None:
            self._log.added_node(node, row)

    update_node = add_node

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay as pods of an unknown node. No-op if there is no such node."""
        self.remove_nodes([name])

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes as `remove_node` does."""
        rows = {name: row for name in names if (row := self.table.row_of.get(name)) is not None}
        if not rows:
            return
        if self._log is not None:
            self._log.removing_nodes(rows)
        count_off(self, [info for row in rows.values() for info in self.row_pods[row]])
        for name, row in rows.items():
            if self.row_pods[row]:
                self._ghosts[name] = self.row_pods[row]
            self.row_pods[row] = []
            self.table.remove(row)
        self._forget_sums()

    def _forget_sums(self) -> None:
        self.matches.forget_sums()
        self.held.forget_sums()

    def fit_to_table(self) -> None:
        """Grow everything with per-row columns along with the table."""
        while len(self.row_pods) < self.table.n:
            self.row_pods.append([])
        if self.matches.counts.shape[1] < self.table.capacity:
            self.matches.grow(self.table.capacity)
            self.held.grow(self.table.capacity)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pod_info(self, pod: Pod) -> PodInfo:
        """Compile the pod; equal pods share their shape."""
        last, shape = self._compiled_last
        if last is pod and shape is not None and self._shapes.get(shape.key) is shape:
            return PodInfo(pod, shape)
        shape = self._shape_of_spec(pod)
        self._compiled_last = pod, shape
        return PodInfo(pod, shape)

    def expect(self, info: PodInfo) -> None:
        """The pod to be compiled next is this one."""
        self._compiled_last = info.pod, info.shape

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
        self._specs[id(pod.spec)] = pod, shape
        return shape

    def _shape_of(self, pod: Pod) -> PodShape:
        of_template = template_key(pod)
        by_claims = self.counts_claims and bool(pod.status.node_allocatable_resource_claim_statuses)
        if by_claims:
            of_template += claims_key(pod)
        key = shape_key(pod, of_template)
        shape = self._shapes.get(key)
        if shape is None:
            template = self._templates.get(of_template)
            if template is None:
                template = self._templates[of_template] = PodTemplate(of_template)
            shape = PodShape(pod, key, -1, template)
            shape.counts_claims = by_claims
            self._shapes[key] = shape
            self._rest(shape)
        return shape

    def placed(self, uid: str) -> PodInfo | None:
        return self._placed.get(uid)

    def follow(self, touched: set[str] | None) -> None:
        """Add the UIDs of added, changed and deleted pods to this set from now on; None stops it.

        Undone changes may be included: the set says which pods to check, not what happened to them.
        """
        self._touched = self.pending.touched = touched

    def newest(self, uid: str) -> Pod | None:
        """The pod as last reported by the API server, placed or not; None if it is gone."""
        info = self.pending.by_uid(uid) or self._placed.get(uid)
        return None if info is None else info.pod

    def placed_pods(self) -> list[PodInfo]:
        """In the order of their placement."""
        return self.pods.in_order()

    def everything(self) -> list[Any]:
        """All objects; pods on nodes, assumed ones too, with their node."""
        nodes = [node for node in self.table.nodes if node is not None]
        placed = (
            replace(info.pod, spec=replace(info.pod.spec, node_name=info.node_name)) for info in self.placed_pods()
        )
        return [*nodes, *self.objects.dump(), *placed, *(info.pod for info in self.pending.values())]

    def sizes(self) -> dict[str, int]:
        """The number of nodes (including unknown ones that have pods), of placed pods, and of assumed pods."""
        return {
            "nodes": self.table.count + len(self._ghosts),
            "pods": len(self._placed),
            "assumed_pods": len(self._assumed),
        }

    @property
    def assumed_uids(self) -> Collection[str]:
        return self._assumed

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def add_pod(self, pod: Pod, *, shape: PodShape | None = None) -> PodInfo:
        """Add a bound pod: new, the confirmation of an assumed one, or changed.

        `shape`: the pod's shape, if already known.
        """
        old = self._placed.get(pod.metadata.uid)
        if old is not None and is_copy(pod, old.pod):
            if _stays(pod, old):
                self.nominator.delete(old.uid)
                self.pending.remove(old.key)
                self._stop_assuming(old.uid)
                return self._renew(old, pod)
            info = PodInfo(pod, old.shape)
        else:
            info = self.pod_info(pod) if shape is None else PodInfo(pod, shape)
        # Whatever node it was nominated to, it is bound now.
        self.nominator.delete(info.uid)
        self.pending.remove(info.key)
        old = self._placed.get(info.uid)
        if old is not None:
            return self._replace(old, info)
        self._place(info, pod.spec.node_name)
        return info

    update_pod = add_pod

    def _replace(self, old: PodInfo, new: PodInfo) -> PodInfo:
        self._stop_assuming(old.uid)
        if old.shape is new.shape and _stays(new.pod, old):
            return self._renew(old, new.pod)
        self._take_off(old)
        self._place(new, new.pod.spec.node_name)
        return new

    def _renew(self, info: PodInfo, pod: Pod) -> PodInfo:
        """Replace a placed pod by another version that counts the same."""
        if self._log is not None:
            self._log.replacing(info)
        if self._touched is not None:
            self._touched.add(info.uid)
        info.pod = pod
        self._list_last(info)
        return info

    def _stop_assuming(self, uid: str) -> None:
        if self._log is not None:
            self._log.assuming(uid)
        self._assumed.discard(uid)

    def remove_pod(self, uid: str) -> None:
        """Remove a deleted pod. No-op if unknown."""
        info = self._placed.get(uid)
        if info is not None:
            self._stop_assuming(uid)
            self._take_off(info)

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Count the pod on the node before it is bound in the API server."""
        if info.uid in self._placed:
            raise ValueError(f"pod {info.uid}({info.key}) is in the cache, so can't be assumed")
        self.nominator.delete(info.uid)
        if self._log is not None:
            self._log.assuming(info.uid)
        self._assumed.add(info.uid)
        self._place(info, node_name)

    def forget(self, info: PodInfo) -> None:
        """Undo `assume`."""
        if info.uid not in self._placed:
            return
        if info.uid not in self._assumed:
            raise ValueError(f"pod {info.uid}({info.key}) wasn't assumed so cannot be forgotten")
        self._stop_assuming(info.uid)
        self._take_off(self._placed[info.uid])

    def _place(self, info: PodInfo, node_name: str) -> None:
        self._attach(info, node_name, self.table.row_of.get(node_name, -1))
        if self._log is not None:
            self._log.attached(info)

    def _take_off(self, info: PodInfo) -> None:
        if self._log is not None:
            self._log.detaching(info)
        self._detach(info)

    def _attach(self, info: PodInfo, node_name: str, row: int) -> None:
        """Append a pod to a node's pods; row -1 for an unknown node."""
        if self._touched is not None:
            self._touched.add(info.uid)
        self._hold(info.shape)
        info.node_name, info.row = node_name, row
        info.slot = self.pods.add(info, row)
        self._placed[info.uid] = info
        if info.pod.spec.scheduling_group is not None:
            self.pod_groups.attached(info)
        if row < 0:
            self._ghosts.setdefault(node_name, []).append(info)
        else:
            self._add_to_counters(info, row, 1)
            self.row_pods[row].append(info)

    def _list_of(self, info: PodInfo) -> list[PodInfo]:
        """The list of its node's pods."""
        return self.row_pods[info.row] if info.row >= 0 else self._ghosts[info.node_name]

    def _unlist(self, info: PodInfo, pods: list[PodInfo]) -> None:
        """Remove the pod from its node's list."""
        position = pods.index(info)
        # Parity: removing a pod moves the node's last pod to its position.
        last = pods.pop()
        if last is not info:
            pods[position] = last
            self.pods.order[last.slot] = self.pods.order[info.slot]

    def _list_last(self, info: PodInfo) -> None:
        """Move the pod to the end of its node's list.

        Parity: any update of a pod removes it from the list and appends it again, even if nothing relevant changed.
        """
        if self._log is not None:
            self._log.listing_last(info)
        pods = self._list_of(info)
        self._unlist(info, pods)
        pods.append(info)
        self.pods.place_last(info.slot)

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
            del self._ghosts[info.node_name]
        self._forget_place(info)

    def _forget_place(self, info: PodInfo) -> None:
        """The pod is on no node's list, and counted nowhere."""
        self.pods.remove(info.slot)
        del self._placed[info.uid]
        if info.pod.spec.scheduling_group is not None:
            self.pod_groups.detached(info)
        self._release(info.shape)
        info.slot, info.row, info.node_name = -1, -1, ""

    def _add_to_counters(self, info: PodInfo, row: int, sign: int) -> None:
        """Add a pod to, or remove it from, all per-row sums."""
        shape, table = info.shape, self.table
        vector = self._vectors[shape.id]
        cpu, memory = shape.non_zero_used
        if sign > 0:
            table.requested[: len(vector), row] += vector
        else:
            table.requested[: len(vector), row] -= vector
        table.non_zero_requested[0, row] += sign * cpu
        table.non_zero_requested[1, row] += sign * memory
        table.pod_count[row] += sign
        self._book_terms(info, row, sign)

    def _book_terms(self, info: PodInfo, row: int, sign: int) -> None:
        """Update everything that is counted by more than the row."""
        shape = info.shape
        self.matches.count(shape, row, sign, terminating=info.terminating)
        self.held.count(shape, row, sign)
        self._book_uses(info, row, sign)
        self.changes.append(row)

    def _book_uses(self, info: PodInfo, row: int, sign: int) -> None:
        """Update what is used by name: ports, disks, volumes and claims."""
        shape = info.shape
        if shape.host_ports:
            (self.ports.add if sign > 0 else self.ports.remove)(row, shape.host_ports)
        if shape.disks:
            (self.disks.add if sign > 0 else self.disks.remove)(row, shape.disks)
        if shape.volume_uses != ():
            self.volumes.book(row, volume_uses(info), sign)
        for claim in shape.claim_names:
            self._count_claim(f"{shape.namespace}/{claim}", sign)

    def _count_claim(self, key: str, sign: int) -> None:
        self.claim_users[key] += sign
        if not self.claim_users[key]:
            del self.claim_users[key]

    @property
    def version(self) -> tuple[int, ...]:
        """Differs after any change that decisions may depend on."""
        return (
            self.table.generation,
            self.objects.total_version,
            self.changes.position,
            self.pods.version,
            self.nominator.version,
        )

    def transaction(self) -> Transaction:
        """A context in which everything may be changed; leaving it undoes the changes unless they are committed."""
        return self.transactions.begin()

    def dump(self) -> dict[str, Any]:
        """Everything that decisions depend on, as plain data with unencoded API objects."""
        return self.transactions.dump()

    def load(self, dumped: dict[str, Any]) -> None:
        """Replace everything by a dump. Versions are new, so earlier results are not reused."""
        self.transactions.load(dumped)

    # -- shapes -------------------------------------------------------------------------------------------------------

    def _hold(self, shape: PodShape) -> None:
        """Add the first placed pod of a shape: it is included in all counts from now on."""
        if not shape.refs:
            known = self._shapes.setdefault(shape.key, shape)
            if known is shape:
                self._idle.pop(shape.key, None)
            self._register(shape)
        shape.refs += 1

    def _register(self, shape: PodShape) -> None:
        # May raise, so it comes before any change of state.
        vector, _ = self.vector_of(shape), shape.non_zero_used
        if self._free_shape_ids:
            shape.id = self._free_shape_ids.pop()
        else:
            shape.id, self._shape_ids = self._shape_ids, self._shape_ids + 1
        self._vectors[shape.id] = vector
        self.pods.add_shape(shape, vector)
        self.matches.add_shape(shape)
        self.held.add_shape(shape)

    def _release(self, shape: PodShape) -> None:
        shape.refs -= 1
        if shape.refs:
            return
        self.held.remove_shape(shape)
        self.matches.remove_shape(shape)
        del self._vectors[shape.id]
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

    def vector(self, requests: dict[str, int]) -> npt.NDArray[np.int64]:
        """Amounts by name as an array in the table's resource order."""
        indexes = [(self.table.resource(name), amount) for name, amount in requests.items()]
        vector = np.zeros(max([3, *(i + 1 for i, _ in indexes)]), np.int64)
        for i, amount in indexes:
            vector[i] = amount
        return vector

    def vector_of(self, shape: PodShape) -> npt.NDArray[np.int64]:
        """The resource vector of a pod of the shape; read-only."""
        # The index of a resource never changes.
        found: npt.NDArray[np.int64] | None = shape.template.memo(_VECTOR, None)
        if found is None:
            found = self.vector(shape.used)
            shape.template.remember(_VECTOR, None, found)
        return found

    # -- lookup objects -----------------------------------------------------------------------------------------------

    def put_object(self, obj: Any) -> None:
        self.objects.put(obj)

    def remove_object(self, obj: Any) -> None:
        self.objects.remove(obj)


def _stays(pod: Pod, info: PodInfo) -> bool:
    """Whether an update of a placed pod with the same shape leaves everything that counts unchanged."""
    return (
        pod.spec.node_name == info.node_name
        and (pod.metadata.deletion_timestamp is not None) is info.terminating
        and pod.status.start_time == info.pod.status.start_time
        and pod.metadata.name == info.pod.metadata.name
        # Immutable in the API, but an object without a UID may be another pod of that name.
        and group_key(pod) == group_key(info.pod)
    )
