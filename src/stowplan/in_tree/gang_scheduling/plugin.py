"""Place the pods of a group together or not at all.

Not built yet: pods of groups are rejected.

Upstream: pkg/scheduler/framework/plugins/gangscheduling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.events import POD, Action, Hint, on, queue_if
from stowplan.framework.interface import EnqueueExtensions, PermitPlugin, PreEnqueuePlugin
from stowplan.framework.status import Status, unresolvable
from stowplan.in_tree.common.not_built import NOT_BUILT, PODS_OF_GROUPS
from stowplan.in_tree.common.volume_claims import same_namespace
from stowplan.in_tree.gang_scheduling.declaration import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.api.types import Pod
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.events import ClusterEventWithHint


class GangScheduling(PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    name = "GangScheduling"
    declaration = DECLARATION

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.pod.spec.scheduling_group is None:
            return None
        return unresolvable(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name))

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return self.pre_enqueue(pod), 0.0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(POD, Action.Add, _after_pod_added),)


def _group_of(pod: Pod) -> str | None:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None


def _after_pod_added(pod: PodInfo, old: None, new: Pod) -> Hint:
    group = _group_of(pod.pod)
    return queue_if(group is not None and same_namespace(pod, new) and _group_of(new) == group)
