"""The result of a pod group's trial, as plain values.

For each pod, Permit returns whether the group can be scheduled now; a pod that only has to wait counts as placed. With
placements, the group is tried in each of them, and the best of those in which it fits is chosen.

Upstream: the pod group's algorithms in pkg/scheduler/schedule_one_podgroup.go; docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE, Decision
from stowplan.scheduler.engine.schedule_one import Failure
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.eviction_plan import GroupEvictionPlan
from stowplan.scheduler.framework.interface import Placement, PodGroupAssignments, PodGroupInfo, ProposedAssignment
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.placements import PlacementScores, run_placement_score
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod

WAITING = "pod group is waiting for preemption to complete"


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
    #: In the order in which they were tried; pods after an error were not tried.
    pods: list[TriedPod] = field(default_factory=list)
    #: Whether it is rejected only until its preemption is complete.
    waiting: bool = False
    #: The evictions that make room for the whole group.
    plan: GroupEvictionPlan | None = None
    #: The result in each placement, if there are placements; for explanations.
    placements: Sequence[tuple[Placement, GroupTrial]] = ()
    #: Whether a placed pod needs preemption.
    _preempting: bool = False

    def take(self, tried: TriedPod) -> bool:
        """Add the result of the next pod; return whether to continue."""
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


class PlacementTrials:
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
        """Add a trial; return whether to continue with the next placement."""
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
            text = f"0/{len(trials)} placements are available, first placement status: {GROUP_UNSCHEDULABLE}"
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


def rejected(*reasons: str) -> Status:
    return Status(Code.Unschedulable, reasons, error=RuntimeError(GROUP_UNSCHEDULABLE))
