"""Try a pod group in each of its placements, and choose the best.

    GroupTrials      the placements of a group, tried one after the other; trees of groups: `tree_trials`
    PlacementTrial   the pods of the group in one placement, each on the state that those before it leave
    GroupTrial       the result, as plain values

Whether the group can be scheduled is told by Permit or by PlacementFeasible, depending on the version
(`group_progress`). The best of the placements in which the group fits is chosen; since 1.37 the one to which most of
its pods are nominated comes first, and is taken if the group fits there.

Everything happens in a transaction of the cluster, which is always undone, even on success. Victims of preemption stay,
so a node may look fuller than it will be.

A trial may have to wait (`decision.cycle_steps`). No transaction is open meanwhile: everything is undone before, and
replayed afterwards, pod by pod. If the cluster has changed, each pod that had a node must still fit there; if one does
not, the trial restarts. A replay costs as many reservations as pods were placed before, for each wait.

Equal pods are decided together where that is exact (`equal_pods`).

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go, which block while waiting;
docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_groups import is_composite
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import Transaction
from stowplan.scheduler.engine.context import Reporter
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps, Needs
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE, Decision
from stowplan.scheduler.engine.groups.equal_pods import EqualPods
from stowplan.scheduler.engine.groups.group_progress import Progress, progress_of, rejected
from stowplan.scheduler.engine.schedule_one import Failure, failure_of, reserve, schedule_pod
from stowplan.scheduler.framework.boundary import Ended, Raised, resume
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.eviction_plan import GroupEvictionPlan
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.interface import Placement, PodGroupAssignments, PodGroupInfo, ProposedAssignment
from stowplan.scheduler.framework.requests import Outcome
from stowplan.scheduler.framework.runtime.binding import run_unreserve
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import Part
from stowplan.scheduler.framework.runtime.placements import (
    run_placement_generate,
    run_placement_score,
    whole_cluster,
)
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_preemption import RemovedPods


class GroupTrials:
    """Tries pod groups on one cluster."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        state: ClusterState,
        reporter: Reporter,
        *,
        placements: bool,
        permits: bool,
    ) -> None:
        """`placements`: whether groups may be restricted to a domain. `permits`: whether Permit is part of a trial."""
        self.algorithm = algorithm
        self._reporter = reporter
        self._state = state
        self._placements = placements
        self.equal_pods = EqualPods(algorithm, permits=permits)
        self._permits = permits

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
        result = yield from self.of_group(
            framework, group, pods, run_post_filter=run_post_filter, removed=removed, is_root=True
        )
        if not self._permits and result.status.code == Code.Success and not any(pod.placed for pod in result.pods):
            # Enough of its pods have nodes, and none of the others fits.
            result.status = rejected()
        return result

    def of_group(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        *,
        run_post_filter: bool,
        removed: Surroundings | None,
        is_root: bool = False,
        parent: Placement | None = None,
    ) -> CycleSteps[GroupTrial]:
        """Try the pods of a PodGroup within `parent`; None: on all nodes."""
        placements = self._placements_of(framework, group, pods, parent, is_root=is_root)
        if isinstance(placements, GroupTrial):
            return placements
        measured = None if self._permits or not self._placements else framework.metrics
        if measured is not None:
            measured.placements_generated(len(placements.todo))
        for placement in placements.todo:
            within = self._restriction(placement)
            trial = self._trial(framework, within=within, run_post_filter=run_post_filter, removed=removed)
            started = 0.0 if measured is None else measured.now()
            found = yield from trial.run(group, pods)
            if measured is not None:
                measured.placement_evaluated(found.status.code, started)
            if not placements.tried(placement, found):
                break
        return placements.concluded()

    def assumed(self, framework: Framework, outer: Surroundings | None) -> AssumedPods:
        """Pods to assume for the rest of a tree's trial."""
        return AssumedPods(self.algorithm, framework, reporter=self._reporter, outer=outer)

    def still_fits(self, framework: Framework, trial: GroupTrial) -> bool:
        """Whether the pods of a trial fit where it placed them, in the cluster as it is now."""
        return self._trial(framework).repeats(trial)

    def _trial(
        self,
        framework: Framework,
        *,
        within: NodeSubset | None = None,
        run_post_filter: bool = False,
        removed: Surroundings | None = None,
    ) -> PlacementTrial:
        return PlacementTrial(
            self.algorithm,
            framework,
            equal_pods=self.equal_pods,
            reporter=self._reporter,
            within=within,
            run_post_filter=run_post_filter,
            removed=removed,
            permits=self._permits,
        )

    def _placements_of(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        parent: Placement | None,
        *,
        is_root: bool,
    ) -> PlacementTrials | GroupTrial:
        """The placements to try, or the result if there are none."""
        if not self._placements:
            return PlacementTrials(framework)
        namespace, _, name = group.partition("/")
        info = PodGroupInfo(namespace, name, tuple(queued.pod for queued in pods))
        group_state = CycleState()
        found = run_placement_generate(framework, group_state, info, parent or whole_cluster(self._state))
        if isinstance(found, Status):
            return GroupTrial(found)
        # Parity: the reference does not look at nominations in trees (k/k#140863).
        nominated = self._nominated(found, pods) if is_root and not self._permits else None
        return PlacementTrials(framework, found, group_state, info, nominated=nominated, permits=self._permits)

    def _nominated(self, placements: Sequence[Placement], pods: Sequence[QueuedPod]) -> Placement | None:
        """The first of the placements to which most of the pods are nominated; None if none is to any."""
        nominated = Counter(name for queued in pods if (name := queued.pod.pod.status.nominated_node_name))
        if not nominated:
            return None
        rows = {self._state.table.row_of.get(name): count for name, count in nominated.items()}
        counts = [sum(rows.get(row, 0) for row in _rows(placement)) for placement in placements]
        return placements[counts.index(max(counts))] if max(counts) else None

    def _restriction(self, placement: Placement | None) -> NodeSubset | None:
        """The placement's nodes; None if it has all nodes."""
        if placement is None or len(placement.nodes) == self._state.table.count:
            return None
        return None if placement.nodes.rows is None else NodeSubset(placement.nodes.rows)


