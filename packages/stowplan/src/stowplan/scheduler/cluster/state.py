"""The scheduler's cluster state: one owner, one writer, no locks.

`ClusterState` accepts nodes, pods and other objects in any order and keeps every column, counter and index up to date.
The node of a pod may be unknown: the pod is then stored without being counted until the node is added, and likewise
after its node was removed. `assume` places a pod that is not bound yet; `add_pod` with the bound object confirms it,
and `forget` undoes it. Everything can be tried in a `transaction`.

Upstream: pkg/scheduler/backend/cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.types import Node, Pod
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion
from stowplan.scheduler.cluster.assumed_objects import AssumedObjects
from stowplan.scheduler.cluster.columns import settle_allocator
from stowplan.scheduler.cluster.declared_groups import DeclaredGroups, GroupKind, is_declared
from stowplan.scheduler.cluster.in_flight import InFlightObjects
from stowplan.scheduler.cluster.many_pods import attach_all, count_off, count_on
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.placements import Placements
from stowplan.scheduler.cluster.pod_groups import GroupTrees
from stowplan.scheduler.cluster.pod_info import (
    PodInfo,
    PodShape,
    is_copy,
)
from stowplan.scheduler.cluster.pods_on_nodes import PodsOnNodes
from stowplan.scheduler.cluster.transaction import Transaction, Transactions


class ClusterState(PodsOnNodes):
    """Nodes, placed pods and lookup objects, with everything derived from them."""

    def __init__(
        self,
        *,
        settled: Callable[[type[Any], str], None] | None = None,
        emulated_version: KubernetesVersion = DEFAULT_VERSION,
        counts_claims: bool = False,
        has_group_trees: bool = False,
        group_kinds: Mapping[str, GroupKind] | None = None,
        reads_pod_groups: bool = True,
    ) -> None:
        """`settled`: see `InFlightObjects`; None: nobody waits for it. `has_group_trees`: see `GroupTrees`.

        `group_kinds`: the custom resources that are groups of pods, by scheduler name; `reads_pod_groups`: whether
        PodGroups of the API are, too.
        """
        settle_allocator()
        super().__init__(emulated_version=emulated_version, counts_claims=counts_claims)
        self.objects = ObjectStore()
        self.group_trees = GroupTrees(self.objects, self.pod_groups, exist=has_group_trees)
        self.declared_groups = DeclaredGroups(
            self.objects, self.pod_groups, group_kinds or {}, alone=not reads_pod_groups
        )
        #: The lookup objects, with the pending writes of single-request decisions.
        self.assumed = AssumedObjects(self.objects)
        #: The lookup objects, with the pending writes of decisions that take several requests.
        self.in_flight = InFlightObjects(self.objects, settled)
        self.nominator = Nominator(self.pod_info)
        #: By name; see `Handle.shared`.
        self.kept_by_plugins: dict[str, Any] = {}
        #: Owners of related state register here to have it restored by transactions.
        self.transactions = Transactions()
        self._placements = Placements(self)
        self.transactions.register("nodes and pods", self._placements)
        self.transactions.register("objects", self.objects)
        self.transactions.register("assumed objects", self.assumed)
        self.transactions.register("objects in flight", self.in_flight)
        self.transactions.register("nominations", self.nominator)
        self.transactions.register("pending pods", self.pending)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node, or update a known one."""
        row = self.table.row_of.get(node.metadata.name)
        if self._placements.log is not None:
            # Before the table has it: what the row held is overwritten.
            self._placements.log.adding_node(node)
        if row is not None:
            if self.table.update(row, node):
                self._forget_sums()
            return
        row = self.table.add(node)
        self.fit_to_table()
        self._forget_sums()
        pods = self._on_unknown_nodes.pop(node.metadata.name, [])
        self.row_pods[row] = pods
        count_on(self, {row: pods})
        if self._placements.log is not None:
            self._placements.log.added_node(node, row)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay as pods of an unknown node. No-op if there is no such node."""
        self.remove_nodes([name])

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes as `remove_node` does."""
        rows = {name: row for name in names if (row := self.table.row_of.get(name)) is not None}
        if not rows:
            return
        if self._placements.log is not None:
            # Before anything changes: the arrays that are saved still have the nodes.
            self._placements.log.removing_nodes(rows)
        # Before the rows are freed: pods are uncounted by row.
        count_off(self, [info for row in rows.values() for info in self.row_pods[row]])
        for name, row in rows.items():
            if self.row_pods[row]:
                self._on_unknown_nodes[name] = self.row_pods[row]
            self.row_pods[row] = []
            self.table.remove(row)
        self._forget_sums()

    # -- pods ---------------------------------------------------------------------------------------------------------

    def follow(self, touched: set[str] | None) -> None:
        """Add the UIDs of added, changed and deleted pods to this set from now on; None stops it.

        Undone changes may be included: the set says which pods to check, not what happened to them.
        """
        self._touched = self.pending.touched = touched

    def newest(self, uid: str) -> Pod | None:
        """The pod as last reported by the API server, placed or not; None if it is gone."""
        info = self.pending.by_uid(uid) or self._placed.get(uid)
        return None if info is None else info.pod

    def everything(self) -> list[Any]:
        """All objects; pods on nodes, assumed ones too, with their node."""
        placed = map(_on_its_node, self.placed_pods())
        return [*self.all_but_pods(), *placed, *(info.pod for info in self.pending.values())]

    def all_but_pods(self) -> list[Any]:
        objects = (obj for obj in self.objects.dump() if not is_declared(obj))
        return [*(node for node in self.table.nodes if node is not None), *objects]

    def sizes(self) -> dict[str, int]:
        """The number of nodes (including unknown ones that have pods), of placed pods, and of assumed pods."""
        return {
            "nodes": self.table.count + len(self._on_unknown_nodes),
            "pods": len(self._placed),
            "assumed_pods": len(self._assumed),
        }

    @property
    def assumed_uids(self) -> Collection[str]:
        return self._assumed

    def add_pod(self, pod: Pod, *, shape: PodShape | None = None) -> PodInfo:
        """Add a bound pod: new, the confirmation of an assumed one, or changed.

        `shape`: the pod's shape, if already known.
        """
        old = self._placed.get(pod.metadata.uid)
        if old is not None and is_copy(pod, old.pod):
            # The most frequent update: our own binding, confirmed by the watch. Nothing that counts changes.
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

    def _replace(self, old: PodInfo, new: PodInfo) -> PodInfo:
        self._stop_assuming(old.uid)
        if old.shape is new.shape and _stays(new.pod, old):
            return self._renew(old, new.pod)
        # Off first: the counters know it by its old shape and row.
        self._take_off(old)
        self._place(new, new.pod.spec.node_name)
        return new

    def _renew(self, info: PodInfo, pod: Pod) -> PodInfo:
        """Replace a placed pod by another version that counts the same (`_stays`).

        It has no entry in `changes`, so results that are reused stay as they are. Plugins that declare what they read
        may therefore not depend on fields of placed pods that are neither in the shape nor compared by `_stays`, nor on
        the order of a node's pods.
        """
        if self._placements.log is not None:
            self._placements.log.replacing(info)
        if self._touched is not None:
            self._touched.add(info.uid)
        info.pod = pod
        self._list_last(info)
        return info

    def _stop_assuming(self, uid: str) -> None:
        if self._placements.log is not None:
            self._placements.log.assuming(uid)
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
        # Or its room would count twice.
        self.nominator.delete(info.uid)
        if self._placements.log is not None:
            self._placements.log.assuming(info.uid)
        self._assumed.add(info.uid)
        self._place(info, node_name)

    def forget(self, info: PodInfo) -> None:
        """Undo `assume`."""
        if info.uid not in self._placed:
            return
        if info.uid not in self._assumed:
            raise ValueError(f"pod {info.uid}({info.key}) wasn't assumed so cannot be forgotten")
        # What the cluster has under the UID, which may be another object than the caller's.
        self._stop_assuming(info.uid)
        self._take_off(self._placed[info.uid])

    def _place(self, info: PodInfo, node_name: str) -> None:
        # Logged afterwards: if it raises, nothing has to be undone.
        self._attach(info, node_name, self.table.row_of.get(node_name, -1))
        if self._placements.log is not None:
            self._placements.log.attached(info)

    def place_all(self, infos: Sequence[PodInfo], node_names: Iterable[str]) -> None:
        """Place pods that are neither placed nor pending on known nodes."""
        if not infos:
            return
        attach_all(self, infos, node_names)
        if self._placements.log is not None:
            self._placements.log.attached_all(infos)

    def place_copies(self, other: ClusterState) -> list[PodInfo]:
        """Place the placed pods of another state, none of which is known here, where they are there, in that order."""
        shapes: dict[PodShape, PodShape] = {}
        # Otherwise pods of one shape there may have several here.
        alike = other.counts_claims or not self.counts_claims
        found: list[PodInfo] = []
        for known, run in groupby(other.placed_pods(), key=lambda info: info.node_name in self.table.row_of):
            copies = []
            for info in run:
                pod = _on_its_node(info)
                shape = shapes.get(info.shape) if alike else None
                if shape is None:
                    shape = shapes[info.shape] = self.pod_info(pod).shape
                copies.append(PodInfo(pod, shape))
            if known:
                self.place_all(copies, [copy.pod.spec.node_name for copy in copies])
            else:
                for copy in copies:
                    self._place(copy, copy.pod.spec.node_name)
            found += copies
        return found

    def _take_off(self, info: PodInfo) -> None:
        if self._placements.log is not None:
            self._placements.log.detaching(info)
        self._detach(info)

    def _list_last(self, info: PodInfo) -> None:
        """Move the pod to the end of its node's list.

        Parity: any update of a pod removes it from the list and appends it again, even if nothing relevant changed.
        """
        if self._placements.log is not None:
            self._placements.log.listing_last(info)
        pods = self._list_of(info)
        # Most are last already: they were bound right after they were assumed.
        if pods[-1] is not info:
            self._unlist(info, pods)
            pods.append(info)
        self.pods.place_last(info.slot)

    @property
    def version(self) -> tuple[int, ...]:
        """Differs after any change that decisions may depend on.

        For those who waited, and need only that. Reuse follows the numbers one by one (`engine/evaluation/columns.py`).
        """
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

    # -- lookup objects -----------------------------------------------------------------------------------------------

    def put_object(self, obj: Any) -> None:
        self.objects.put(obj)

    def remove_object(self, obj: Any) -> None:
        self.objects.remove(obj)

    def follow_priority(self, pod: Pod, *, has_left: bool) -> None:
        """Let a declared group have the lowest priority of its pods, since this one came or has left."""
        if (group := self.declared_groups.with_lowest_priority(pod, has_left=has_left)) is not None:
            self.objects.put(group)


def _on_its_node(info: PodInfo) -> Pod:
    pod, name = info.pod, info.node_name
    return pod if pod.spec.node_name == name else replace(pod, spec=replace(pod.spec, node_name=name))


def _stays(pod: Pod, info: PodInfo) -> bool:
    """Whether an update of a placed pod with the same shape leaves everything that counts unchanged."""
    return (
        pod.spec.node_name == info.node_name
        and (pod.metadata.deletion_timestamp is not None) is info.terminating
        and pod.status.start_time == info.pod.status.start_time
        and pod.metadata.name == info.pod.metadata.name
        # Immutable in the API, but an object without a UID may be another pod of that name.
        and pod.spec.scheduling_group == info.pod.spec.scheduling_group
    )
