"""Require or prefer nodes that have or lack a label, for all pods: NodeLabel of Kubernetes up to 1.22.

Used by policies (`labelsPresence`, `labelPreference`) and v1beta1 configurations. Label values are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, on
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import MAX_SCORE, EnqueueExtensions, FilterPlugin, ScorePlugin
from stowplan.scheduler.framework.status import Code, Reason, Status
from stowplan.scheduler.in_tree.legacy_node_label.declaration import DECLARATION, LegacyNodeLabelArgs

NOT_THE_LABELS = Reason("NodeLabelPresence", "node(s) didn't have the requested labels")


class LegacyNodeLabel(FilterPlugin, ScorePlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    reads = Reads.NODES

    def __init__(self, args: LegacyNodeLabelArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._wanted: LegacyNodeLabelArgs = args or LegacyNodeLabelArgs()

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        wanted = self._wanted
        if not wanted.present_labels and not wanted.absent_labels:
            return None
        refused = np.zeros(len(nodes), np.bool_)
        for key in wanted.present_labels:
            refused |= ~nodes.take(_having(nodes.table, key))
        for key in wanted.absent_labels:
            refused |= nodes.take(_having(nodes.table, key))
        if not refused.any():
            return None
        return Rejections.where(refused, NOT_THE_LABELS, Code.UnschedulableAndUnresolvable)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        present, absent = self._wanted.present_labels_preference, self._wanted.absent_labels_preference
        scores = np.zeros(len(nodes), np.int64)
        for key in present:
            scores += MAX_SCORE * nodes.take(_having(nodes.table, key))
        for key in absent:
            scores += MAX_SCORE * ~nodes.take(_having(nodes.table, key))
        average: Ints = scores // max(1, len(present) + len(absent))
        return average

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(NODE, Action.Add | Action.UpdateNodeLabel),)


def _having(table: NodeTable, key: str) -> Mask:
    """Rows whose node has the label."""
    having: Mask = table.label(key).codes != 0
    return having
