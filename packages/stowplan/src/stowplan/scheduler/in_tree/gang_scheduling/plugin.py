"""Schedule the pods of a gang together or not at all.

A pod is gated until its gang has enough pods. Pods with a node wait on Permit until enough of them have one; the pod
that completes the gang allows the others. From 1.37 on, PlacementFeasible tells during the trial of a group whether
enough of its pods can still get one.

Upstream: pkg/scheduler/framework/plugins/gangscheduling.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.types import Pod, PodGroup
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD,
    POD,
    POD_GROUP,
    UNSCHEDULED_POD,
    Action,
    ClusterEventWithHint,
    Hint,
    on,
    queue_if,
)
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    PermitPlugin,
    PlacementFeasiblePlugin,
    PreEnqueuePlugin,
)
from stowplan.scheduler.framework.status import Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.scheduler.in_tree.common.pod_groups import without_state
from stowplan.scheduler.in_tree.common.volume_claims import same_namespace
from stowplan.scheduler.in_tree.gang_scheduling.declaration import DECLARATION

NO_GROUP = Reason("PodGroupAbsent", 'waiting for pods\'s pod group "{group}" to appear in scheduling queue')
INCOMPLETE = Reason("GangIncomplete", "waiting for minCount pods from a gang to appear in scheduling queue")
NOT_SCHEDULED = Reason("GangNotScheduled", "waiting for minCount pods from a gang to be scheduled")

#: Permit timeout in seconds.
PATIENCE = 300.0


class GangScheduling(PreEnqueuePlugin, PlacementFeasiblePlugin, PermitPlugin, EnqueueExtensions):
    declaration = DECLARATION
    pods_only_take_room = True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.pod.spec.scheduling_group is None:
            return None
        key = group_key(pod.pod)
        group = self._group(key)
        if group is None:
            return unresolvable(NO_GROUP.of(group=pod.pod.spec.scheduling_group.pod_group_name or ""))
        gang, groups = group.spec.scheduling_policy.gang, self.handle.cluster.pod_groups
        if gang is None:
            return None
        if not self._follows or not groups.known(key):
            return without_state(key)
        return unresolvable(INCOMPLETE) if groups.pods(key) < gang.min_count else None

    def placement_feasible(self, group: str, scheduled: int, remaining: int) -> Status | None:
        found = self._group(group)
        if found is None:
            return error(f'podgroup.scheduling.k8s.io "{group.partition("/")[2]}" not found')
        gang = found.spec.scheduling_policy.gang
        least = 1 if gang is None else gang.min_count
        counts = f"{scheduled} scheduled, {remaining} remaining"
        if scheduled + remaining < least:
            return unschedulable(f"minCount ({least}) cannot be satisfied: {counts}")
        if scheduled < least:
            return Status(Code.Wait, (f"minCount ({least}) is not yet satisfied: {counts}",))
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        if pod.pod.spec.scheduling_group is None:
            return None, 0.0
        key = group_key(pod.pod)
        group = self._group(key)
        if group is None:
            name = key.partition("/")[2]
            return error(f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{name}" not found'), 0.0
        gang, groups = group.spec.scheduling_policy.gang, self.handle.cluster.pod_groups
        if gang is None:
            return None, 0.0
        if not self._follows or not groups.known(key):
            return without_state(key), 0.0
        if groups.scheduled(key) < gang.min_count:
            self.handle.activate_group(key)
            return Status(Code.Wait, (str(NOT_SCHEDULED),)), PATIENCE
        self._let_go(key)
        return None, 0.0

    def quorum(self, pod: PodInfo) -> int | None:
        if pod.pod.spec.scheduling_group is None:
            return 0
        key = group_key(pod.pod)
        group, groups, waiting = self._group(key), self.handle.cluster.pod_groups, self.handle.waiting_pods
        if group is None:
            return None
        gang = group.spec.scheduling_policy.gang
        if gang is None:
            return 0
        if not self._follows or not groups.known(key):
            return None
        if len(waiting) and any(waiting.get(info.uid) is not None for info in groups.placed(key)):
            # The pod that completes the gang allows these.
            return None
        return gang.min_count

    @property
    def _follows(self) -> bool:
        return self.handle.features.enabled("GenericWorkload")

    def _group(self, key: str) -> PodGroup | None:
        return self.handle.cluster.objects.get(PodGroup, key)

    def _let_go(self, key: str) -> None:
        """Allow the waiting pods of a complete gang."""
        waiting_pods = self.handle.waiting_pods
        if not len(waiting_pods):
            return
        for info in tuple(self.handle.cluster.pod_groups.placed(key)):
            waiting = waiting_pods.get(info.uid)
            if waiting is not None:
                waiting.allow(self.name)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if self.handle.features.emulated_version < V1_37:
            return (on(POD, Action.Add, self._after_pod_added), on(POD_GROUP, Action.Add, _after_group_added))
        return (
            on(UNSCHEDULED_POD, Action.Add, self._after_pod_added),
            on(ASSIGNED_POD, Action.Add, self._after_pod_added),
            on(POD_GROUP, Action.Add, _after_group_added),
            # The API allows to change minCount.
            on(POD_GROUP, Action.Update, _after_group_updated),
        )

    def _after_pod_added(self, pod: PodInfo, old: None, new: Pod) -> Hint:
        added = new.spec.scheduling_group
        group = pod.pod.spec.scheduling_group
        if added is None or group is None or added.pod_group_name != group.pod_group_name:
            return Hint.SKIP
        return queue_if(same_namespace(pod, new))


def _after_group_added(pod: PodInfo, old: None, new: PodGroup) -> Hint:
    return queue_if(group_key(pod.pod) == f"{new.metadata.namespace or 'default'}/{new.metadata.name}")


def _after_group_updated(pod: PodInfo, old: PodGroup, new: PodGroup) -> Hint:
    if _after_group_added(pod, None, new) is Hint.SKIP:
        return Hint.SKIP
    before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
    return queue_if(before is None or after is None or after.min_count < before.min_count)
