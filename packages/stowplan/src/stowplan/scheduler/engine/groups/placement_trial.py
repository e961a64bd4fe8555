"""Try the pods of a group one after the other in one placement, each on the state that those before it leave.

Everything happens in a transaction of the cluster, which is always undone, even on success: the result is a
`GroupTrial`. Victims of preemption stay, so a node may look fuller than it will be.

A trial may have to wait (`decision.cycle_steps`). No transaction is open meanwhile: everything is undone before, and
replayed afterwards, pod by pod. If the cluster has changed, each pod that had a node must still fit there; if one does
not, the trial restarts. A replay costs as many reservations as pods were placed before, for each wait.

Upstream: podGroupSchedulingDefaultAlgorithm in pkg/scheduler/schedule_one_podgroup.go, which blocks while waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import Transaction
from stowplan.scheduler.engine.context import Reporter
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps, Needs
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.groups.equal_pods import EqualPods
from stowplan.scheduler.engine.groups.group_trial import GroupTrial, TriedPod, rejected
from stowplan.scheduler.engine.schedule_one import failure_of, reserve, schedule_pod
from stowplan.scheduler.framework.boundary import Ended, Raised, resume
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.requests import Outcome
from stowplan.scheduler.framework.runtime.binding import run_unreserve
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_preemption import RemovedPods


class _PlacedPod(PlainStruct, eq=False):
    """A pod on its node within the transaction."""

    tried: TriedPod
    info: PodInfo
    #: The attempt's state with what Reserve wrote to it, and as it was before; None if Reserve has nothing to do.
    state: CycleState | None = None
    before: CycleState | None = None


class PlacementTrial:
    """The trial in one placement; its transaction is open unless it waits."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        framework: Framework,
        *,
        equal_pods: EqualPods,
        reporter: Reporter,
        within: NodeSubset | None,
        run_post_filter: bool,
        removed: RemovedPods | None,
    ) -> None:
        """`within`: the nodes of the placement; None: all. `removed`: pods that are off their nodes for the trial."""
        self.state: ClusterState = algorithm.cluster
        self._algorithm = algorithm
        self._framework = framework
        self._equal_pods = equal_pods
        self._reporter = reporter
        self._within = within
        self._run_post_filter = run_post_filter
        self._removed = removed
        #: The names of the nodes of the placement; set at the first wait.
        self._names: list[str] = []
        #: What has to be undone or replayed, in order.
        self._placed: list[_PlacedPod] = []
        self._on_trial: frozenset[str] = frozenset()
        self._transaction: Transaction | None = None

    def run(self, pods: Sequence[QueuedPod]) -> CycleSteps[GroupTrial]:
        self._on_trial = frozenset(queued.pod.uid for queued in pods)
        for _ in range(MAX_TRIES):
            trial = GroupTrial(rejected())
            self._placed.clear()
            self.open()
            try:
                yield from self._try_in_turn(pods, trial)
            except ClusterChangedError:
                # While the trial waited, others took the place of one of its pods.
                continue
            finally:
                # An aborted trial gets here as well, with nothing to undo: it is closed where it waits.
                self.undo()
            return trial
        return GroupTrial(error(GIVEN_UP))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _try_in_turn(self, pods: Sequence[QueuedPod], trial: GroupTrial) -> CycleSteps[None]:
        """Try the pods until one ends the trial; consecutive equal pods are decided together as far as possible."""
        framework, first = self._framework, 0
        while first < len(pods):
            end = self._equal_pods.end(framework, pods, first)
            together = self._equal_pods.decided(framework, [queued.pod for queued in pods[first:end]], self._within)
            others_follow = first + len(together.decisions) < len(pods)
            for i, decision in enumerate(together.decisions):
                wait = together.wait if i < together.waiting else None
                tried = TriedPod(queued=pods[first + i], decision=decision, host=decision.node_name, wait=wait)
                trial.take(tried)
                if others_follow:
                    # They must see it on its node.
                    placed = _PlacedPod(tried, PodInfo(decision.pod.pod, decision.pod.shape))
                    self.state.assume(placed.info, tried.host)
                    self._placed.append(placed)
            first += len(together.decisions)
            while first < end:
                tried = yield from self._try(pods[first])
                if not trial.take(tried):
                    return
                first += 1
                if not tried.placed and tried.failed is None:
                    rest = [queued.pod for queued in pods[first:end]]
                    for decision in self._algorithm.reject_equal(framework, tried.decision, rest, within=self._within):
                        trial.take(TriedPod(queued=pods[first], decision=decision))
                        first += 1

    def _try(self, queued: QueuedPod) -> CycleSteps[TriedPod]:
        """Decide for a pod, and place it; everything is undone while the decision waits."""
        framework = self._framework
        if framework.metrics is not None:
            framework.metrics.begin_cycle()
        steps = schedule_pod(
            self._algorithm, framework, queued.pod, within=self._within, run_post_filter=self._run_post_filter
        )
        try:
            needed = resume(steps, None)
            while not isinstance(needed, Ended):
                if isinstance(needed, Raised):
                    return TriedPod(queued=queued, decision=Decision(queued.pod, status=error(needed.cause)))
                needed = resume(steps, (yield from self._wait(needed)))
        finally:
            steps.close()
        return self._place(queued, needed.value)

    def _place(self, queued: QueuedPod, decision: Decision) -> TriedPod:
        """Place a pod on the chosen node, or the one that preemption clears, if Reserve and Permit succeed."""
        host = decision.node_name or _made_room(decision)
        # Equal pods share the decision's state, which changes with the next of them.
        state = CycleState() if decision.state is None else decision.state.clone()
        decision.state = state
        tried = TriedPod(queued=queued, decision=decision)
        if not host:
            return tried
        placed = _PlacedPod(tried, PodInfo(queued.pod.pod, queued.pod.shape), state, state.clone())
        reservation = reserve(self._framework, state, placed.info, host)
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            tried.failed = failure_of(reservation.failed)
            return tried
        tried.host, tried.wait = host, reservation.wait
        self._placed.append(placed)
        return tried

    # -- transaction --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._transaction = self.state.transaction().__enter__()
        self.state.pod_groups.on_trial = self._on_trial

    def undo(self) -> None:
        """Undo everything. Idempotent."""
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        # Last first, because each reservation was made on what those before it left. Plugins go before the cluster:
        # Unreserve must find the pod on its node.
        for placed in reversed(self._placed):
            if placed.state is not None and self.state.is_assumed(placed.info.uid):
                for problem in run_unreserve(self._framework, placed.state, placed.info, placed.tried.host):
                    self._reporter.report(problem)
                self.state.forget(placed.info)
        self.state.pod_groups.on_trial = frozenset()
        # Keep the sampling position: searches continue after the nodes of this one.
        sampling = self._algorithm.sampling
        start = sampling.start
        transaction.rollback()
        sampling.start = start

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, needed: Needs) -> CycleSteps[tuple[Outcome, ...]]:
        table = self.state.table
        if self._within is not None and not self._names:
            # Rows may be reassigned to other nodes meanwhile.
            self._names = [table.names[row] for row in self._within.rows.tolist()]
        # The undo rewinds the random source, and the next pod of the trial must not draw the same numbers.
        random: Any = self._framework.handle.random
        chance = random.getstate() if hasattr(random, "getstate") else None
        # The inner transaction first; if the work is aborted, both stay undone.
        self.undo()
        if self._removed is not None:
            self._removed.put_back()
        version = self.state.version
        outcomes = yield needed
        moved = self.state.version != version
        if self._removed is not None:
            self._removed.remove_again()
        self.open()
        if self._within is not None:
            rows = [table.row_of[name] for name in self._names if name in table.row_of]
            self._within.rows = np.array(rows, np.intp)
        if chance is not None:
            random.setstate(chance)
        self._replay(moved=moved)
        return outcomes

    def _replay(self, *, moved: bool) -> None:
        """Place the pods again; raise ClusterChangedError if one no longer fits."""
        placed_before, self._placed = self._placed, []
        for placed in placed_before:
            if moved and not self._still_takes(placed):
                raise ClusterChangedError
            try:
                if placed.before is None:
                    self.state.assume(placed.info, placed.tried.host)
                else:
                    placed.state = placed.tried.decision.state = placed.before.clone()
                    self._reserve_again(placed, placed.state)
            except ValueError:
                # Another client has bound it.
                raise ClusterChangedError from None
            # Only what is in place again is undone if a later one does not fit.
            self._placed.append(placed)

    def _reserve_again(self, placed: _PlacedPod, state: CycleState) -> None:
        reservation = reserve(self._framework, state, placed.info, placed.tried.host)
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            raise ClusterChangedError

    def _still_takes(self, placed: _PlacedPod) -> bool:
        """Whether a pod's node exists and still fits it; not checked for one that waits for its victims."""
        row, info = self.state.table.row_of.get(placed.tried.host), placed.info
        if row is None or placed.tried.needs_preemption:
            return row is not None
        evaluation = self._algorithm.evaluation(self._framework, info)
        outcome = evaluation.filter(info)
        if outcome.error is not None or not outcome.feasible[row]:
            return False
        passed = evaluation.passing(info, np.array([row], np.intp))
        return not isinstance(passed, Status) and bool(passed[0])


def _made_room(decision: Decision) -> str:
    """The node that a PostFilter plugin just nominated the pod to; "" also if an earlier nomination stays."""
    succeeded = decision.post_filter and decision.post_filter[-1][1].status.code == Code.Success
    return (decision.nominated_node_name or "") if succeeded else ""
