"""Try a pod group in each of its placements, and choose the best (`group_trial`).

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go; docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.context import Reporter
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps
from stowplan.scheduler.engine.groups.equal_pods import EqualPods
from stowplan.scheduler.engine.groups.group_trial import GroupTrial, PlacementTrials
from stowplan.scheduler.engine.groups.placement_trial import PlacementTrial
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import Placement, PodGroupInfo
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.placements import run_placement_generate, whole_cluster
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_preemption import RemovedPods


class GroupTrials:
    """Tries pod groups on one cluster."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, state: ClusterState, reporter: Reporter, *, placements: bool
    ) -> None:
        """`placements`: whether groups may be restricted to a domain."""
        self.algorithm = algorithm
        self._reporter = reporter
        self._state = state
        self._placements = placements
        self._equal_pods = EqualPods(algorithm)

    def run(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        *,
        run_post_filter: bool = True,
        removed: RemovedPods | None = None,
    ) -> CycleSteps[GroupTrial]:
        """Try a group's pods in this order. The cluster is unchanged afterwards, and whenever the trial waits.

        Without `run_post_filter`, pods that fit nowhere are not helped. `removed`: pods that are off their nodes for
        the trial, and put back while it waits.
        """
        placements = self._placements_of(framework, group, pods)
        if isinstance(placements, GroupTrial):
            return placements
        for placement in placements.todo:
            trial = PlacementTrial(
                self.algorithm,
                framework,
                equal_pods=self._equal_pods,
                reporter=self._reporter,
                within=self._restriction(placement),
                run_post_filter=run_post_filter,
                removed=removed,
            )
            if not placements.tried(placement, (yield from trial.run(pods))):
                break
        return placements.concluded()

    def _placements_of(
        self, framework: Framework, group: str, pods: Sequence[QueuedPod]
    ) -> PlacementTrials | GroupTrial:
        """The placements to try, or the result if there are none."""
        if not self._placements:
            return PlacementTrials(framework)
        namespace, _, name = group.partition("/")
        info = PodGroupInfo(namespace, name, tuple(queued.pod for queued in pods))
        group_state, parent = CycleState(), whole_cluster(self._state)
        found = run_placement_generate(framework, group_state, info, parent)
        return GroupTrial(found) if isinstance(found, Status) else PlacementTrials(framework, found, group_state, info)

    def _restriction(self, placement: Placement | None) -> NodeSubset | None:
        """The placement's nodes; None if it has all nodes."""
        if placement is None or len(placement.nodes) == self._state.table.count:
            return None
        return None if placement.nodes.rows is None else NodeSubset(placement.nodes.rows)
