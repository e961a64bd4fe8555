"""Preemptors: a pod, or a pod group.

Upstream: ExecutorPreemptor in pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from typing import Protocol

from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.types import PodGroup
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan

#: Stands in for the node name in messages about a group's victims, which may be on any node.
CLUSTER = "cluster"


class Preemptor(Protocol):
    """A pod or pod group that preempts."""

    #: The type in messages.
    type: str

    @property
    def uid(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def metadata(self) -> ObjectMeta:
        """Reference for log lines."""

    @property
    def object(self) -> ApiStruct: ...

    @property
    def priority(self) -> int: ...

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods that need the room; at least one."""

    @property
    def node_name(self) -> str:
        """The node of the victims."""

    def takes_from(self, node_name: str, /) -> bool:
        """Whether pods on that node are among its possible victims."""

    def needs_room(self, state: ClusterState, /) -> bool:
        """Whether the victims' room is still needed."""


class PreemptingPod:
    type = "pod"

    def __init__(self, plan: EvictionPlan) -> None:
        pod = plan.preemptor
        self.pods, self.node_name = (pod,), plan.node_name
        self.uid, self.key, self.priority = pod.uid, pod.key, pod.priority
        self.object = pod.pod
        self.metadata = self.object.metadata

    def takes_from(self, node_name: str) -> bool:
        return node_name == self.node_name

    def needs_room(self, state: ClusterState) -> bool:
        return self.node_name in state.table.row_of and _is_pending(state, self.uid)


class PreemptingGroup:
    type = "podgroup"
    node_name = CLUSTER

    def __init__(self, plan: GroupEvictionPlan) -> None:
        self.object, self.pods = plan.group, plan.pods
        self.metadata = plan.group.metadata
        self.uid = self.metadata.uid
        self.key = group_key(plan.pods[0].pod)
        self.priority = plan.group.spec.priority or 0

    def takes_from(self, node_name: str) -> bool:
        return True

    def needs_room(self, state: ClusterState) -> bool:
        """A gang below its minimum size would not be scheduled, and needs no room."""
        group = state.objects.get(PodGroup, self.key)
        if group is None or group.metadata.uid != self.uid:
            return False
        gang = group.spec.scheduling_policy.gang
        enough = gang is None or state.pod_groups.pods(self.key) >= gang.min_count
        return enough and any(_is_pending(state, pod.uid) for pod in self.pods)


def preemptor_of(plan: EvictionPlan | GroupEvictionPlan) -> Preemptor:
    return PreemptingPod(plan) if isinstance(plan, EvictionPlan) else PreemptingGroup(plan)


def _is_pending(state: ClusterState, uid: str) -> bool:
    """Whether the pod exists, has no node, and is not being deleted."""
    pod = state.newest(uid)
    return pod is not None and pod.metadata.deletion_timestamp is None and state.placed(uid) is None