def _rows(placement: Placement) -> list[int]:
    rows = placement.nodes.rows
    return list(range(len(placement.nodes))) if rows is None else rows.tolist()


class TriedPod(PlainStruct, eq=False, kw_only=True):
    """The result for one pod on trial."""

    queued: QueuedPod
    decision: Decision
    #: The node that it was placed on; "" if none.
    host: str = ""
    #: The failure, if Reserve or Permit rejected the pod, or deciding failed.
    failed: Failure | None = None
    #: Permit's status if the pod would have to wait.
    wait: Status | None = None
    #: The attempt's state before Reserve wrote to it; None if Reserve has nothing to do.
    before: CycleState | None = None
    #: The parts of its traced attempt, up to its decision; None if it was decided together with others.
    parts: list[Part] | None = None

    @property
    def placed(self) -> bool:
        return bool(self.host)

    @property
    def needs_preemption(self) -> bool:
        """Whether it fits after evictions from its node."""
        return self.placed and not self.decision.node_name

    @property
    def status(self) -> Status:
        if self.failed is not None:
            return self.failed.status
        return SUCCESS if self.decision.status is None else self.decision.status


class GroupTrial(PlainStruct, eq=False):
    """The result for a group."""

    #: Success; a rejection, whether or not it waits for preemption; or an Error.
    status: Status
    #: In the order in which they were tried; pods after the end of the trial were not tried.
    pods: list[TriedPod] = field(default_factory=list)
    #: Whether it is rejected only until its preemption is complete.
    waiting: bool = False
    #: The evictions that make room for the whole group.
    plan: GroupEvictionPlan | None = None
    #: While it waits, since 1.37: UID of a pod -> the node that it is nominated to.
    nominations: Mapping[str, str] = field(default_factory=dict)
    #: The status before preemption for the group added to it, since 1.37; None if it did not.
    before_preemption: Status | None = None
    #: The result in each placement, if there are placements; for explanations.
    placements: Sequence[tuple[Placement, GroupTrial]] = ()
    #: Of a tree: PodGroup -> its result; `pods` are then those of all trials, also of groups that failed.
    members: Mapping[str, GroupTrial] = field(default_factory=dict)

    def by_group(self, group: str) -> Mapping[str, GroupTrial]:
        """PodGroup -> its result; `group` is what was tried."""
        return self.members if is_composite(group) else {group: self}

    @property
    def proposed(self) -> tuple[ProposedAssignment, ...]:
        return tuple(ProposedAssignment(pod.queued.pod, pod.host) for pod in self.pods if pod.placed)


