"""Restrict a pod with spec.nodeName to that node.

Pending pods normally have no node name, unless it was set by hand.

Upstream: pkg/scheduler/framework/plugins/nodename.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, SignPlugin
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, on
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin
from stowplan.scheduler.framework.status import Code, Reason, Status
from stowplan.scheduler.in_tree.node_name.declaration import DECLARATION

OTHER_NODE = Reason("NodeNameMismatch", "node(s) didn't match the requested node name")


class NodeName(FilterPlugin, SignPlugin, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    reads = Reads.NODES

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return None
        row = nodes.table.row_of.get(wanted, -1)
        rows = np.arange(len(nodes)) if nodes.rows is None else nodes.rows
        return Rejections.where(rows != row, OTHER_NODE, Code.UnschedulableAndUnresolvable)

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        # The node name is not part of a pod's shape: placed pods share the shape of pending ones.
        return {"v1.Pod.Spec.NodeName": pod.pod.spec.node_name}

    def sign_version(self, pod: PodInfo) -> str:
        return pod.pod.spec.node_name

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(NODE, Action.Add),)
