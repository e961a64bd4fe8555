"""Schedule the pods of a gang together or not at all.

A pod is gated until its gang has enough pods. Pods with a node wait on Permit until enough of them have one; the pod
that completes the gang allows the others. From 1.37 on, PlacementFeasible tells during the trial of a group whether
enough of its pods can still get one. In a tree of groups, enough children of each group must be ready, from the root
down to the PodGroups.

Upstream: pkg/scheduler/framework/plugins/gangscheduling.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.types import Pod, PodGroup
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.pod_groups import (
    AnyGroup,
    GroupTrees,
    key_of_group,
    least_of,
    name_of_group,
    not_found,
)
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD,
    COMPOSITE_POD_GROUP,
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
NO_TREE = Reason(
    "PodGroupTreeIncomplete",
    "failed to build hierarchy snapshot: composite pod group object not found in state for {group}",
)
NO_GROUP_OF_TREE = Reason(
    "PodGroupAbsent", "failed to build hierarchy snapshot: pod group object not found in state for podgroup/{group}"
)
NO_QUORUM = Reason("PodGroupTreeNotReady", 'waiting for composite pod group "{root}" tree to meet quorum')
NOT_SCHEDULED = Reason("GangNotScheduled", "waiting for minCount pods from a gang to be scheduled")

#: Permit timeout in seconds.
PATIENCE = 300.0


class GangScheduling(PreEnqueuePlugin, PlacementFeasiblePlugin, PermitPlugin, EnqueueExtensions):
    declaration = DECLARATION
    pods_only_take_room = True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.pod.spec.scheduling_group is None:
            return None
        key, trees = group_key(pod.pod), self.handle.cluster.group_trees
        group = self._group(key)
        if group is None:
            name = pod.pod.spec.scheduling_group.pod_group_name or ""
            return unresolvable(NO_GROUP_OF_TREE.of(group=key) if trees.exist else NO_GROUP.of(group=name))
        if trees.exist:
            return self._of_tree(key, trees)
        gang, groups = group.spec.scheduling_policy.gang, self.handle.cluster.pod_groups
        if gang is None:
            return None
        if not self._follows or not groups.known(key):
            return without_state(key)
        return unresolvable(INCOMPLETE) if groups.pods(key) < gang.min_count else None

    def _of_tree(self, key: str, trees: GroupTrees) -> Status | None:
        """Why a PodGroup, or the tree that it is in, is kept out."""
        root = trees.root(key)
        if not root:
            return unresolvable(NO_TREE.of(group=trees.missing(key)))
        if trees.is_ready(root, self.handle.cluster.pod_groups.pods):
            return None
        return unresolvable(INCOMPLETE if root == key else NO_QUORUM.of(root=name_of_group(root)))

    def placement_feasible(self, group: str, scheduled: int, remaining: int) -> Status | None:
        found = self.handle.cluster.group_trees.get(group)
        if found is None:
            return error(not_found(group))
        least = least_of(found)
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
            if self.handle.cluster.group_trees.exist:
                return error(NO_GROUP_OF_TREE.of(group=key).text), 0.0
            name = key.partition("/")[2]
            return error(f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{name}" not found'), 0.0
        gang, groups = group.spec.scheduling_policy.gang, self.handle.cluster.pod_groups
        if self.handle.cluster.group_trees.parent(key):
            return self._permit_tree(key)
        if gang is None:
            return None, 0.0
        if not self._follows or not groups.known(key):
            return without_state(key), 0.0
        if groups.scheduled(key) < gang.min_count:
            self.handle.activate_group(key)
            return Status(Code.Wait, (str(NOT_SCHEDULED),)), PATIENCE
        self._let_go(key)
        return None, 0.0

    def _permit_tree(self, key: str) -> tuple[Status | None, float]:
        trees, groups = self.handle.cluster.group_trees, self.handle.cluster.pod_groups
        root = trees.root(key)
        if not root:
            return error(NO_TREE.of(group=trees.missing(key)).text), 0.0
        if not trees.is_ready(root, groups.scheduled):
            self.handle.activate_group(root)
            return Status(Code.Wait, (NO_QUORUM.of(root=name_of_group(root)).text,)), PATIENCE
        for leaf in trees.leaves(root):
            self._let_go(leaf)
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
            return (on(POD, Action.Add, self._after_pod_added), on(POD_GROUP, Action.Add, self._after_group_added))
        trees = self.handle.cluster.group_trees.exist
        return (
            on(UNSCHEDULED_POD, Action.Add, self._after_pod_added),
            on(ASSIGNED_POD, Action.Add, self._after_pod_added),
            on(POD_GROUP, Action.Add, self._after_group_added),
            # The API allows to change minCount.
            on(POD_GROUP, Action.Update, self._after_group_updated),
            *((on(COMPOSITE_POD_GROUP, Action.Add, self._after_group_added),) if trees else ()),
        )

    def _after_pod_added(self, pod: PodInfo, old: None, new: Pod) -> Hint:
        added = new.spec.scheduling_group
        group = pod.pod.spec.scheduling_group
        if added is None or group is None:
            return Hint.SKIP
        if self.handle.cluster.group_trees.exist:
            return queue_if(self._same_tree(pod, group_key(new)))
        if added.pod_group_name != group.pod_group_name:
            return Hint.SKIP
        return queue_if(same_namespace(pod, new))

    def _same_tree(self, pod: PodInfo, group: str) -> bool:
        """Whether the pod is scheduled together with a group's pods."""
        trees, own = self.handle.cluster.group_trees, group_key(pod.pod)
        if not trees.exist:
            return own == group
        return bool(own) and (own == group or (bool(root := trees.root(own)) and root == trees.root(group)))

    def _after_group_added(self, pod: PodInfo, old: None, new: AnyGroup) -> Hint:
        return queue_if(self._same_tree(pod, key_of_group(new)))

    def _after_group_updated(self, pod: PodInfo, old: PodGroup, new: PodGroup) -> Hint:
        if self._after_group_added(pod, None, new) is Hint.SKIP:
            return Hint.SKIP
        return _after_min_count_changed(old, new)


def _after_min_count_changed(old: PodGroup, new: PodGroup) -> Hint:
    before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
    return queue_if(before is None or after is None or after.min_count < before.min_count)
