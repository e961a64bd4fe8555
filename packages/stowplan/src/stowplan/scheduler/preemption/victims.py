"""Potential victims, by importance, and the units in which they are evicted.

The reference sorts a node's pods with an unstable algorithm, up to twice. That decides which of two equally important
pods is evicted, so it is reproduced here (`go_sort`). Where it makes no difference, all nodes are sorted in one step.

Since 1.37, a single pod evicts units: pods, or the groups that are only evicted as a whole. A pod of a group resists
with the priority of its PodGroup. What a unit has in common is a column over the pods' slots, so that all nodes are
handled together, as without groups. Whether a node has room depends on the unit's pods on that node; its pods on other
nodes are evicted with them, and count for budgets and in the choice of a node. Without pods of groups on nodes there
are no units; equally important units are in the order of their first pods.

Upstream: pkg/scheduler/framework/preemption/types.go, util.go (MoreImportantVictim).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask, Rows
from stowplan.scheduler.cluster.pod_groups import is_composite
from stowplan.scheduler.cluster.pod_info import NOT_STARTED, PodShape
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.preemption.go_sort import INSERTION_LIMIT, go_sort


def lower_priority_pods(pods: PodTable, priority: int, potential: Mask, *, of_pods: Ints | None = None) -> Ints:
    """Slots of the pods that may be evicted. `of_pods`: the priorities with which they resist; None: their own."""
    rows = pods.row[: pods.n]
    lower = np.flatnonzero(((pods.priority[: pods.n] if of_pods is None else of_pods) < priority) & (rows >= 0))
    found: Ints = lower[potential[rows[lower]]]
    return found


class PodsOnNodes(PlainStruct):
    """Pods with the rows of their nodes. What depends on their shapes is computed once for each of these."""

    rows: Rows
    priorities: Ints
    shapes: list[PodShape]
    #: Index into `shapes`, per pod.
    shape_index: Codes

    @classmethod
    def of_slots(cls, pods: PodTable, slots: Ints) -> PodsOnNodes:
        rows, priorities = pods.row[slots].astype(np.intp), pods.priority[slots]
        shift = PodShift.of_slots(pods, rows, slots, 1)
        return cls(rows, priorities, shift.shapes, shift.shape_index)

    def at(self, index: Rows) -> PodsOnNodes:
        """Some of them."""
        return PodsOnNodes(self.rows[index], self.priorities[index], self.shapes, self.shape_index[index])


class Importance:
    """Sorts slots of the pod table as the reference sorts pods."""

    def __init__(self, pods: PodTable) -> None:
        self.pods = pods

    def sort(self, slots: Ints, *, came: Ints | None = None) -> Ints:
        """Sort by node: higher priority first, then earlier start, then the order in which they `came`.

        By default that is the node's own order.
        """
        p = self.pods
        at = p.order
        if came is not None:
            at = np.zeros(len(p.order), np.int64)
            at[slots] = came
        everywhere = np.ones(len(slots), np.bool_)
        ties = self._ties(slots, at[slots], everywhere)
        order = np.lexsort((ties, p.start_time[slots], -p.priority[slots], p.row[slots]))
        return self._shuffle_equals(
            slots[order], p.row[slots[order]], everywhere, lambda of_node: of_node[np.argsort(at[of_node])]
        )

    def ascending(self, slots: Ints) -> Ints:
        """Sort by node, least important first, by "not more important": equal pods change places."""
        p = self.pods
        everywhere = np.ones(len(slots), np.bool_)
        ties = -self._ties(slots, p.order[slots], everywhere)
        order = np.lexsort((ties, -p.start_time[slots], p.priority[slots], p.row[slots]))
        return self._shuffle_equals(
            slots[order],
            p.row[slots[order]],
            everywhere,
            lambda of_node: of_node[np.argsort(p.order[of_node])],
            less=lambda a, b: not self.more_important(a, b),
        )

    def _ties(self, slots: Ints, came: Ints, sorted_here: Mask) -> Ints:
        """The tie-breaker of a short list: earlier position first; later first for pods that have not started.

        Parity: for a missing start time, the reference uses the current time of each comparison. When it inserts a pod,
        it reads the clock for that pod first, so that pod appears older than those that are already there.
        """
        not_started = self.pods.start_time[slots] == NOT_STARTED
        return np.where(not_started & sorted_here, -came, came)

    def _shuffle_equals(
        self,
        slots: Ints,
        nodes: Ints,
        sorted_here: Mask,
        unsorted: Callable[[Ints], Ints],
        *,
        less: Callable[[int, int], bool] | None = None,
    ) -> Ints:
        """Order a node's equally important pods as the reference's unstable sort would.

        `nodes` is ascending; `unsorted` is the order in which a node's pods entered that sort.
        """
        p = self.pods
        same = (np.diff(nodes) == 0) & (np.diff(p.priority[slots]) == 0) & (np.diff(p.start_time[slots]) == 0)
        found = np.flatnonzero(np.bincount(nodes[1:][same & sorted_here[1:]]))
        begins, ends = np.searchsorted(nodes, found), np.searchsorted(nodes, found, side="right")
        # Short lists are sorted by a stable algorithm.
        long = ends - begins > INSERTION_LIMIT
        for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
            of_node: list[int] = unsorted(slots[begin:end]).tolist()
            go_sort(of_node, less or self.more_important)
            slots[begin:end] = of_node
        return slots

    def more_important(self, a: int, b: int) -> bool:
        """The reference's comparison of two pods; see `_ties`."""
        priority, start_time = self.pods.priority, self.pods.start_time
        if priority[a] != priority[b]:
            return bool(priority[a] > priority[b])
        return bool(start_time[a] < start_time[b] or start_time[a] == start_time[b] == NOT_STARTED)

    def of_victims(
        self,
        slots: Ints,
        position: Rows,
        victims: Mask,
        violating: Mask,
    ) -> Ints:
        """The victims' slots, node by node, most important first.

        `slots` are all pods that could be evicted; `position` has their nodes, ascending.

        Parity: if only some evictions violate a budget, the victims are sorted again, starting from the order in which
        they were judged.
        """
        counts = np.bincount(position)
        broken = np.bincount(position[violating], minlength=len(counts))
        slots, position = slots[victims], position[victims]
        again = ((broken > 0) & (broken < counts))[position]
        if not again.any():
            return slots
        p = self.pods
        judged = np.lexsort((~violating[victims], position))
        judged_at = np.empty(len(slots), np.int64)
        judged_at[judged] = np.arange(len(slots))
        ties = self._ties(slots, judged_at, again)
        order = np.lexsort((ties, p.start_time[slots], -p.priority[slots], position))
        came = dict(zip(slots.tolist(), judged_at.tolist(), strict=True))
        return self._shuffle_equals(
            slots[order],
            position[order],
            again,
            lambda of_node: np.array(sorted(of_node.tolist(), key=came.__getitem__)),
        )


