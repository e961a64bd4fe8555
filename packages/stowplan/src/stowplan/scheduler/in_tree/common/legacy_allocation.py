"""Scores by the allocation of nodes, as in Kubernetes 1.18 to 1.20.

Today they are strategies of NodeResourcesFit, which has one at a time. Then they were plugins with weights of their
own, of which a profile could have several. Their arithmetic differs from today's: every configured resource counts,
whether or not the pod requests it, and a node that lacks it, or whose requests would exceed it, counts as full.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import ScorePlugin
from stowplan.scheduler.in_tree.common.args import LegacyAllocationArgs
from stowplan.scheduler.in_tree.common.resource_scoring import capacity


class LegacyAllocation(ScorePlugin, TemplateSigned, ReadsNoObjects):
    reads = Reads.NODE_SUMS
    in_range = True

    def __init__(self, args: LegacyAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = tuple(resource.name for resource in args.resources)
        #: Shape (resources, 1).
        self.weights: Ints = np.array([resource.weight for resource in args.resources], np.int64)[:, None]

    def aggregate_key(self, pod: PodInfo) -> Hashable:
        requests = pod.shape.scoring_requests
        return tuple(requests.get(name, 0) for name in self._names)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        of = capacity(nodes, self._names)
        requests = pod.shape.scoring_requests
        asked = np.array([requests.get(name, 0) for name in self._names], of.exact.dtype)[:, None]
        there, taken = nodes.take(of.exact), of.used(nodes, non_zero=True) + asked
        fits = taken <= there
        if of.present is not None:
            fits &= nodes.take(of.present)
        taken = np.minimum(taken, there)
        return self.mean(of.percent(nodes, there - taken) * fits, of.percent(nodes, taken) * fits)

    @abstractmethod
    def mean(self, free: Ints, used: Ints) -> Ints:
        """Scores of the nodes from percentages, rounded down; where the pod does not fit, both are 0."""

    def weighted_mean(self, scores: Ints) -> Ints:
        found: Ints = (scores * self.weights).sum(axis=0) // self.weights.sum()
        return found
