"""Prefer nodes that pods are leaving, and avoid those that pods are nominated to.

The raw score is the number of terminating pods, less the number of nominated ones; a pod that is nominated itself
counts, too.

Upstream: pkg/podstate in scheduler-plugins.
"""

import numpy as np

from stowplan.plugins import CycleState, Ints, Mask, Nodes, PodInfo, ScorePlugin
from stowplan_scheduler_plugins.scores import lowest_to_highest


class PodState(ScorePlugin):
    name = "PodState"

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        # Both are rare, and the second changes without the node's pods: nothing is kept from pod to pod.
        nominator = self.handle.nominator
        leaving = [_terminating(nodes, i) if present else 0 for i, present in enumerate(nodes.take(nodes.table.valid))]
        scores = np.array(leaving, np.int64)
        arriving = {name: len(nominator.on(name)) for name in nominator.nodes()} if nominator else {}
        if arriving:
            scores -= np.array([arriving.get(name, 0) for name in nodes.names()], np.int64)
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        return lowest_to_highest(scores, feasible)


def _terminating(nodes: Nodes, i: int) -> int:
    return sum(other.pod.metadata.deletion_timestamp is not None for other in nodes.pods(i))
