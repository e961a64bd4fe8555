"""Preemption for a pod group as a whole, after its trial found no room: the gate WorkloadAwarePreemption, or since 1.37
GenericWorkload.

The group's PostFilter plugin proposes sets of victims, one after the other. For each, the group is tried without those
pods, and the plugin gets the result; PostFilter plugins for single pods do not run in these trials. Since 1.37, only
the first trial decides on nodes, and for the other sets its pods must still fit on them. The final result is stored in
the group's first trial: whether the group waits for preemption, which pods to evict, and since 1.37 the nodes that its
pods are nominated to. Extenders filter and prioritize in these trials as in any other; they are not asked about the
victims.

Upstream: runWorkloadAwarePreemption in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import isgenerator
from typing import Any, cast

from msgspec.structs import replace

from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.scheduler.cluster.pod_groups import not_found
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import Transaction
from stowplan.scheduler.engine.decision.cycle_steps import MAX_PORTIONS, CycleSteps, run_at_once
from stowplan.scheduler.engine.evaluation.sampling import Sampling
from stowplan.scheduler.engine.groups.group_progress import rejected
from stowplan.scheduler.engine.groups.group_trials import GroupTrial, GroupTrials
from stowplan.scheduler.framework.boundary import At, Ended, Raised, call, close, resume
from stowplan.scheduler.framework.declarations import Reads
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.interface import (
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PodGroupPostFilterSteps,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error, raised, unexpected, unschedulable
from stowplan.scheduler.queue.queued_pod import QueuedPod

NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
PLACED_GROUP = "workload aware preemption is not supported for pod groups with scheduling constraints"


class GroupPreemption:
    def __init__(self, trials: GroupTrials, *, version: KubernetesVersion) -> None:
        self._keeps_nodes = version >= V1_37
        self._state: ClusterState = trials.algorithm.cluster
        self._sampling = trials.algorithm.sampling
        self._trials = trials

    def help(self, framework: Framework, group: str, pods: Sequence[QueuedPod], trial: GroupTrial) -> CycleSteps[None]:
        """Look for pods to evict if the trial found no room for the group; the result is stored in the trial.

        Raises ClusterChangedError if the group has to be retried.
        """
        plugins = self._plugins(framework)
        # An Error does not say that room is lacking: pods could be evicted in vain.
        if trial.status.code != Code.Unschedulable or (self._keeps_nodes and not plugins):
            return
        metrics = framework.metrics if self._keeps_nodes else None
        started = 0.0 if metrics is None else metrics.now()
        found = PodGroupPostFilterResult(unschedulable() if plugins else unschedulable(NO_PLUGIN))
        for plugin in plugins:
            refused, steps = found.status.reasons, self._post_filter(framework, group, pods, trial, plugin)
            if isinstance(steps, PodGroupPostFilterResult):
                found = steps
            else:
                found = yield from self._search(framework, group, pods, *steps)
            # Earlier plugins' reasons help to explain a rejection; a success or an error stands alone.
            if refused and found.status.rejected:
                found = replace(found, status=Status(found.status.code, (*refused, *found.status.reasons)))
            if found.status.code != Code.Unschedulable:
                break
        if metrics is not None:
            metrics.points["PodGroupPostFilter"].ran(started, found.status.code)
            metrics.group_preempted(found.status.code)
        self._store(trial, found)

    def _plugins(self, framework: Framework) -> Sequence[PodGroupPostFilterPlugin]:
        """Since 1.37, those of the extension point. Until 1.36, the only one: DefaultPreemption."""
        if self._keeps_nodes:
            return framework.pod_group_post_filter
        # Several plugins may be able to: the first one that helps pods.
        plugins = (*framework.post_filter, *framework.plugins.values())
        return [found for found in plugins if isinstance(found, PodGroupPostFilterPlugin)][:1]

    def _post_filter(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        trial: GroupTrial,
        plugin: PodGroupPostFilterPlugin,
    ) -> tuple[At, PodGroupPostFilterSteps] | PodGroupPostFilterResult:
        """A plugin's search, or its result if there is none."""
        found = self._state.group_trees.get(group)
        if found is None:
            return PodGroupPostFilterResult(error(f"failed to get pod group object: {not_found(group)}"))
        constraints = found.spec.scheduling_constraints
        if constraints is not None and constraints.topology and not self._keeps_nodes:
            return PodGroupPostFilterResult(unschedulable(PLACED_GROUP))
        infos, at_once = [queued.pod for queued in pods], _only_take_room(framework, trial)
        at = "PodGroupPostFilter", plugin
        post_filter = partial(plugin.pod_group_post_filter, pods_only_take_room=at_once)
        steps = call(post_filter, found, infos, check=_steps_or_result, failed=raised, required=True, at=at)
        if isinstance(steps, Status):
            return PodGroupPostFilterResult(steps)
        return steps if isinstance(steps, PodGroupPostFilterResult) else (at, steps)

    def _search(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod], at: At, steps: PodGroupPostFilterSteps
    ) -> CycleSteps[PodGroupPostFilterResult]:
        """Try the group without the pods that the plugin proposes, until it has its result."""
        # Before the pods are off, as their removal is undone.
        version, metrics = self._state.version, framework.metrics
        started = 0.0 if metrics is None else metrics.now()
        removed = RemovedPods(self._state, self._sampling)
        status: Status | None = None
        first: GroupTrial | None = None
        # Only opens the transaction, as nothing is proposed yet. Without it, `set_to` would remove the first proposal
        # from the real cluster.
        removed.remove_again()
        try:
            while not isinstance(without := resume(steps, status, at), Ended | Raised):
                removed.set_to(without)
                if first is not None and self._keeps_nodes:
                    # Not tried anew: the nominations name the nodes of the first trial, so the final victims must suit
                    # these.
                    status = SUCCESS if self._trials.still_fits(framework, first) else rejected()
                    continue
                # While this waits, the victims are back on their nodes (`removed`): other steps see the real cluster.
                first = yield from self._trials.run(framework, group, pods, run_post_filter=False, removed=removed)
                status = first.status
        # Closed before the pods are back: the plugin's `finally` blocks see the cluster that they were given.
        finally:
            close(steps, at)
            removed.put_back()
        if isinstance(without, Raised):
            return PodGroupPostFilterResult(raised(without.cause))
        result: PodGroupPostFilterResult = without.value
        if metrics is not None and first is not None and self._keeps_nodes:
            metrics.group_evaluated(result.status.code, started)
        if result.nominations is None and first is not None:
            result = replace(result, nominations={found.pod.uid: found.node_name for found in first.proposed})
        # The search may have waited for extenders, and what it found was true of another cluster.
        if result.plan is not None and self._state.version != version:
            self._confirm(framework, group, pods, result.plan.victims)
        return result

    def _confirm(self, framework: Framework, group: str, pods: Sequence[QueuedPod], victims: Sequence[PodInfo]) -> None:
        """Check a result against the changed cluster.

        Raises ClusterChangedError if the group fits without evictions by now, or not even with these. Extenders are not
        called again.
        """
        # One that has left freed its room already; the group may not need the others any more.
        if any(self._state.placed(victim.uid) is None for victim in victims):
            raise ClusterChangedError
        start, removed = self._sampling.start, RemovedPods(self._state, self._sampling)
        removed.remove_again()
        try:
            # First with all pods on their nodes: a group that fits by now must not evict any.
            if self._fits_now(framework, group, pods):
                raise ClusterChangedError
            removed.set_to(victims)
            if not self._fits_now(framework, group, pods):
                raise ClusterChangedError
        finally:
            removed.put_back()
            # It was decided before: this search does not count.
            self._sampling.start = start

    def _fits_now(self, framework: Framework, group: str, pods: Sequence[QueuedPod]) -> bool:
        with framework.without_extenders():
            # Nothing is left to wait for but portions of long work, which are done in a row: this step sees one
            # cluster.
            steps = self._trials.run(framework, group, pods, run_post_filter=False)
            return run_at_once(steps, max_portions=MAX_PORTIONS * len(pods)).status.code == Code.Success

    def _store(self, trial: GroupTrial, found: PodGroupPostFilterResult) -> None:
        """Store the result of the search in the trial, and in those of the groups of a tree."""
        for of_group in trial.members.values():
            self._store_in(of_group, found)
        self._store_in(trial, found)

    def _store_in(self, trial: GroupTrial, found: PodGroupPostFilterResult) -> None:
        status, own = found.status, trial.status
        if status.code == Code.Error:
            # Whether evictions help is unknown: the group is retried as after any error, and must not count as waiting.
            trial.status, trial.waiting = status, False
            return
        succeeded = status.code == Code.Success
        if succeeded:
            # The status stays a rejection: the nodes are full until the victims have left.
            trial.waiting, trial.plan = True, found.plan
        if not self._keeps_nodes:
            # Nodes are left to the trial: until 1.36, each pod is nominated to where it was placed.
            if not succeeded:
                trial.status = Status(own.code, (*own.reasons, status.message), error=own.error)
            return
        trial.nominations = found.nominations or {} if succeeded else {}
        if status.message:
            # For pods that were not tried: they report the rejection alone.
            trial.before_preemption = own
            trial.status = Status(own.code, (*own.reasons, status.message), error=own.error)


