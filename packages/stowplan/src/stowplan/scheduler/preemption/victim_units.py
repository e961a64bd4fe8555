"""The units in which a single pod evicts others, since 1.37: pods, or the groups that are only evicted as a whole.

A pod of a group resists with the priority of its PodGroup. What a unit has in common is a column over the pods' slots,
so that all nodes are handled together, as without groups. Whether a node has room depends on the unit's pods on that
node; its pods on other nodes are evicted with them, and count for budgets and in the choice of a node.

Without pods of groups on nodes there are no units, and pods are sorted as the reference's unstable algorithm would
(`victims`); equally important units are in the order of their first pods.

Upstream: pkg/scheduler/framework/preemption/types.go, util.go (MoreImportantVictim).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.group_trees import is_composite
from stowplan.scheduler.cluster.state import ClusterState


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
