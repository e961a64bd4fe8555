"""PodState of the scheduler-plugins project, ported: prefer nodes whose pods are about to leave.

A node scores the number of its terminating pods minus the number of pods that are nominated to it. The lowest score of
the feasible nodes becomes 0, the highest 100. docs/extend/port-a-go-plugin.md goes through it line by line.
"""

import numpy as np

from stowplan.plugins import MAX_SCORE, NodeScorePlugin


class LeavingPods(NodeScorePlugin):
    name = "LeavingPods"
    normalizes = True

    def score_node(self, state, pod, node):
        terminating = sum(1 for other in node.pods if other.pod.metadata.deletion_timestamp is not None)
        return terminating - len(self.handle.nominator.on(node.name))

    def normalize(self, state, pod, scores, feasible):
        lowest, highest = scores[feasible].min(), scores[feasible].max()
        if lowest == highest:
            return np.zeros_like(scores)
        return (scores - lowest) * MAX_SCORE // (highest - lowest)
