"""A pod group's trial that may wait: for extenders, PostFilter plugins with steps, or portions of long work.

The same trial as `GroupTrials.run`, as a generator: it yields what it needs and is resumed with the outcome. No
transaction is open while it waits: everything is undone before, and replayed afterwards, pod by pod. If the cluster has
changed, each pod that had a node must still fit there; if one does not, the trial restarts.

A replay costs as many reservations as pods were placed before, for each answer.

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go, which block while waiting.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.scheduler.engine.decision.algorithm import NodeSubset
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps, Needs
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.groups.group_trial import GroupTrial, TriedPod, rejected
from stowplan.scheduler.engine.groups.placement_trial import PlacementTrial
from stowplan.scheduler.engine.schedule_one import reserve
from stowplan.scheduler.framework.boundary import Raised, call_steps
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.status import Status, error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.groups.group_trials import GroupTrials
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.requests import Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod

TrialSteps = CycleSteps[GroupTrial]


class SuspendableTrials:
    """Tries pod groups on one cluster."""

    def __init__(self, trials: GroupTrials) -> None:
        self._trials = trials

    def run(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        *,
        helped: bool = True,
        without: Sequence[PodInfo] = (),
    ) -> TrialSteps:
        """Try a group's pods in this order. The cluster is unchanged afterwards, and whenever the trial waits.

        Without `helped`, PostFilter does not run. `without`: pods to remove from their nodes for the trial.
        """
        placements = self._trials.placements(framework, group, pods)
        if isinstance(placements, GroupTrial):
            return placements
        algorithm, reporter = self._trials.algorithm, self._trials.reporter
        table = algorithm.cluster.table
        for placement in placements.todo:
            rows = self._trials.restriction(placement)
            # Rows may be reassigned to other nodes while the trial waits.
            names = None if rows is None else [table.names[row] for row in rows.tolist()]
            one = PlacementTrial(algorithm, framework, pods, reporter)
            trial = _Trial(algorithm, one, names, without, helped=helped)
            if not placements.tried(placement, (yield from trial.run(pods))):
                break
        return placements.concluded()


class _Trial:
    """A group's trial in one placement; its transaction is open unless it waits."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        on_trial: PlacementTrial,
        names: Sequence[str] | None,
        without: Sequence[PodInfo],
        *,
        helped: bool,
    ) -> None:
        """`names`: the nodes of the placement; None: all."""
        self._algorithm = algorithm
        self._on_trial = on_trial
        self._state = on_trial.state
        self._framework = on_trial.framework
        self._names = names or ()
        self._within = None if names is None else NodeSubset(np.zeros(0, np.intp))
        self._without = without
        self._helped = helped
        #: The state of each placed pod before Reserve wrote to it.
        self._before: list[CycleState] = []

    def run(self, pods: Sequence[QueuedPod]) -> TrialSteps:
        for _ in range(MAX_TRIES):
            try:
                return (yield from self._run(pods))
            except ClusterChangedError:
                self._on_trial.placed.clear()
                self._before.clear()
        return GroupTrial(error(GIVEN_UP))

    def _run(self, pods: Sequence[QueuedPod]) -> TrialSteps:
        trial, placed = GroupTrial(rejected()), self._on_trial.placed
        self._open()
        try:
            for queued in pods:
                decision = yield from self._decided(queued)
                before = None if decision.state is None else decision.state.clone()
                tried = self._on_trial.place(queued, decision)
                if len(placed) > len(self._before):
                    assert before is not None, "a pod on a node has been through the filters"
                    self._before.append(before)
                if not trial.take(tried):
                    break
        finally:
            self._on_trial.undo()
        return trial

    # -- one pod ------------------------------------------------------------------------------------------------------

    def _decided(self, queued: QueuedPod) -> CycleSteps[Decision]:
        """Decide for a pod; the transaction is undone while that waits."""
        framework = self._framework
        if framework.metrics is not None:
            framework.metrics.begin_cycle()
        cycle = self._algorithm.schedule(framework, queued.pod, within=self._within, run_post_filter=self._helped)
        with closing(cycle):
            decision = yield from call_steps(self._through, cycle, failed=Raised)
        return Decision(queued.pod, status=error(decision.cause)) if isinstance(decision, Raised) else decision

    def _through(self, cycle: CycleSteps[Decision]) -> CycleSteps[Decision]:
        try:
            needed = next(cycle)
            while True:
                needed = cycle.send((yield from self._suspended(needed)))
        except StopIteration as end:
            decision: Decision = end.value
            return decision

    def _suspended(self, needed: Needs) -> CycleSteps[tuple[Outcome, ...]]:
        metrics = self._framework.metrics
        sample = None if metrics is None else metrics.sample
        # The undo rewinds the random source, and the next pod of the trial must not draw the same numbers.
        random: Any = self._framework.handle.random
        chance = random.getstate() if hasattr(random, "getstate") else None
        self._on_trial.undo()
        version = self._state.version
        outcomes = yield needed
        if metrics is not None:
            metrics.sample = sample
        self._open()
        if chance is not None:
            random.setstate(chance)
        self._play_again(moved=self._state.version != version)
        return outcomes

    # -- undo and replay -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._on_trial.open()
        if self._within is not None:
            row_of = self._state.table.row_of
            self._within.rows = np.array([row_of[name] for name in self._names if name in row_of], np.intp)
        for info in self._without:
            self._state.remove_pod(info.uid)

    def _play_again(self, *, moved: bool) -> None:
        """Place the pods again; raise ClusterChangedError if one no longer fits."""
        placed = self._on_trial.placed
        for i, (tried, info, _) in enumerate(placed):
            if moved and not self._still_takes(tried, info):
                raise ClusterChangedError
            state = self._before[i].clone()
            try:
                reservation = reserve(self._framework, state, info, tried.host)
            except ValueError:
                # Another client has bound it.
                raise ClusterChangedError from None
            if reservation is not None:
                for problem in reservation.problems:
                    self._on_trial.reporter.report(problem)
                if reservation.failed is not None:
                    raise ClusterChangedError
            tried.decision.state = state
            placed[i] = (tried, info, state)

    def _still_takes(self, tried: TriedPod, info: PodInfo) -> bool:
        """Whether a pod's node exists and still fits it; not checked for one that waits for its victims."""
        row = self._state.table.row_of.get(tried.host)
        if row is None or tried.needs_preemption:
            return row is not None
        evaluation = self._algorithm.evaluation(self._framework, info)
        judgement = evaluation.filter(info)
        if judgement.error is not None or not judgement.feasible[row]:
            return False
        passed = evaluation.passing(info, np.array([row], np.intp))
        return not isinstance(passed, Status) and bool(passed[0])
