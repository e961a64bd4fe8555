"""Prefer nodes whose resource usage becomes more balanced.

Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from stowplan.scheduler.cluster.arrays import Floats, Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
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


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, TemplateSigned, ReadsNoObjects):
    declaration = DECLARATION
    short_name = "balance"
    reads = Reads.NODE_SUMS
    in_range = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = tuple((r.name, r.weight) for r in args.resources)

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
        shares = _shares(nodes, of, demands)
        if len(of.indexes) == 2 and of.present is None:
            spread = np.abs(shares[:, 0] - shares[:, 1]) / 2
        else:
            present = np.ones(shares.shape[1:], np.bool_) if of.present is None else nodes.take(of.present)
            spread = np.stack([_deviation(shares[0], present), _deviation(shares[1], present)])
        # Parity: subtract first; float64 rounding matters (0.34 gives 65, not 66).
        balance = ((1.0 - spread) * 100.0).astype(np.int64)
        # The bracket is never negative, so the shift equals Go's division.
        scores: Ints = 50 + ((50 + balance[1] - balance[0]) >> 1)
        return scores


def _shares(nodes: Nodes, of: ResourceCapacity, demands: ResourceDemands) -> Floats:
    """The used share of each resource without and with the pod; shape (2, resources, nodes)."""
    used, allocatable = of.used(nodes, non_zero=False), nodes.take(of.as_float)
    shares = np.empty((2, *used.shape))
    np.divide(used, allocatable, out=shares[0])
    np.divide(used + demands.requested, allocatable, out=shares[1])
    return np.minimum(shares, 1.0, out=shares)


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