class PlacementTrials:
    """The trials of a group, one per placement, and the best of them."""

    def __init__(
        self,
        framework: Framework,
        todo: Sequence[Placement] | None = None,
        group_state: CycleState | None = None,
        group: PodGroupInfo | None = None,
        *,
        nominated: Placement | None = None,
        permits: bool = True,
    ) -> None:
        """`todo` of None: there are no placements. `nominated`: the one to try first, and to take if it fits."""
        self._nominated = nominated
        self._permits = permits
        if nominated is not None and todo is not None:
            todo = [nominated, *(placement for placement in todo if placement is not nominated)]
        self._framework = framework
        self._group_state = group_state
        self._group = group
        self.todo: Sequence[Placement | None] = (None,) if todo is None else todo
        self._trials: list[tuple[Placement, GroupTrial]] = []
        self._final: GroupTrial | None = None

    def tried(self, placement: Placement | None, trial: GroupTrial) -> bool:
        """Add a trial; return whether to continue with the next placement."""
        if placement is None or trial.status.code == Code.Error:
            self._final = trial
            return False
        self._trials.append((placement, trial))
        # A success without a placed pod says only that enough of the group had nodes before.
        taken = placement is self._nominated and trial.status.code == Code.Success
        return not (taken and any(pod.placed for pod in trial.pods))

    def concluded(self) -> GroupTrial:
        if self._final is not None:
            return self._final
        best = self._best()
        best.placements = self._trials
        return best

    def _best(self) -> GroupTrial:
        trials = self._trials
        good = [(placement, trial) for placement, trial in trials if trial.status.code == Code.Success or trial.waiting]
        if not good:
            first, available = trials[0][1], f"0/{len(trials)} placements are available"
            if self._permits:
                text = f"{available}, first placement status: {GROUP_UNSCHEDULABLE}"
                return GroupTrial(Status(Code.Unschedulable, error=RuntimeError(text)), first.pods)
            return GroupTrial(rejected(f"{available}, reported placement status: {first.status.cause}"), first.pods)
        if len(good) == 1:
            return good[0][1]
        assert self._group_state is not None
        assert self._group is not None
        assignments = [PodGroupAssignments(placement, trial.proposed) for placement, trial in good]
        best = best_placement(self._framework, self._group_state, self._group, assignments)
        return GroupTrial(best) if isinstance(best, Status) else good[best][1]


def best_placement(
    framework: Framework, group_state: CycleState, group: PodGroupInfo, assignments: Sequence[PodGroupAssignments]
) -> int | Status:
    """The position of the best of some placements, or why they cannot be scored."""
    scores = run_placement_score(framework, group_state, group, assignments)
    if isinstance(scores, Status):
        return scores
    most = max(score.total for score in scores)
    best = [i for i, score in enumerate(scores) if score.total == most]
    random = framework.handle.random
    # No draw without a tie, as for nodes: what is drawn later must not depend on it.
    return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]


class _PlacedPod(PlainStruct, eq=False):
    """A pod on its node within the transaction."""

    tried: TriedPod
    info: PodInfo
    #: The attempt's state with what Reserve wrote to it; None if Reserve has nothing to do.
    state: CycleState | None = None


class Surroundings(Protocol):
    """What a trial takes for granted, in outer transactions: pods that are off their nodes, or assumed on some."""

    def put_back(self) -> None:
        """Undo it, before the trial waits. Idempotent."""

    def remove_again(self) -> None:
        """Do it again."""


