"""Reject cordoned nodes, unless the pod tolerates the unschedulable taint.

A cordon is the field `spec.unschedulable`, which is treated as if the node had the unschedulable taint. The actual
taint is handled by TaintToleration. Few nodes are cordoned at a time: the table counts them, and with a count of zero
there is nothing to do.

Upstream: pkg/scheduler/framework/plugins/nodeunschedulable.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.taints import NO_SCHEDULE, tolerates
from stowplan.kube.api.taints import UNSCHEDULABLE as CORDON_KEY
from stowplan.kube.api.types import Node, Pod, Taint
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin
from stowplan.scheduler.framework.status import Code, Reason, Status
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.in_tree.node_unschedulable.declaration import DECLARATION

UNSCHEDULABLE = Reason("NodeUnschedulable", "node(s) were unschedulable")

#: The taint that a cordoned node is treated as having. It has no value, so tolerations with comparison operators never
#: match.
CORDON = Taint(key=CORDON_KEY, effect=NO_SCHEDULE)


class NodeUnschedulable(FilterPlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    reads = Reads.NODES

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        if not nodes.table.unschedulable_count or _tolerates_cordon(pod.pod):
            return None
        cordoned = nodes.take(nodes.table.unschedulable)
        if not cordoned.any():
            return None
        return Rejections.where(cordoned, UNSCHEDULABLE, Code.UnschedulableAndUnresolvable)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        return (
            on(NODE, Action.Add | Action.UpdateNodeTaint, _after_node_change, by_shape=True),
            on(pods.own, Action.UpdatePodToleration, _after_toleration_change, by_shape=True),
        )


def _tolerates_cordon(pod: Pod) -> bool:
    return any(tolerates(toleration, CORDON) for toleration in pod.spec.tolerations)


def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    return queue_if((old is None or old.spec.unschedulable) and not new.spec.unschedulable)


def _after_toleration_change(pod: PodInfo, old: Pod, new: Pod) -> Hint:
    return queue_if(same_pod(pod, new) and _tolerates_cordon(new))
