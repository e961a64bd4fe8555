"""Try to place the pods of a group one after the other, on the state each leaves behind.

Everything happens in a transaction of the cluster and is undone in the end, success too: what comes of it is a
`GroupTrial`, a plain value. Each pod sees those before it on their nodes. Victims of preemption stay where they are, so
a node may look fuller than it will be. Permit says of each pod whether the group may go now; one that only has to wait
is placed, too.

With placements, the group is tried in each of them, and the best of those in which it fits is taken.

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go; docs/behaviour.md, Pod groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan.cluster.pod_info import PodInfo
from stowplan.engine.algorithm import Decision
from stowplan.engine.equal_pods import EqualPods
from stowplan.engine.reservation import reserve
from stowplan.engine.scheduling_cycle import failure_of
from stowplan.framework.binding import run_unreserve
from stowplan.framework.cycle_state import CycleState
from stowplan.framework.metrics import NO_FRAMEWORK_METRICS
from stowplan.framework.placements import (
    Placement,
    PlacementScores,
    PodGroupAssignments,
    PodGroupInfo,
    ProposedAssignment,
    run_placement_generate,
    run_placement_score,
    whole_cluster,
)
from stowplan.framework.status import SUCCESS, Code, Status, error
from stowplan.framework.unfinished import unfinished_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from stowplan.cluster.state import ClusterState
    from stowplan.engine.algorithm import SchedulingAlgorithm
    from stowplan.engine.attempt import Failure
    from stowplan.engine.reporter import Reporter
    from stowplan.framework.eviction_plan import GroupEvictionPlan
    from stowplan.framework.runtime import Framework
    from stowplan.queue.queued_pod import QueuedPod

    Rows = npt.NDArray[np.intp]

UNSCHEDULABLE = "pod group is unschedulable"
#: Portions of work that takes long; they hold up other pods.
MAX_PORTIONS = 60

WAITING = "pod group is waiting for preemption to complete"


@dataclass(slots=True, eq=False, kw_only=True)
class TriedPod:
    """What became of one pod on trial."""

    queued: QueuedPod
    decision: Decision
    #: The node that it was put on; "" if on none.
    host: str = ""
    #: Why it cannot go there, if Reserve or Permit refused it, or deciding failed.
    failed: Failure | None = None
    #: What Permit said if the pod would have to wait.
    wait: Status | None = None

    @property
    def placed(self) -> bool:
        return bool(self.host)

    @property
    def needs_preemption(self) -> bool:
        """Whether it fits once pods have left its node."""
        return self.placed and not self.decision.node_name

    @property
    def status(self) -> Status:
        if self.failed is not None:
            return self.failed.status
        return SUCCESS if self.decision.status is None else self.decision.status


@dataclass(slots=True, eq=False)
class GroupTrial:
    """What became of a group."""

    #: Success; a rejection, waiting or not; or an Error.
    status: Status
    #: In the order in which they were tried; pods after an error were not.
    pods: list[TriedPod] = field(default_factory=list)
    #: Whether it is rejected only until preemption is through.
    waiting: bool = False
    #: The evictions that make room for the whole group.
    plan: GroupEvictionPlan | None = None
    #: What became of it in each placement, where placements were tried; for explanations.
    placements: Sequence[tuple[Placement, GroupTrial]] = ()
    #: Whether a pod that was placed needs preemption.
    _preempting: bool = False

    def take(self, tried: TriedPod) -> bool:
        """Take in what became of the next pod; whether to go on."""
        self.pods.append(tried)
        if not tried.placed:
            if tried.status.rejected:
                return True
            self.status = error(f"failed to schedule other pod from a pod group: {tried.status.message}")
            self.waiting = False
            return False
        self._preempting = self._preempting or tried.needs_preemption
        if tried.wait is None:
            self.waiting = self._preempting
            self.status = rejected(WAITING) if self._preempting else SUCCESS
        return True

    @property
    def proposed(self) -> tuple[ProposedAssignment, ...]:
        return tuple(ProposedAssignment(pod.queued.pod, pod.host) for pod in self.pods if pod.placed)


class InPlacements:
    """The trials of a group, one per placement, and the best of them."""

    def __init__(
        self,
        framework: Framework,
        todo: Sequence[Placement] | None = None,
        group_state: CycleState | None = None,
        group: PodGroupInfo | None = None,
    ) -> None:
        """`todo` of None: there are no placements."""
        self._framework = framework
        self._group_state = group_state
        self._group = group
        self.todo: Sequence[Placement | None] = (None,) if todo is None else todo
        self._trials: list[tuple[Placement, GroupTrial]] = []
        self._final: GroupTrial | None = None

    def tried(self, placement: Placement | None, trial: GroupTrial) -> bool:
        """Whether to go on with the next placement."""
        if placement is None or trial.status.code == Code.Error:
            self._final = trial
            return False
        self._trials.append((placement, trial))
        return True

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
            first = trials[0][1]
            text = f"0/{len(trials)} placements are available, first placement status: {UNSCHEDULABLE}"
            return GroupTrial(Status(Code.Unschedulable, error=RuntimeError(text)), first.pods)
        if len(good) == 1:
            return good[0][1]
        assert self._group_state is not None
        assert self._group is not None
        assignments = [PodGroupAssignments(placement, trial.proposed) for placement, trial in good]
        scores = run_placement_score(self._framework, self._group_state, self._group, assignments)
        if isinstance(scores, Status):
            return GroupTrial(scores)
        return good[self._chosen(scores)][1]

    def _chosen(self, scores: Sequence[PlacementScores]) -> int:
        most = max(score.total for score in scores)
        best = [i for i, score in enumerate(scores) if score.total == most]
        random = self._framework.handle.random
        return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]


class GroupTrials:
    """Tries groups of pods of one cluster."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, state: ClusterState, reporter: Reporter, *, placements: bool
    ) -> None:
        """`placements`: whether groups may be bound to a domain."""
        self._algorithm = algorithm
        self._state = state
        self._reporter = reporter
        self._placements = placements
        self._equal_pods = EqualPods(algorithm)

    def run(self, framework: Framework, group: str, pods: Sequence[QueuedPod], *, helped: bool = True) -> GroupTrial:
        """Try a group's pods, in this order; the cluster is as before in the end.

        Without `helped`, no PostFilter plugin is asked.
        """
        placements = self.placements(framework, group, pods)
        if isinstance(placements, GroupTrial):
            return placements
        for placement in placements.todo:
            rows = self.restriction(placement)
            if not placements.tried(placement, self._tried(framework, pods, rows, helped=helped)):
                break
        return placements.concluded()

    def placements(self, framework: Framework, group: str, pods: Sequence[QueuedPod]) -> InPlacements | GroupTrial:
        """The placements to try; or how it ends without any."""
        if not self._placements:
            return InPlacements(framework)
        namespace, _, name = group.partition("/")
        info = PodGroupInfo(namespace, name, tuple(queued.pod for queued in pods))
        group_state, parent = CycleState(), whole_cluster(self._state)
        found = run_placement_generate(framework, group_state, info, parent)
        return GroupTrial(found) if isinstance(found, Status) else InPlacements(framework, found, group_state, info)

    def restriction(self, placement: Placement | None) -> Rows | None:
        """The placement's rows; None if it has all nodes."""
        if placement is None or len(placement.nodes) == self._state.table.count:
            return None
        return placement.nodes.rows

    # -- within one placement -----------------------------------------------------------------------------------------

    def _tried(
        self, framework: Framework, pods: Sequence[QueuedPod], within: Rows | None, *, helped: bool
    ) -> GroupTrial:
        sampling, groups = self._algorithm.sampling, self._state.pod_groups
        with self._state.transaction():
            attempts: list[tuple[TriedPod, PodInfo, CycleState]] = []
            groups.on_trial = frozenset(queued.pod.uid for queued in pods)
            try:
                trial = self._one_after_the_other(framework, pods, within, attempts, helped=helped)
            finally:
                for tried, info, state in reversed(attempts):
                    for problem in run_unreserve(framework, state, info, tried.host):
                        self._reporter.report(problem)
                    self._state.forget(info)
                groups.on_trial = frozenset()
            start = sampling.start
        # Searches go on behind the nodes that this one has seen.
        sampling.start = start
        return trial

    def _one_after_the_other(
        self,
        framework: Framework,
        pods: Sequence[QueuedPod],
        within: Rows | None,
        attempts: list[tuple[TriedPod, PodInfo, CycleState]],
        *,
        helped: bool,
    ) -> GroupTrial:
        trial = GroupTrial(rejected())
        for tried in self._in_turn(framework, pods, within, attempts, helped=helped):
            if not trial.take(tried):
                break
        return trial

    def _in_turn(
        self,
        framework: Framework,
        pods: Sequence[QueuedPod],
        within: Rows | None,
        attempts: list[tuple[TriedPod, PodInfo, CycleState]],
        *,
        helped: bool,
    ) -> Iterator[TriedPod]:
        """What becomes of each pod; equal ones that follow each other are decided together as far as that goes."""
        first = 0
        while first < len(pods):
            end = self._equal_pods.end(framework, pods, first)
            together = self._equal_pods.decided(framework, [queued.pod for queued in pods[first:end]], within)
            for i, decision in enumerate(together.decisions):
                wait = together.wait if i < together.waiting else None
                yield TriedPod(queued=pods[first + i], decision=decision, host=decision.node_name, wait=wait)
            first += len(together.decisions)
            if first < len(pods):
                # Who comes next is to see them on their nodes. They set nothing aside there.
                for decision in together.decisions:
                    self._state.assume(PodInfo(decision.pod.pod, decision.pod.shape), decision.node_name)
            while first < end:
                tried = self._try(framework, pods[first], within, attempts, helped=helped)
                yield tried
                first += 1
                if not tried.placed and tried.failed is None:
                    rest = [queued.pod for queued in pods[first:end]]
                    for decision in self._algorithm.refused(framework, tried.decision, rest, within=within):
                        yield TriedPod(queued=pods[first], decision=decision)
                        first += 1

    def _try(
        self,
        framework: Framework,
        queued: QueuedPod,
        within: Rows | None,
        attempts: list[tuple[TriedPod, PodInfo, CycleState]],
        *,
        helped: bool,
    ) -> TriedPod:
        (framework.metrics or NO_FRAMEWORK_METRICS).begin_cycle()
        try:
            decision = self._decided(framework, queued, within, helped=helped)
        except Exception as e:
            return TriedPod(queued=queued, decision=Decision(queued.pod, status=error(e)))
        return self.placed(framework, queued, decision, attempts)

    def placed(
        self,
        framework: Framework,
        queued: QueuedPod,
        decision: Decision,
        attempts: list[tuple[TriedPod, PodInfo, CycleState]],
    ) -> TriedPod:
        """Put a pod on the node that was decided, or that preemption makes room on, if Reserve and Permit let it."""
        host = decision.node_name or _made_room(decision)
        # Equal pods share the decision's state, and it moves on with the next of them.
        state = CycleState() if decision.state is None else decision.state.clone()
        decision.state = state
        tried = TriedPod(queued=queued, decision=decision)
        if not host:
            return tried
        info = PodInfo(queued.pod.pod, queued.pod.shape)
        reservation = reserve(framework, state, info, host)
        for problem in reservation.problems:
            self._reporter.report(problem)
        if reservation.failed is not None:
            tried.failed = failure_of(reservation.failed)
            return tried
        tried.host, tried.wait = host, reservation.wait
        attempts.append((tried, info, state))
        return tried

    def _decided(self, framework: Framework, queued: QueuedPod, within: Rows | None, *, helped: bool) -> Decision:
        """A trial cannot be suspended: a plugin with more work to do takes several portions in a row."""
        decision = self._algorithm.schedule(framework, queued.pod, within=within, helped=helped)
        for _ in range(MAX_PORTIONS):
            if unfinished_of(decision.status) is None:
                break
            decision = self._algorithm.schedule(framework, queued.pod, within=within, helped=helped)
        return decision


def _made_room(decision: Decision) -> str:
    """The node that a PostFilter plugin has just nominated the pod to; "" also where an earlier nomination stays."""
    succeeded = decision.post_filter and decision.post_filter[-1][1].status.code == Code.Success
    return (decision.nominated_node_name or "") if succeeded else ""


def rejected(*reasons: str) -> Status:
    return Status(Code.Unschedulable, reasons, error=RuntimeError(UNSCHEDULABLE))
