"""PodDisruptionBudget violations of evictions.

Upstream: filterPodsWithPDBViolation in pkg/scheduler/framework/plugins/defaultpreemption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.api import types as t
from stowplan.api.selectors import Selector, SelectorError, compile_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.cluster.objects import ObjectStore
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.cluster.pod_table import PodTable
    from stowplan.cluster.state import ClusterState

Budget = tuple[t.PodDisruptionBudget, Selector]


def budgets(objects: ObjectStore) -> list[Budget]:
    """Budgets that can match a pod, in name order; nil and empty selectors match nothing, invalid ones are skipped."""
    found = []
    for pdb in objects.all(t.PodDisruptionBudget):
        try:
            selector = compile_label_selector(pdb.spec.selector)
        except SelectorError:
            continue
        if not (selector.nothing or selector.empty):
            found.append((pdb, selector))
    return sorted(found, key=lambda budget: (budget[0].metadata.namespace, budget[0].metadata.name))


def violating_pods(
    cluster: ClusterState,
    pods: PodTable,
    slots: npt.NDArray[np.int64],
    starts: npt.NDArray[np.intp],
    counts: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """For victims grouped by node, most important first: whose eviction exceeds a budget."""
    violating = np.zeros(len(slots), np.bool_)
    known = budgets(cluster.objects)
    if not known:
        return violating
    by_shape: dict[int, list[int]] = {}
    for shape_id in np.unique(pods.shape[slots]).tolist():
        info = pods.infos[int(slots[np.flatnonzero(pods.shape[slots] == shape_id)[0]])]
        assert info is not None
        by_shape[shape_id] = _matching(info.shape, known)
    covered = np.array([bool(by_shape[shape_id]) for shape_id in pods.shape[slots].tolist()])
    # Only nodes with a pod that has a budget need counting.
    for node in np.flatnonzero(np.add.reduceat(covered, starts)).tolist():
        of_node = slice(int(starts[node]), int(starts[node] + counts[node]))
        violating[of_node] = _violating_on_node(pods, slots[of_node].tolist(), by_shape, known)
    return violating


def _matching(shape: PodShape, known: list[Budget]) -> list[int]:
    if not shape.labels:
        return []
    return [
        i
        for i, (pdb, selector) in enumerate(known)
        if (pdb.metadata.namespace or "default") == shape.namespace and selector.matches(shape.labels)
    ]


def _violating_on_node(
    pods: PodTable, slots: list[int], by_shape: dict[int, list[int]], known: list[Budget]
) -> list[bool]:
    remaining = [pdb.status.disruptions_allowed for pdb, _ in known]
    verdicts = []
    for slot in slots:
        info = pods.infos[slot]
        assert info is not None
        verdicts.append(_takes_too_much(info, by_shape[info.shape.id], known, remaining))
    return verdicts


def _takes_too_much(info: PodInfo, matching: list[int], known: list[Budget], remaining: list[int]) -> bool:
    violates = False
    for i in matching:
        # A pod in disruptedPods was counted when its eviction began.
        if info.pod.metadata.name not in known[i][0].status.disrupted_pods:
            remaining[i] -= 1
            violates = violates or remaining[i] < 0
    return violates


def violating_units(objects: ObjectStore, units: Sequence[Sequence[PodInfo]]) -> list[bool]:
    """For units of pods that are evicted as a whole, most important first: whose eviction exceeds a budget.

    Parity: unlike for the pods of a node, counting ends at a unit's first violation.
    """
    known = budgets(objects)
    remaining = [pdb.status.disruptions_allowed for pdb, _ in known]
    return [any(_exceeds(info, known, remaining) for info in unit) for unit in units]


def _exceeds(info: PodInfo, known: list[Budget], remaining: list[int]) -> bool:
    for i in _matching(info.shape, known):
        if info.pod.metadata.name not in known[i][0].status.disrupted_pods:
            remaining[i] -= 1
            if remaining[i] < 0:
                return True
    return False
