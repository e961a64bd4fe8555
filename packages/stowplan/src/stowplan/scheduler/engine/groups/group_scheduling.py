"""Scheduling of pod groups, assembled according to the feature gates.

Without the gate GenericWorkload this is empty, and pods of a group are scheduled one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.config import FeatureGates
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.groups.group_cycle import GroupCycle
from stowplan.scheduler.engine.groups.group_metrics import GroupMetrics
from stowplan.scheduler.engine.groups.group_preemption import GroupPreemption
from stowplan.scheduler.engine.groups.group_questions import GroupQuestion
from stowplan.scheduler.engine.groups.group_statuses import GroupStatuses
from stowplan.scheduler.engine.groups.group_trials import GroupTrials
from stowplan.scheduler.engine.schedule_one import SchedulingCycle
from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles


class GroupScheduling:
    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SchedulingAlgorithm,
        features: FeatureGates,
        cycle: SchedulingCycle,
        evictions: Evictions,
        suspended: SuspendedCycles,
        metrics: SchedulerMetrics | None,
        wall_clock: Callable[[], float],
        stopwatch: Callable[[], float],
    ) -> None:
        """`stopwatch`: time for metrics."""
        self._algorithm = algorithm
        self.statuses = GroupStatuses(context.outbox, context.state, wall_clock=wall_clock)
        self.trials: GroupTrials | None = None
        #: None: the pods of a group preempt individually.
        self.preemption: GroupPreemption | None = None
        #: None: pods of a group are tried one by one.
        self.cycle: GroupCycle | None = None
        if not features.enabled("GenericWorkload"):
            return
        placements = features.enabled("TopologyAwareWorkloadScheduling")
        self.trials = trials = GroupTrials(algorithm, context.state, context.reporter, placements=placements)
        if features.enabled("WorkloadAwarePreemption"):
            self.preemption = GroupPreemption(trials)
        self.cycle = GroupCycle(
            context,
            trials=trials,
            suspended=suspended,
            preemption=self.preemption,
            evictions=evictions,
            cycle=cycle,
            statuses=self.statuses,
            metrics=GroupMetrics(metrics, now=stopwatch),
        )

    def question(self, group: str, version: tuple[int, ...]) -> GroupQuestion:
        """A question about the group in the cluster at this version."""
        return GroupQuestion(self._algorithm, self.trials, self.preemption, group, version=version)

    def unfinished(self) -> list[str]:
        """What is in progress and prevents a dump."""
        return self.statuses.unfinished
