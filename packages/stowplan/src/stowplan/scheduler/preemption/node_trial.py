"""One node in a dry run, for plugins whose choice of victims depends on those chosen before.

Pods are taken off a hypothetical node and put back, one at a time. `dry_run` does the same for all nodes at once, where
the choice depends on each pod alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.runtime import nominated_pods as nominated
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.preemption.disruption_budgets import violating_pods
from stowplan.scheduler.preemption.go_sort import go_sort
from stowplan.scheduler.preemption.victims import Importance


class NodeTrial:
    """A node without some of its pods. Nothing outside is changed."""

    def __init__(self, framework: Framework, state: CycleState, pod: PodInfo, row: int) -> None:
        self._framework, self._state, self._pod = framework, state.clone(), pod
        self._cluster = framework.handle.cluster
        rows = np.array([row], np.intp)
        self._nodes = HypotheticalNodes(self._cluster, rows)
        self._arrivals = nominated.Arrivals(self._cluster, rows, nominated.nominated_ahead(self._cluster, pod))
        self._extended = framework.has_active_pod_extensions(state)
        self._listed = nominated.lists_pods(framework, state, pod)

    def remove(self, victim: PodInfo) -> Status | None:
        return self._move(victim, -1)

    def add(self, victim: PodInfo) -> Status | None:
        return self._move(victim, 1)

    def _move(self, victim: PodInfo, sign: int) -> Status | None:
        pods, slots, at = self._cluster.pods, np.array([victim.slot]), np.zeros(1, np.intp)
        shapes = pods.shape[slots]
        self._nodes.shift(at, pods.shape_requests[:, shapes], pods.shape_non_zero[:, shapes], sign)
        if self._listed:
            (self._nodes.add_pod if sign > 0 else self._nodes.remove_pod)(0, victim)
        if not self._extended:
            return None
        assert self._nodes.rows is not None
        shift = PodShift.of_slots(pods, self._nodes.rows, slots, sign)
        return self._framework.shift_pods(self._state, self._pod, shift, self._nodes)

    def refusal(self) -> Status | None:
        """Why the pod does not fit now; None if it does."""
        answer = nominated.fits(self._framework, self._state, self._pod, self._nodes, self._arrivals)
        return answer if isinstance(answer, Status) else nominated.refusals(answer[0], 1).get(0)


def most_important_first(cluster: ClusterState, pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Pods of one node, as the reference sorts them."""
    slots = Importance(cluster.pods).sort(np.array([pod.slot for pod in pods], np.int64))
    by_slot = {pod.slot: pod for pod in pods}
    return [by_slot[slot] for slot in slots.tolist()]


def least_important_first(cluster: ClusterState, pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Sorted by "not more important", which is no order: equal pods change places."""
    importance, found = Importance(cluster.pods), list(pods)
    go_sort(found, lambda a, b: not importance.more_important(a.slot, b.slot))
    return found


def exceeding_budgets(cluster: ClusterState, pods: Sequence[PodInfo]) -> list[bool]:
    """Whose eviction violates a PodDisruptionBudget, for pods of one node that are evicted in this order."""
    slots = np.array([pod.slot for pod in pods], np.int64)
    found: list[bool] = violating_pods(
        cluster, cluster.pods, slots, np.zeros(1, np.intp), np.array([len(slots)])
    ).tolist()
    return found
