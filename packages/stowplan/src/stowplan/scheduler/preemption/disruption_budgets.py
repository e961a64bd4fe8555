"""PodDisruptionBudget violations of evictions.

Upstream: filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.kube.api import types as t
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.state import ClusterState


class _Budgets:
    """The budgets that can match a pod, in name order.

    Nil and empty selectors match nothing, and invalid ones are skipped.
    """

    def __init__(self, objects: ObjectStore) -> None:
        found: list[tuple[t.PodDisruptionBudget, Selector]] = []
        for pdb in objects.all(t.PodDisruptionBudget):
            try:
                selector = compile_label_selector(pdb.spec.selector)
            except SelectorError:
                continue
            if not (selector.nothing or selector.empty):
                found.append((pdb, selector))
        found.sort(key=lambda budget: (budget[0].metadata.namespace, budget[0].metadata.name))
        self.objects = [pdb for pdb, _ in found]
        self.allowed = [pdb.status.disruptions_allowed for pdb in self.objects]
        #: Namespace -> (index, selector) of its budgets.
        self._in_namespace: dict[str, list[tuple[int, Selector]]] = {}
        for i, (pdb, selector) in enumerate(found):
            self._in_namespace.setdefault(pdb.metadata.namespace or "default", []).append((i, selector))

    def of(self, shape: PodShape) -> list[int]:
        """Indexes of the budgets that match pods of the shape; a pod without labels has none."""
        if not shape.labels:
            return []
        return [i for i, selector in self._in_namespace.get(shape.namespace, ()) if selector.matches(shape.labels)]

    def counts(self, i: int, info: PodInfo) -> bool:
        """Whether evicting the pod counts: one in disruptedPods was counted when its eviction began."""
        return info.pod.metadata.name not in self.objects[i].status.disrupted_pods


def violating_pods(cluster: ClusterState, pods: PodTable, slots: Ints, starts: Rows, counts: Ints) -> Mask:
    """For victims grouped by node, most important first: whose eviction exceeds a budget.

    Each node has the whole of a budget: the n-th of its victims that a budget covers exceeds it if fewer are allowed.
    """
    violating = np.zeros(len(slots), np.bool_)
    budgets = _Budgets(cluster.objects)
    if not budgets.objects:
        return violating
    victims, covering = _covered(budgets, pods, slots)
    node = np.repeat(np.arange(len(starts)), counts)
    group = node[victims] * len(budgets.objects) + covering
    # Stable, so that a group's victims stay in order.
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    number = np.arange(1, len(order) + 1) - np.repeat(begins, sizes)
    exceeds = number > np.array(budgets.allowed, np.int64)[covering[order]]
    violating[victims[order[exceeds]]] = True
    return violating


def _covered(budgets: _Budgets, pods: PodTable, slots: Ints) -> tuple[Ints, Ints]:
    """Each victim (its index in `slots`) with each budget that its eviction counts for."""
    _, first, shape_of = np.unique(pods.shape[slots], return_index=True, return_inverse=True)
    by_shape = [budgets.of(_info(pods, slot).shape) for slot in slots[first].tolist()]
    many = np.array([len(matching) for matching in by_shape], np.int64)
    flat = np.array([i for matching in by_shape for i in matching], np.int64)
    of_victim = many[shape_of]
    victims = np.repeat(np.arange(len(slots)), of_victim)
    # The position among the budgets of the victim's shape.
    nth = np.arange(len(victims)) - np.repeat(np.cumsum(of_victim) - of_victim, of_victim)
    covering = flat[(np.cumsum(many) - many)[shape_of[victims]] + nth]
    counted = np.ones(len(victims), np.bool_)
    disrupted = np.array([bool(pdb.status.disrupted_pods) for pdb in budgets.objects])
    for pair in np.flatnonzero(disrupted[covering]).tolist():
        counted[pair] = budgets.counts(int(covering[pair]), _info(pods, int(slots[victims[pair]])))
    return victims[counted], covering[counted]


def _info(pods: PodTable, slot: int) -> PodInfo:
    info = pods.infos[slot]
    assert info is not None
    return info


def violating_units(objects: ObjectStore, units: Sequence[Sequence[PodInfo]], *, all_pods: bool) -> list[int]:
    """For units of pods that are evicted as a whole, most important first: how many of its pods exceed a budget.

    `all_pods`: whether all of a unit's pods count, since 1.37; before, counting ended at its first violation.
    """
    budgets = _Budgets(objects)
    remaining = list(budgets.allowed)
    count = sum if all_pods else any
    return [int(count(_exceeds(info, budgets, remaining) for info in unit)) for unit in units]


def _exceeds(info: PodInfo, budgets: _Budgets, remaining: list[int]) -> bool:
    for i in budgets.of(info.shape):
        if budgets.counts(i, info):
            remaining[i] -= 1
            if remaining[i] < 0:
                return True
    return False
