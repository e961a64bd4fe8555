"""Try to place the pods of a group one after the other, each on the state that those before it leave.

Everything happens in a transaction of the cluster, which is always undone, even on success: the result is a
`GroupTrial`.

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go; docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.algorithm import NodeSubset
from stowplan.scheduler.engine.decision.cycle_steps import MAX_PORTIONS, run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.groups.equal_pods import EqualPods
from stowplan.scheduler.engine.groups.group_trial import GroupTrial, PlacementTrials, TriedPod, rejected
from stowplan.scheduler.engine.groups.placement_trial import PlacementTrial
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import PodGroupInfo
from stowplan.scheduler.framework.runtime.placements import run_placement_generate, whole_cluster
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.framework.unfinished import UnfinishedError, unfinished_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.context import Reporter
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.framework.interface import Placement
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod

    Rows = npt.NDArray[np.intp]


class GroupTrials:
    """Tries pod groups on one cluster."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, state: ClusterState, reporter: Reporter, *, placements: bool
    ) -> None:
        """`placements`: whether groups may be restricted to a domain."""
        self.algorithm = algorithm
        self.reporter = reporter
        self._state = state
        self._placements = placements
        self._equal_pods = EqualPods(algorithm)

    def run(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        *,
        helped: bool = True,
        max_portions: int = MAX_PORTIONS,
    ) -> GroupTrial:
        """Try a group's pods in this order. The cluster is unchanged afterwards.

        Without `helped`, PostFilter does not run. Extenders are never called. `max_portions`: how many portions of long
        work are done in a row; with 0, such work ends the trial with an UnfinishedError.
        """
        placements = self.placements(framework, group, pods)
        if isinstance(placements, GroupTrial):
            return placements
        for placement in placements.todo:
            one = PlacementTrial(self.algorithm, framework, pods, self.reporter)
            rows = self.restriction(placement)
            within = None if rows is None else NodeSubset(rows)
            trial = _Trial(self.algorithm, self._equal_pods, one, within, helped, max_portions)
            if not placements.tried(placement, trial.run(pods)):
                break
        return placements.concluded()

    def placements(self, framework: Framework, group: str, pods: Sequence[QueuedPod]) -> PlacementTrials | GroupTrial:
        """The placements to try, or the result if there are none."""
        if not self._placements:
            return PlacementTrials(framework)
        namespace, _, name = group.partition("/")
        info = PodGroupInfo(namespace, name, tuple(queued.pod for queued in pods))
        group_state, parent = CycleState(), whole_cluster(self._state)
        found = run_placement_generate(framework, group_state, info, parent)
        return GroupTrial(found) if isinstance(found, Status) else PlacementTrials(framework, found, group_state, info)

    def restriction(self, placement: Placement | None) -> Rows | None:
        """The placement's rows; None if it has all nodes."""
        if placement is None or len(placement.nodes) == self._state.table.count:
            return None
        return placement.nodes.rows


class _Trial:
    """A group's trial in one placement."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        equal_pods: EqualPods,
        on_trial: PlacementTrial,
        within: NodeSubset | None,
        helped: bool,
        max_portions: int,
    ) -> None:
        self._algorithm = algorithm
        self._equal_pods = equal_pods
        self._on_trial = on_trial
        self._framework = on_trial.framework
        self._within = within
        self._helped = helped
        self._max_portions = max_portions

    def run(self, pods: Sequence[QueuedPod]) -> GroupTrial:
        trial = GroupTrial(rejected())
        self._on_trial.open()
        try:
            for tried in self._in_turn(pods):
                if not trial.take(tried):
                    break
        finally:
            self._on_trial.undo()
        return trial

    def _in_turn(self, pods: Sequence[QueuedPod]) -> Iterator[TriedPod]:
        """The result of each pod; consecutive equal pods are decided together as far as possible."""
        framework, first = self._framework, 0
        while first < len(pods):
            end = self._equal_pods.end(framework, pods, first)
            together = self._equal_pods.decided(framework, [queued.pod for queued in pods[first:end]], self._within)
            for i, decision in enumerate(together.decisions):
                wait = together.wait if i < together.waiting else None
                yield TriedPod(queued=pods[first + i], decision=decision, host=decision.node_name, wait=wait)
            first += len(together.decisions)
            if first < len(pods):
                # The next pods must see these on their nodes. Reserve has nothing to do for them.
                for decision in together.decisions:
                    self._on_trial.state.assume(PodInfo(decision.pod.pod, decision.pod.shape), decision.node_name)
            while first < end:
                tried = self._try(pods[first])
                yield tried
                first += 1
                if not tried.placed and tried.failed is None:
                    rest = [queued.pod for queued in pods[first:end]]
                    for decision in self._algorithm.reject_equal(framework, tried.decision, rest, within=self._within):
                        yield TriedPod(queued=pods[first], decision=decision)
                        first += 1

    def _try(self, queued: QueuedPod) -> TriedPod:
        if self._framework.metrics is not None:
            self._framework.metrics.begin_cycle()
        decision = call(self._decided, queued, check=None, failed=Raised)
        if isinstance(decision, Raised):
            if isinstance(decision.cause, UnfinishedError):
                raise decision.cause
            return TriedPod(queued=queued, decision=Decision(queued.pod, status=error(decision.cause)))
        return self._on_trial.place(queued, decision)

    def _decided(self, queued: QueuedPod) -> Decision:
        """Decide for a pod without suspending; a plugin with more work gets several portions in a row."""
        steps = self._algorithm.schedule(self._framework, queued.pod, within=self._within, run_post_filter=self._helped)
        decision = run_at_once(steps, max_portions=self._max_portions)
        if not self._max_portions and (more := unfinished_of(decision.status)) is not None:
            raise more
        return decision