class VictimUnits:
    """Columns over slots: what each pod's unit has in common."""

    def __init__(self, cluster: ClusterState) -> None:
        pods = cluster.pods
        self._order = pods.order
        #: The slot of the unit's first pod.
        self.unit: Ints = np.arange(pods.n)
        self.priority: Ints = pods.priority[: pods.n].copy()
        self._start: Ints = pods.start_time[: pods.n].copy()
        #: The number of its pods; 0 for a pod without a group, which is less important than all that have one; more
        #: than the number of all pods for a composite group, which is more important than all PodGroups.
        self._rank: Ints = np.zeros(pods.n, np.int64)
        #: First slot -> all slots, for units of several pods.
        self._members: dict[int, Ints] = {}
        trees, together = cluster.group_trees, defaultdict[str, list[int]](list)
        for key, placed in cluster.pod_groups.on_nodes():
            slots = [info.slot for info in placed]
            self._rank[slots] = 1
            if (priority := trees.priority(key)) is not None:
                self.priority[slots] = priority
            if whole := trees.disrupted_with(key):
                together[whole] += slots
        for whole, of_unit in together.items():
            members = np.array(of_unit, np.int64)
            self._rank[members] = len(members) + (pods.n if is_composite(whole) else 0)
            self._join(members)

    def _join(self, slots: Ints) -> None:
        """Make pods one unit."""
        if len(slots) == 1:
            return
        slots = slots[np.argsort(self._order[slots])]
        self.unit[slots] = slots[0]
        self._start[slots] = self._start[slots].min()
        self._members[int(slots[0])] = slots

    def sort(self, slots: Ints, rows: Ints) -> Ints:
        """Sort by node, then the most important unit first; the pods of a unit are adjacent."""
        came = self._order[self.unit[slots]]
        keys = (self._order[slots], came, self._start[slots], -self._rank[slots], -self.priority[slots], rows)
        return slots[np.lexsort(keys)]

    def pods_of(self, slot: int) -> Ints:
        """All pods of a pod's unit, on any node."""
        found = self._members.get(int(self.unit[slot]))
        return np.array([slot], np.int64) if found is None else found


def units_of_pods(cluster: ClusterState, features: FeatureGates) -> VictimUnits | None:
    """The units; None if each is a single pod without a group."""
    if features.emulated_version < V1_37 or not features.enabled("GenericWorkload"):
        return None
    return VictimUnits(cluster) if cluster.pod_groups.any_on_nodes else None
