"""Preemption for a pod group as a whole, once its trial has found no room: the gate WorkloadAwarePreemption.

The group's PostFilter plugin takes pods off their nodes, in a transaction, and has the group tried anew, without
PostFilter plugins for its single pods. What comes of it is said by the first trial: whether the group waits for
preemption, and the plan of evictions.

Upstream: runWorkloadAwarePreemption in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.types import PodGroup
from stowplan.cluster.pod_info import group_key
from stowplan.framework.interface import PodGroupPostFilterPlugin, PodGroupPostFilterResult, Reads
from stowplan.framework.status import Code, Status, error, raised, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.cluster.state import ClusterState
    from stowplan.engine.algorithm import SchedulingAlgorithm
    from stowplan.engine.group_trial import GroupTrial, GroupTrials
    from stowplan.framework.runtime import Framework
    from stowplan.queue.queued_pod import QueuedPod

NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
SUSPENDS = "Stowplan does not support workload aware preemption in profiles with extenders yet"
PLACED_GROUP = "workload aware preemption is not supported for pod groups with scheduling constraints"


class GroupPreemption:
    def __init__(self, algorithm: SchedulingAlgorithm, trials: GroupTrials) -> None:
        self._algorithm = algorithm
        self._state: ClusterState = algorithm.cluster
        self._trials = trials

    def help(self, framework: Framework, group: str, pods: Sequence[QueuedPod], trial: GroupTrial) -> None:
        """Look for pods to evict if the trial of these pods found no room for the group; it says what came of it."""
        if trial.status.code != Code.Unschedulable:
            return
        found = self._found(framework, group, pods, trial)
        if isinstance(found, Status):
            if found.code == Code.Error:
                trial.status, trial.waiting = found, False
            else:
                own = trial.status
                trial.status = Status(own.code, (*own.reasons, found.message), error=own.error)
            return
        trial.waiting, trial.plan = True, found.plan

    def _found(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod], trial: GroupTrial
    ) -> PodGroupPostFilterResult | Status:
        if framework.suspends:
            return unschedulable(SUSPENDS)
        # Only one in-tree plugin is such a plugin; the message names it, as the reference's does.
        plugins = (found for found in framework.plugins.values() if isinstance(found, PodGroupPostFilterPlugin))
        if (plugin := next(plugins, None)) is None:
            return unschedulable(NO_PLUGIN)
        found = self._state.objects.get(PodGroup, group)
        if found is None:
            name = group.partition("/")[2]
            return error(f'failed to get pod group object: podgroup.scheduling.k8s.io "{name}" not found')
        constraints = found.spec.scheduling_constraints
        if constraints is not None and constraints.topology:
            return unschedulable(PLACED_GROUP)

        result = self._asked(plugin, found, framework, pods, only_take_room=_only_take_room(framework, trial))
        return result if result.status.code == Code.Success else result.status

    def _asked(
        self,
        plugin: PodGroupPostFilterPlugin,
        group: PodGroup,
        framework: Framework,
        pods: Sequence[QueuedPod],
        *,
        only_take_room: bool,
    ) -> PodGroupPostFilterResult:
        key = group_key(pods[0].pod.pod)

        def fits() -> Status:
            return self._trials.run(framework, key, pods, helped=False).status

        sampling = self._algorithm.sampling
        with self._state.transaction():
            try:
                infos = [queued.pod for queued in pods]
                result = plugin.pod_group_post_filter(group, infos, fits, pods_only_take_room=only_take_room)
            except Exception as e:
                result = PodGroupPostFilterResult(raised(e))
            start = sampling.start
        # As after a trial.
        sampling.start = start
        return result


def _only_take_room(framework: Framework, trial: GroupTrial) -> bool:
    """Whether pods on nodes can only keep the group out: its pods are equal, and others only take room from them.

    The trial was made with all pods on their nodes: a plugin that skipped the group's pods then skips them with fewer.
    """
    signatures = {framework.signature(tried.queued.pod) for tried in trial.pods}
    states = [tried.decision.state for tried in trial.pods]
    if len(signatures) != 1 or None in signatures:
        return False
    skipped = set.intersection(*(set() if state is None else state.skip_filter for state in states))
    in_reserve = {*framework.reserve, *framework.permit}
    return all(
        plugin.name in skipped
        or plugin.pods_only_take_room
        or (plugin.reads is Reads.NODES and plugin not in in_reserve)
        for plugin in {*framework.filter, *in_reserve}
    )
