"""Reject nodes with untolerated taints; prefer nodes with fewer PreferNoSchedule taints.

Sets of taints are interned: a cluster has few distinct ones, however many nodes have them. Each distinct set is
evaluated once, and the results are spread over the nodes by indexing.

Upstream: pkg/scheduler/framework/plugins/tainttoleration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.kube.api.taints import PREFER_NO_SCHEDULE, tolerates, untolerated
from stowplan.kube.api.types import Node, Pod, Taint, Toleration
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin, PreScorePlugin, ScorePlugin
from stowplan.scheduler.framework.status import Code, Reason, Status, error
from stowplan.scheduler.in_tree.common.node_selection import untolerated_mask
from stowplan.scheduler.in_tree.common.normalization import default_normalize
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.in_tree.taint_toleration.declaration import DECLARATION

UNTOLERATED = Reason("UntoleratedTaint", "node(s) had untolerated taint(s)")
PRE_SCORE_STATE = "PreScoreTaintToleration"


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    short_name = "taints"
    reads = Reads.NODES
    in_range = True
    normalizes_by_bounds = True

    @property
    def _comparison_operators(self) -> bool:
        return self.handle.features.enabled("TaintTolerationComparisonOperators")

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        everywhere = untolerated_mask(nodes.table, pod, self._comparison_operators)
        if everywhere is None:
            return None
        mask = nodes.take(everywhere)
        return Rejections.where(mask, UNTOLERATED, Code.UnschedulableAndUnresolvable) if mask.any() else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(PRE_SCORE_STATE, tuple(t for t in pod.pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE)))
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        try:
            tolerations = state.read(PRE_SCORE_STATE)
        except NotFoundError as e:
            return error(f'failed to read "{PRE_SCORE_STATE}" from cycleState: {e}')
        table, comparing = nodes.table, self._comparison_operators
        key = ("untolerated PreferNoSchedule", tolerations, comparing)
        return nodes.take(table.memo(key, lambda: _unwelcome_counts(table, tolerations, comparing)))

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        if not np.count_nonzero(scores):
            table = self.handle.cluster.table
            hundreds: Ints = table.memo(("hundreds", len(scores)), lambda: np.full(len(scores), 100))
            return hundreds
        return default_normalize(scores, feasible, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        return (
            on(NODE, Action.Add | Action.UpdateNodeTaint, self._after_node_change, by_shape=True),
            on(pods.own, Action.UpdatePodToleration, _after_toleration_change, by_shape=True),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        was_unwelcome = old is None or self._has_untolerated(pod, old)
        return queue_if(was_unwelcome and not self._has_untolerated(pod, new))

    def _has_untolerated(self, pod: PodInfo, node: Node) -> bool:
        tolerations = pod.pod.spec.tolerations
        found = untolerated(node.spec.taints, tolerations, comparison_operators=self._comparison_operators)
        return found is not None


def _unwelcome_counts(table: NodeTable, tolerations: tuple[Toleration, ...], comparing: bool) -> Ints:
    counts = [sum(_unwelcome(taint, tolerations, comparing) for taint in taints) for taints in table.taint_sets.values]
    per_row: Ints = np.array(counts, np.int64)[table.taint_set[: table.n]]
    return per_row


def _unwelcome(taint: Taint, tolerations: tuple[Toleration, ...], comparing: bool) -> bool:
    return taint.effect == PREFER_NO_SCHEDULE and not any(tolerates(t, taint, comparing) for t in tolerations)


def _after_toleration_change(pod: PodInfo, old: Pod, new: Pod) -> Hint:
    return queue_if(same_pod(pod, new))