class Reservations:
    """Pods on their nodes within a transaction, which is open from `open` to `undo`."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, framework: Framework, *, reporter: Reporter, permits: bool
    ) -> None:
        """`permits`: whether Permit is asked, and pods may be placed where their own preemption makes room."""
        self._permits = permits
        self.state: ClusterState = algorithm.cluster
        self._algorithm = algorithm
        self._framework = framework
        self._reporter = reporter
        #: What has to be undone or replayed, in order.
        self._placed: list[_PlacedPod] = []
        self._on_trial: frozenset[str] = frozenset()
        #: Those on trial outside.
        self._on_outer_trial: frozenset[str] = frozenset()
        self._transaction: Transaction | None = None

    def open(self) -> None:
        # Not a `with` block: a trial that waits undoes it in the middle, and opens another one afterwards.
        self._transaction = self.state.transaction().__enter__()
        # Reservations nest, as in a tree: `undo` sets back what is on trial outside.
        self._on_outer_trial = self.state.pod_groups.on_trial
        self.state.pod_groups.on_trial = self._on_trial

    def undo(self) -> None:
        """Undo everything. Idempotent."""
        # Cleared first: a trial that is aborted while it waits gets here again, with nothing open.
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        # Last first, because each reservation was made on what those before it left. Plugins go before the cluster:
        # Unreserve must find the pod on its node.
        for placed in reversed(self._placed):
            # Where no plugin reserved anything, the rollback alone takes the pod off.
            if placed.state is not None and self.state.is_assumed(placed.info.uid):
                for problem in run_unreserve(self._framework, placed.state, placed.info, placed.tried.host):
                    self._reporter.report(problem)
                self.state.forget(placed.info)
        self.state.pod_groups.on_trial = self._on_outer_trial
        # Keep the sampling position: searches continue after the nodes of this one.
        sampling = self._algorithm.sampling
        start = sampling.start
        transaction.rollback()
        sampling.start = start

    def _replay(self, *, moved: bool) -> None:
        """Place the pods again; raise ClusterChangedError if one no longer fits."""
        # Not decided again: the pods before the one that waited keep their nodes, and their random draws are made.
        placed_before, self._placed = self._placed, []
        for placed in placed_before:
            if moved and not self._still_takes(placed):
                raise ClusterChangedError
            self._place_again(placed)

    def _place_again(self, placed: _PlacedPod) -> None:
        try:
            if placed.tried.before is None:
                self.state.assume(placed.info, placed.tried.host)
            else:
                # A clone, as Reserve writes to it, and the next wait replays from `before` once more.
                placed.state = placed.tried.decision.state = placed.tried.before.clone()
                self._reserve_again(placed, placed.state)
        except ValueError:
            # Another client has bound it.
            raise ClusterChangedError from None
        # Only what is in place again is undone if a later one does not fit.
        self._placed.append(placed)

    def _reserve_again(self, placed: _PlacedPod, state: CycleState) -> None:
        reservation = reserve(self._framework, state, placed.info, placed.tried.host, permits=self._permits)
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            raise ClusterChangedError

    def _still_takes(self, placed: _PlacedPod) -> bool:
        """Whether a pod's node exists and still fits it; not checked for one that waits for its victims."""
        row, info = self.state.table.row_of.get(placed.tried.host), placed.info
        # The latter cannot fit yet: its victims stay on the node during the trial.
        if row is None or placed.tried.needs_preemption:
            return row is not None
        evaluation = self._algorithm.evaluation(self._framework, info)
        outcome = evaluation.filter(info)
        if outcome.error is not None or not outcome.feasible[row]:
            return False
        passed = evaluation.passing(info, np.array([row], np.intp))
        return not isinstance(passed, Status) and bool(passed[0])


class TreeChangedError(Exception):
    """The cluster has changed while the trial of a tree waited, so that its surroundings do not hold any more."""


