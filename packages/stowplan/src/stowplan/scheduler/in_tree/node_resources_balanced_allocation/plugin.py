"""Prefer nodes whose resource usage becomes more balanced.

Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from stowplan.scheduler.cluster.arrays import Floats, Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes, SumsColumn
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import PreScorePlugin, ScorePlugin
from stowplan.scheduler.framework.status import SKIP, Status
from stowplan.scheduler.in_tree.common.resource_scoring import ResourceCapacity, ResourceDemands, capacity
from stowplan.scheduler.in_tree.node_resources_balanced_allocation.declaration import (
    DECLARATION,
    NodeResourcesBalancedAllocationArgs,
)

PRE_SCORE_KEY = "PreScoreNodeResourcesBalancedAllocation"
#: Up to this many nodes, Python's numbers are faster than arrays. Usually it is one, whose pods changed.
_FEW = 8
#: A score is 50, and half of what the pod improves the balance by and 50.
_OFFSET = 150


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, TemplateSigned, ReadsNoObjects):
    declaration = DECLARATION
    short_name = "balance"
    reads = Reads.NODE_SUMS
    in_range = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = tuple((r.name, r.weight) for r in args.resources)
        #: What is added to the balance with the pod: the balance without it is the same for all pods that ask for these
        #: resources.
        self._offsets = SumsColumn()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        demands = self._demands(pod)
        if demands.nothing:
            return SKIP
        state.write(PRE_SCORE_KEY, demands)
        return None

    def aggregate_key(self, pod: PodInfo) -> Hashable:
        found: Hashable = pod.shape.template.memo("balance question", 0)
        if found is None:
            found = pod.shape.template.remember("balance question", 0, tuple(pod.shape.used_by_any_name.items()))
        return found

    def _demands(self, pod: PodInfo) -> ResourceDemands:
        found: ResourceDemands | None = pod.shape.template.memo(PRE_SCORE_KEY, self._resources)
        if found is None:
            # Parity: a resource that nodes do not count (storage) does not affect the balance, but is a request of the
            # pod.
            found = ResourceDemands(self._resources, pod.shape.used_by_any_name)
            pod.shape.template.remember(PRE_SCORE_KEY, self._resources, found)
        return found

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        demands: ResourceDemands | None = state.get(PRE_SCORE_KEY)
        if demands is None:
            # PreScore did not run because the profile omits it.
            demands = self._demands(pod)
            if demands.nothing:
                return np.zeros(len(nodes), np.int64)
        of = capacity(nodes, demands.names)
        if nodes.rows is not None and len(nodes) <= _FEW and _of_two(of):
            return _scores_of_few(nodes, of, demands)
        scores = _balance(nodes, of, of.used(nodes, non_zero=False) + demands.requested.astype(of.exact.dtype))
        scores += self._offsets.of(
            nodes, demands.names, lambda rows: _OFFSET - _balance(rows, of, +of.used(rows, non_zero=False))
        )
        # Never negative, so the shift equals Go's division.
        scores >>= 1
        return scores


def _of_two(of: ResourceCapacity) -> bool:
    """Whether there are two resources, which all nodes have."""
    return len(of.indexes) == 2 and of.present is None


def _scores_of_few(nodes: Nodes, of: ResourceCapacity, demands: ResourceDemands) -> Ints:
    (first,), (second,) = demands.requested.tolist()
    used, there = of.used(nodes, non_zero=False).tolist(), nodes.take(of.as_float).tolist()
    scores = [
        (_OFFSET + _balance_of_two(a + first, b + second, *of_node) - _balance_of_two(a, b, *of_node)) >> 1
        for a, b, *of_node in zip(*used, *there, strict=True)
    ]
    return np.array(scores, np.int64)


def _balance_of_two(a: float, b: float, of_a: float, of_b: float) -> int:
    return int((1.0 - abs(min(a / of_a, 1.0) - min(b / of_b, 1.0)) / 2) * 100.0)


def _balance(nodes: Nodes, of: ResourceCapacity, used: Floats | Ints) -> Ints:
    """100 where these amounts, which are lost, are the same share of each resource."""
    shares: Floats = np.divide(used, nodes.take(of.as_float), out=used if of.exact is of.as_float else None)
    np.minimum(shares, 1.0, out=shares)
    if _of_two(of):
        spread = shares[0]
        spread -= shares[1]
        np.abs(spread, out=spread)
        # A division takes four times as long.
        spread *= 0.5
    else:
        spread = _deviation(shares, np.ones(shares.shape, np.bool_) if of.present is None else nodes.take(of.present))
    # Parity: subtract first; float64 rounding matters (0.34 gives 65, not 66).
    np.subtract(1.0, spread, out=spread)
    spread *= 100.0
    found: Ints = spread.astype(np.int64)
    return found


def _deviation(shares: Floats, present: Mask) -> Floats:
    """Standard deviation over the resources that a node has; for two, half their difference; for fewer, 0.

    Summed in the configured order, as float64 addition is not associative.
    """
    count = np.maximum(present.sum(axis=0), 1)
    mean = _sum(shares, present) / count
    deviation = np.sqrt(_sum((shares - mean) * (shares - mean), present) / count)
    if len(shares) < 2:
        return np.zeros(shares.shape[1])
    first = np.argmax(present, axis=0)
    last = len(shares) - 1 - np.argmax(present[::-1], axis=0)
    nodes = np.arange(shares.shape[1])
    half = np.abs((shares[first, nodes] - shares[last, nodes]) / 2)
    of_two: Floats = np.where(present.sum(axis=0) > 2, deviation, half)
    return np.where(present.sum(axis=0) < 2, 0.0, of_two)


def _sum(values: Floats, present: Mask) -> Floats:
    total = np.zeros(values.shape[1])
    for value, has in zip(values, present, strict=True):
        total += np.where(has, value, 0.0)
    return total