class RemovedPods:
    """Pods that are off their nodes, in a transaction of their own, from `remove_again` to `put_back`.

    The trials without them are inner transactions. So a trial that waits undoes itself first, then this.
    """

    def __init__(self, state: ClusterState, sampling: Sampling) -> None:
        self._state = state
        self._sampling = sampling
        self._transaction: Transaction | None = None
        self._wanted: Sequence[PodInfo] = ()
        #: UID -> the pod, and its node if it is only assumed there.
        self._off: dict[str, tuple[PodInfo, str]] = {}

    def set_to(self, pods: Sequence[PodInfo]) -> None:
        """Remove exactly these pods, and put the others back."""
        state, self._wanted = self._state, pods
        wanted = {info.uid: None for info in pods}
        for uid in [uid for uid in self._off if uid not in wanted]:
            info, assumed_on = self._off.pop(uid)
            # Back as what it was: the object of an assumed pod names no node, so it cannot be added as a bound pod.
            if assumed_on:
                state.assume(info, assumed_on)
            else:
                state.add_pod(info.pod)
        for uid in [uid for uid in wanted if uid not in self._off]:
            # A pod that has left while the trial waited must not come back with the others.
            placed = state.placed(uid)
            if placed is not None:
                self._off[uid] = placed, placed.node_name if state.is_assumed(uid) else ""
                state.remove_pod(uid)

    def remove_again(self) -> None:
        """Open the transaction, and remove the pods."""
        self._transaction = self._state.transaction().__enter__()
        # The rollback has put all of them back.
        self._off.clear()
        self.set_to(self._wanted)

    def put_back(self) -> None:
        """Undo everything. Idempotent."""
        # Cleared before the rollback: a trial that waits and the search's `finally` both get here, and if a waiting
        # search is aborted, one after the other.
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            # As after a trial, searches continue after the nodes of the last one.
            start = self._sampling.start
            transaction.rollback()
            self._sampling.start = start


