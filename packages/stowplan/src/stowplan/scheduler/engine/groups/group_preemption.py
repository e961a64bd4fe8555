"""Preemption for a pod group as a whole, after its trial found no room: the gate WorkloadAwarePreemption.

The group's PostFilter plugin proposes sets of victims, one after the other. For each, the group is tried without those
pods, and the plugin gets the result; PostFilter plugins for single pods do not run in these trials. The final result is
stored in the group's first trial: whether the group waits for preemption, and which pods to evict. Extenders filter and
prioritize in these trials as in any other; they are not asked about the victims.

Upstream: runWorkloadAwarePreemption in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from stowplan.kube.api.types import PodGroup
from stowplan.scheduler.engine.decision.cycle_steps import MAX_PORTIONS
from stowplan.scheduler.engine.groups.suspendable_trial import SuspendableTrials
from stowplan.scheduler.framework.boundary import Ended, Raised, resume
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.interface import PodGroupPostFilterPlugin, PodGroupPostFilterResult, Reads
from stowplan.scheduler.framework.status import Code, Status, error, raised, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps
    from stowplan.scheduler.engine.groups.group_trial import GroupTrial
    from stowplan.scheduler.engine.groups.group_trials import GroupTrials
    from stowplan.scheduler.framework.interface import PodGroupPostFilterSteps
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod

NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
PLACED_GROUP = "workload aware preemption is not supported for pod groups with scheduling constraints"


class GroupPreemption:
    def __init__(self, trials: GroupTrials) -> None:
        self._state: ClusterState = trials.algorithm.cluster
        self._sampling = trials.algorithm.sampling
        self._trials = trials
        self._suspendable = SuspendableTrials(trials)

    def help(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        trial: GroupTrial,
        *,
        max_portions: int = MAX_PORTIONS,
    ) -> None:
        """Look for pods to evict if the trial found no room for the group; the result is stored in the trial.

        Extenders are not called. `max_portions` is as in `GroupTrials.run`.
        """
        search = self._search(framework, group, pods, trial)
        if search is not None:
            _store(trial, search if isinstance(search, Status) else self._at_once(search, max_portions))

    def help_in_steps(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod], trial: GroupTrial
    ) -> CycleSteps[None]:
        """`help` with trials that may wait. Raises ClusterChangedError if the group has to be retried."""
        search = self._search(framework, group, pods, trial)
        if search is not None:
            _store(trial, search if isinstance(search, Status) else (yield from self._in_steps(search)))

    def _search(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod], trial: GroupTrial
    ) -> _Search | Status | None:
        """The search, or why there is none (a Status); None: preemption is not needed."""
        if trial.status.code != Code.Unschedulable:
            return None
        # Only one in-tree plugin is of this kind; the message names it, like the reference's.
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
        infos, at_once = [queued.pod for queued in pods], _only_take_room(framework, trial)
        steps = plugin.pod_group_post_filter(found, infos, pods_only_take_room=at_once)
        return _Search(framework, group, pods, steps)

    def _at_once(self, search: _Search, max_portions: int) -> PodGroupPostFilterResult:
        with self._state.transaction(), closing(search):
            removed = _RemovedPods(self._state)
            while (without := search.next_question()) is not None:
                removed.set_to(without)
                search.status = self._fits(search, max_portions)
            start = self._sampling.start
        # As after a trial.
        self._sampling.start = start
        return search.result

    def _fits(self, search: _Search, max_portions: int = MAX_PORTIONS) -> Status:
        framework = search.framework
        with framework.without_extenders() if framework.handle.extenders() else nullcontext():
            trial = self._trials.run(framework, search.group, search.pods, helped=False, max_portions=max_portions)
        return trial.status

    def _in_steps(self, search: _Search) -> CycleSteps[PodGroupPostFilterResult]:
        """No transaction is open while a trial waits: it removes the pods itself each time it resumes."""
        version = self._state.version
        try:
            while (without := search.next_question()) is not None:
                trial = yield from self._suspendable.run(
                    search.framework, search.group, search.pods, helped=False, without=without
                )
                search.status = trial.status
        finally:
            search.close()
        if search.result.plan is not None and self._state.version != version:
            self._confirm(search, search.result.plan.victims)
        return search.result

    def _confirm(self, search: _Search, victims: Sequence[PodInfo]) -> None:
        """Check a result against the changed cluster.

        Raises ClusterChangedError if the group fits without evictions by now, or not even with these. Extenders are not
        called again.
        """
        if any(self._state.placed(victim.uid) is None for victim in victims):
            raise ClusterChangedError
        with self._state.transaction():
            if self._fits(search).code == Code.Success:
                raise ClusterChangedError
            _RemovedPods(self._state).set_to(victims)
            if self._fits(search).code != Code.Success:
                raise ClusterChangedError


class _Search:
    """A plugin's search for victims: the pods it proposes, and the results of trying the group without them."""

    def __init__(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod], steps: PodGroupPostFilterSteps
    ) -> None:
        self.framework = framework
        self.group = group
        self.pods = pods
        self._steps = steps
        #: The result of the last trial.
        self.status: Status | None = None
        self.result: PodGroupPostFilterResult

    def next_question(self) -> Sequence[PodInfo] | None:
        """The pods without which to try the group; None: the search is finished."""
        question = resume(self._steps, self.status)
        if isinstance(question, Ended):
            self.result = question.value
        elif isinstance(question, Raised):
            self.result = PodGroupPostFilterResult(raised(question.cause))
        else:
            return question
        return None

    def close(self) -> None:
        self._steps.close()


class _RemovedPods:
    """Pods that are removed from their nodes, in a transaction of the caller."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: UID -> the pod, and its node if it is only assumed there.
        self._off: dict[str, tuple[PodInfo, str]] = {}

    def set_to(self, pods: Sequence[PodInfo]) -> None:
        """Remove exactly these pods, and put the others back."""
        state, wanted = self._state, {info.uid for info in pods}
        for uid in [uid for uid in self._off if uid not in wanted]:
            info, assumed_on = self._off.pop(uid)
            if assumed_on:
                state.assume(info, assumed_on)
            else:
                state.add_pod(info.pod)
        for info in pods:
            if info.uid not in self._off:
                self._off[info.uid] = info, info.node_name if state.is_assumed(info.uid) else ""
                state.remove_pod(info.uid)


def _store(trial: GroupTrial, found: PodGroupPostFilterResult | Status) -> None:
    """Store the result of the search in the trial."""
    status = found if isinstance(found, Status) else found.status
    if not isinstance(found, Status) and status.code == Code.Success:
        trial.waiting, trial.plan = True, found.plan
    elif status.code == Code.Error:
        trial.status, trial.waiting = status, False
    else:
        own = trial.status
        trial.status = Status(own.code, (*own.reasons, status.message), error=own.error)


def _only_take_room(framework: Framework, trial: GroupTrial) -> bool:
    """Whether pods on nodes can only take room: the group's pods are equal, and others affect them in no other way.

    The trial was made with all pods on their nodes: a plugin that skipped the group's pods also skips them with fewer.
    """
    if any(extender.filters for extender in framework.handle.extenders()):
        # Extenders may look at anything.
        return False
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
