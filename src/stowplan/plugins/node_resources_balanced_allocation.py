"""Prefer nodes whose resource use becomes more even by placing the pod.

Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.framework.interface import PreScorePlugin, Reads, ScorePlugin, ShapeSigned
from stowplan.framework.status import SKIP, Status
from stowplan.plugins.resource_scoring import Demand, capacity, demands, used

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.view import Nodes
    from stowplan.config import NodeResourcesBalancedAllocationArgs
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.handle import Handle

PRE_SCORE_KEY = "PreScoreNodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, ShapeSigned):
    name = "NodeResourcesBalancedAllocation"
    reads = Reads.NODE_PODS
    in_range = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = tuple((r.name, r.weight) for r in args.resources)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        asked = self._demands(pod)
        if all(demand.requested == 0 for demand in asked):
            return SKIP
        state.write(PRE_SCORE_KEY, asked)
        return None

    def _demands(self, pod: PodInfo) -> tuple[Demand, ...]:
        found: tuple[Demand, ...] | None = pod.shape.memo(PRE_SCORE_KEY, self._resources)
        if found is None:
            found = demands(self._resources, pod.shape.used)
            pod.shape.remember(PRE_SCORE_KEY, self._resources, found)
        return found

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64]:
        asked: Sequence[Demand] | None = state.get(PRE_SCORE_KEY)
        if asked is None:
            # PreScore did not run: not configured at that point.
            asked = self._demands(pod)
            if all(demand.requested == 0 for demand in asked):
                return np.zeros(len(nodes), np.int64)
        before, after, missing = _fractions(nodes, asked)
        change = _balance(after, missing, len(nodes)) - _balance(before, missing, len(nodes))
        # The bracket is never negative, so the shift divides as Go does.
        return 50 + ((50 + change) >> 1)


Fractions = list["npt.NDArray[np.float64]"]


def _fractions(
    nodes: Nodes, asked: Sequence[Demand]
) -> tuple[Fractions, Fractions, list[npt.NDArray[np.bool_] | None]]:
    """Used share of each resource without and with the pod; and where the resource is missing (None: nowhere)."""
    before, after, missing = [], [], []
    for demand in asked:
        allocatable = capacity(nodes, demand.name)
        if allocatable is None:
            continue
        absent = allocatable == 0
        if absent.any():
            missing.append(absent)
            allocatable = np.maximum(allocatable, 1)
        else:
            missing.append(None)
        taken = used(nodes, demand.name, non_zero=False)
        before.append(np.minimum(taken / allocatable, 1.0))
        after.append(np.minimum((taken + demand.requested) / allocatable, 1.0))
    return before, after, missing


def _balance(
    fractions: Fractions, missing: list[npt.NDArray[np.bool_] | None], length: int
) -> npt.NDArray[np.int64]:
    """100 when all shares are equal, down to 50 at their worst."""
    if len(fractions) < 2:
        return np.full(length, 100, np.int64)
    if len(fractions) == 2 and missing[0] is None and missing[1] is None:
        spread = np.abs(fractions[0] - fractions[1]) / 2
    else:
        spread = _deviation(fractions, missing, length)
    # Parity: subtract first; float64 effects count (0.34 gives 65, not 66).
    scores: npt.NDArray[np.int64] = ((1.0 - spread) * 100.0).astype(np.int64)
    return scores


def _deviation(
    fractions: Fractions, missing: list[npt.NDArray[np.bool_] | None], length: int
) -> npt.NDArray[np.float64]:
    """Standard deviation over the resources that a node has, summed in the configured order."""
    present = [np.ones(length, np.bool_) if absent is None else ~absent for absent in missing]
    count = np.sum(present, axis=0)
    total = np.zeros(length)
    for share, has in zip(fractions, present, strict=True):
        total += np.where(has, share, 0.0)
    mean = total / np.maximum(count, 1)
    squares = np.zeros(length)
    for share, has in zip(fractions, present, strict=True):
        squares += np.where(has, (share - mean) * (share - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    # Two shares: half their distance; fewer: none.
    pair = np.zeros(length)
    sign = np.ones(length)
    for share, has in zip(fractions, present, strict=True):
        pair += np.where(has, sign * share, 0.0)
        sign = np.where(has, -sign, sign)
    return np.where(count > 2, deviation, np.where(count == 2, np.abs(pair / 2), 0.0))