def _steps_or_result(answer: Any) -> PodGroupPostFilterSteps | PodGroupPostFilterResult:
    if isinstance(answer, PodGroupPostFilterResult):
        return answer
    if isgenerator(answer):
        return cast("PodGroupPostFilterSteps", answer)
    raise unexpected(
        "a PodGroupPostFilterResult or a generator", answer, PodGroupPostFilterPlugin.pod_group_post_filter
    )


def _only_take_room(framework: Framework, trial: GroupTrial) -> bool:
    """Whether pods on nodes can only take room: the group's pods are equal, and others affect them in no other way.

    The trial was made with all pods on their nodes: a plugin that skipped the group's pods also skips them with fewer.
    """
    if trial.members or any(extender.filters for extender in framework.handle.extenders()):
        # With fewer pods, another group of the tree may come first. Extenders may look at anything.
        return False
    signatures = {framework.signature(tried.queued.pod) for tried in trial.pods}
    states = [tried.decision.state for tried in trial.pods]
    if len(signatures) != 1 or None in signatures:
        return False
    # A decision without a state does not say which plugins skipped the pod: none counts as skipped.
    skipped = set.intersection(*(set() if state is None else state.skip_filter for state in states))
    # `reads` is about Filter and Score only: in Reserve and Permit, such a plugin may look at any pod.
    in_reserve = {*framework.reserve, *framework.permit}
    return all(
        plugin.name in skipped
        or plugin.pods_only_take_room
        or (plugin.reads is Reads.NODES and plugin not in in_reserve)
        for plugin in {*framework.filter, *in_reserve}
    )