class AssumedPods(Reservations):
    """The pods of groups that were tried before the other groups of their tree."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, framework: Framework, *, reporter: Reporter, outer: Surroundings | None
    ) -> None:
        super().__init__(algorithm, framework, reporter=reporter, permits=False)
        self._outer = outer

    def assume(self, pods: Sequence[TriedPod]) -> None:
        """Place pods where their trial did; raise ClusterChangedError if a plugin refuses one now."""
        for tried in pods:
            if tried.placed:
                self._place_again(_PlacedPod(tried, PodInfo(tried.queued.pod.pod, tried.queued.pod.shape)))

    def put_back(self) -> None:
        # Inner first, and the outer one first in `remove_again`: transactions end in reverse order.
        self.undo()
        if self._outer is not None:
            self._outer.put_back()

    def remove_again(self) -> None:
        if self._outer is not None:
            self._outer.remove_again()
        self.open()
        try:
            self._replay(moved=True)
        except ClusterChangedError:
            # Not passed on as it is: that would restart the trial of the waiting group alone, on surroundings that are
            # gone.
            raise TreeChangedError from None


class PlacementTrial(Reservations):
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
        removed: Surroundings | None,
        permits: bool,
    ) -> None:
        """`within`: the nodes of the placement; None: all. `removed`: what is undone while the trial waits."""
        super().__init__(algorithm, framework, reporter=reporter, permits=permits)
        self._equal_pods = equal_pods
        self._within = within
        self._run_post_filter = run_post_filter
        self._removed = removed
        #: The names of the nodes of the placement; set at the first wait.
        self._names: list[str] = []

    def run(self, group: str, pods: Sequence[QueuedPod]) -> CycleSteps[GroupTrial]:
        self._on_trial = frozenset(queued.pod.uid for queued in pods)
        for _ in range(MAX_TRIES):
            # From the start: what was decided before the wait is of no use, and neither are its reservations.
            trial = GroupTrial(rejected())
            changed = False
            self._placed.clear()
            self.open()
            progress = progress_of(self._framework, trial, group, len(pods))
            try:
                if progress.begins():
                    yield from self._try_in_turn(pods, progress)
                progress.ends()
            except ClusterChangedError:
                # While the trial waited, others took the place of one of its pods.
                changed = True
            finally:
                # An aborted trial gets here as well, with nothing to undo: it is closed where it waits.
                self.undo()
            if not changed:
                return trial
        return GroupTrial(error(GIVEN_UP))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _try_in_turn(self, pods: Sequence[QueuedPod], progress: Progress) -> CycleSteps[None]:
        """Try the pods until one ends the trial; consecutive equal pods are decided together as far as possible."""
        framework, first = self._framework, 0
        while first < len(pods):
            end = self._equal_pods.end(framework, pods, first)
            together = self._equal_pods.decided(framework, [queued.pod for queued in pods[first:end]], self._within)
            others_follow = first + len(together.decisions) < len(pods)
            for i, decision in enumerate(together.decisions):
                wait = together.wait if i < together.waiting else None
                tried = TriedPod(queued=pods[first + i], decision=decision, host=decision.node_name, wait=wait)
                progress.take(tried)
                if others_follow:
                    # They must see it on its node.
                    placed = _PlacedPod(tried, PodInfo(decision.pod.pod, decision.pod.shape))
                    self.state.assume(placed.info, tried.host)
                    self._placed.append(placed)
            first += len(together.decisions)
            while first < end:
                tried = yield from self._try(pods[first])
                if not progress.take(tried):
                    return
                first += 1
                # Refused by filters, which say the same of equal pods. What Reserve or Permit refuses (`failed`) is
                # about this pod alone.
                if not tried.placed and tried.failed is None:
                    rest = [queued.pod for queued in pods[first:end]]
                    for decision in self._equal_pods.rejected(framework, tried.decision, rest, self._within):
                        if not progress.take(TriedPod(queued=pods[first], decision=decision)):
                            return
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
            # Also when this trial is closed where it waits: the decision's `finally` blocks run before the trial's own.
            steps.close()
        return self._place(queued, needed.value)

    def _place(self, queued: QueuedPod, decision: Decision) -> TriedPod:
        """Place a pod on the chosen node, or the one that preemption clears, if Reserve and Permit succeed."""
        host = decision.node_name or (_made_room(decision) if self._permits else "")
        # Equal pods share the decision's state, which changes with the next of them.
        state = CycleState() if decision.state is None else decision.state.clone()
        decision.state = state
        metrics = self._framework.metrics
        tried = TriedPod(queued=queued, decision=decision, parts=None if metrics is None else metrics.parts)
        if not host:
            return tried
        # For a replay, which reserves again on the state that Reserve found.
        tried.before = state.clone()
        placed = _PlacedPod(tried, PodInfo(queued.pod.pod, queued.pod.shape), state)
        reservation = reserve(self._framework, state, placed.info, host, permits=self._permits)
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            tried.failed = failure_of(reservation.failed)
            return tried
        tried.host, tried.wait = host, reservation.wait
        self._placed.append(placed)
        return tried

    def repeats(self, trial: GroupTrial) -> bool:
        """Whether the pods of an earlier trial fit on their nodes in the cluster as it is now."""
        placed = [tried for tried in trial.pods if tried.placed]
        self._placed = [_PlacedPod(tried, PodInfo(tried.queued.pod.pod, tried.queued.pod.shape)) for tried in placed]
        self._on_trial = frozenset(tried.queued.pod.uid for tried in placed)
        self.open()
        try:
            # Each pod is checked, as if others had moved: other pods are off their nodes than in that trial.
            self._replay(moved=True)
        except ClusterChangedError:
            return False
        finally:
            self.undo()
        return True

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
        # After the undo, so that the trial's own changes do not count as those of others.
        version = self.state.version
        outcomes = yield needed
        # Before anything is redone, which counts as a change, too.
        moved = self.state.version != version
        if self._removed is not None:
            self._removed.remove_again()
        self.open()
        if self._within is not None:
            # Without the nodes that have gone meanwhile.
            rows = [table.row_of[name] for name in self._names if name in table.row_of]
            self._within.rows = np.array(rows, np.intp)
        if chance is not None:
            random.setstate(chance)
        self._replay(moved=moved)
        return outcomes


def _made_room(decision: Decision) -> str:
    """The node that a PostFilter plugin just nominated the pod to; "" also if an earlier nomination stays."""
    succeeded = decision.post_filter and decision.post_filter[-1][1].status.code == Code.Success
    return (decision.nominated_node_name or "") if succeeded else ""
