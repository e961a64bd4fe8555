"""Reject nodes where a requested host port is in use.

Upstream: pkg/scheduler/framework/plugins/nodeports.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.ports import ports_conflict
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin, PreFilterResult
from stowplan.scheduler.framework.status import SKIP, Reason, Status, error
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated
from stowplan.scheduler.in_tree.node_ports.declaration import DECLARATION

PORTS_TAKEN = Reason("NodePortsTaken", "node(s) didn't have free ports for the requested pod ports")
PRE_FILTER_STATE = "PreFilterNodePorts"


class NodePorts(PreFilterPlugin, FilterPlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    reads = Reads.NODE_PODS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        wanted = pod.shape.host_ports
        if not wanted:
            return SKIP
        state.write(PRE_FILTER_STATE, wanted)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        try:
            wanted = state.read(PRE_FILTER_STATE)
        except NotFoundError as e:
            return error(f'reading "{PRE_FILTER_STATE}" from cycleState: {e}')
        taken = nodes.port_conflicts(wanted)
        return Rejections.where(taken, PORTS_TAKEN) if taken.any() else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        return (on(pods.assigned, Action.Delete, self._after_pod_deletion, by_shape=True), on(NODE, Action.Add))

    def _after_pod_deletion(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        if not is_placed_or_nominated(old):
            return Hint.SKIP
        return queue_if(ports_conflict(pod.shape.host_ports, self.handle.pod_info(old).shape.host_ports))
