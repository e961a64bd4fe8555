"""When a group can be scheduled, as told during its trial: the rules of each version.

Until 1.36, Permit decides, and is asked for each pod that gets a node: the group can be scheduled once it lets one
through, and a pod that would have to wait counts as placed. A pod may also count as placed on the node that its own
preemption clears.

Since 1.37, PlacementFeasible plugins decide. They are asked before the first pod and after each one, with the number of
the group's pods that have a node and of those that are yet to be tried. A group that cannot reach its quorum any more
ends its trial, and pods that were not tried get the group's status. Permit is asked afterwards, for each pod alone.

Upstream: podGroupSchedulingDefaultAlgorithm in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.engine.decision.decision import GROUP_UNSCHEDULABLE
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.interface import PlacementFeasiblePlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_trials import GroupTrial, TriedPod

WAITING = "pod group is waiting for preemption to complete"


def rejected(*reasons: str) -> Status:
    return Status(Code.Unschedulable, reasons, error=RuntimeError(GROUP_UNSCHEDULABLE))


class Progress(Protocol):
    """Keeps the status of a trial up to date."""

    def begins(self) -> bool:
        """Whether to try any pod."""

    def take(self, tried: TriedPod) -> bool:
        """Take in the result of the next pod; return whether to continue."""

    def ends(self) -> None:
        """There are no more pods, or the last one ended the trial."""


def progress_of(framework: Framework, trial: GroupTrial, group: str, pods: int) -> Progress:
    """`pods`: how many are to be tried."""
    if framework.handle.features.emulated_version < V1_37:
        return ProgressByPermit(trial)
    return ProgressByFeasibility(framework, trial, group, pods)


class ProgressByPermit:
    """Until 1.36."""

    def __init__(self, trial: GroupTrial) -> None:
        self._trial = trial
        #: Whether a placed pod needs preemption.
        self._preempting = False

    def begins(self) -> bool:
        return True

    def take(self, tried: TriedPod) -> bool:
        trial = self._trial
        trial.pods.append(tried)
        if not tried.placed:
            if tried.status.rejected:
                return True
            # An error is no answer: whether the group fits without this pod is not known.
            trial.status, trial.waiting = _failed(tried), False
            return False
        self._preempting = self._preempting or tried.needs_preemption
        if tried.wait is None:
            trial.waiting = self._preempting
            trial.status = rejected(WAITING) if self._preempting else SUCCESS
        return True

    def ends(self) -> None:
        pass


class ProgressByFeasibility:
    """Since 1.37."""

    def __init__(self, framework: Framework, trial: GroupTrial, group: str, pods: int) -> None:
        self._feasibility = Feasibility(framework, group)
        self._trial = trial
        # As of the start. Placed pods are counted in `take`, as those that are decided together may not be on their
        # nodes.
        self._scheduled = framework.handle.cluster.pod_groups.scheduled(group)
        self._remaining = pods

    def begins(self) -> bool:
        status = self._trial.status = self._feasible()
        if status.code == Code.Unschedulable:
            self._trial.status = rejected(*status.reasons)
        return status.code in (Code.Success, Code.Wait)

    def take(self, tried: TriedPod) -> bool:
        trial = self._trial
        trial.pods.append(tried)
        if not tried.placed and not tried.status.rejected:
            # As above: no further pod is tried, and the plugins are not asked.
            trial.status = _failed(tried)
            return False
        self._remaining -= 1
        self._scheduled += tried.placed
        status = trial.status = self._feasible()
        return status.code in (Code.Success, Code.Wait)

    def ends(self) -> None:
        if self._trial.status.code == Code.Wait:
            self._trial.status = rejected(*self._trial.status.reasons)

    def _feasible(self) -> Status:
        status = self._feasibility.ask(self._scheduled, self._remaining)
        if status.code == Code.Error:
            return error(f"failed to evaluate placement feasibility: {status.message}")
        return status


class Feasibility:
    """What PlacementFeasible plugins say of a group: Success, Wait, Unschedulable or an Error."""

    def __init__(self, framework: Framework, group: str) -> None:
        self._plugins = [p for p in framework.plugins.values() if isinstance(p, PlacementFeasiblePlugin)]
        self._group = group

    def ask(self, scheduled: int, remaining: int) -> Status:
        """`scheduled`, `remaining`: numbers of pods, or of children."""
        found = SUCCESS
        for plugin in self._plugins:
            status = call(
                plugin.placement_feasible,
                self._group,
                scheduled,
                remaining,
                at=("PlacementFeasible", plugin),
            )
            if status is None or status.code == Code.Success:
                continue
            if status.code == Code.Unschedulable:
                return status
            if status.code != Code.Wait:
                return error(status.message)
            found = status
        return found


def _failed(tried: TriedPod) -> Status:
    return error(f"failed to schedule other pod from a pod group: {tried.status.message}")
