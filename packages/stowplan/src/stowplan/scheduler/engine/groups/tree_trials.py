"""Try a tree of pod groups: each group with its children, in each of its placements.

A group of groups tries its children one after the other, each on what those before it leave, until PlacementFeasible
says that enough of them succeed, or cannot any more. Of the placements in which that is so the best is chosen, and the
pods that have a node there are assumed for the groups that follow (`AssumedPods`). Placements of a child are within
that of its parent. PodGroups are tried as outside of trees (`group_trials`), but nominated placements do not come
first.

All of this happens in nested transactions, which are undone while a trial waits, the innermost first. If what was
assumed does not fit any more afterwards, the whole tree is tried again.

Upstream: podGroupSchedulingRecursiveAlgorithm and compositePodGroupSchedulingPlacementAlgorithm in
pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.scheduler.cluster.pod_groups import is_composite, name_of_group, qualified_name
from stowplan.scheduler.cluster.pod_info import group_key
from stowplan.scheduler.engine.decision.cycle_steps import GIVEN_UP, MAX_TRIES, CycleSteps
from stowplan.scheduler.engine.groups.group_progress import Feasibility, rejected
from stowplan.scheduler.engine.groups.group_trials import (
    AssumedPods,
    GroupTrial,
    GroupTrials,
    Surroundings,
    TreeChangedError,
    best_placement,
)
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.interface import Placement, PodGroupAssignments, PodGroupInfo
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.placements import run_placement_generate, whole_cluster
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.engine.groups.group_preemption import RemovedPods

#: Group -> its result; groups that were not tried are absent.
Results = dict[str, GroupTrial]


class TreeTrials(GroupTrials):
    """Tries groups that may be trees."""

    def run(
        self,
        framework: Framework,
        group: str,
        pods: Sequence[QueuedPod],
        *,
        run_post_filter: bool = True,
        removed: RemovedPods | None = None,
    ) -> CycleSteps[GroupTrial]:
        if not is_composite(group):
            return super().run(framework, group, pods, run_post_filter=run_post_filter, removed=removed)
        return TreeTrial(self, framework, group, pods, run_post_filter=run_post_filter, removed=removed).run()


class TreeTrial:
    """The trial of everything below a root."""

    def __init__(
        self,
        trials: GroupTrials,
        framework: Framework,
        root: str,
        pods: Sequence[QueuedPod],
        *,
        run_post_filter: bool,
        removed: Surroundings | None,
    ) -> None:
        """`pods`: of all groups of the tree, in the order in which those of each are tried."""
        self._trials = trials
        self._framework = framework
        self._cluster = trials.algorithm.cluster
        self._trees = self._cluster.group_trees
        self._root = root
        self._pods: dict[str, list[QueuedPod]] = {leaf: [] for leaf in self._trees.leaves(root)}
        for queued in pods:
            self._pods.setdefault(group_key(queued.pod.pod), []).append(queued)
        self._run_post_filter = run_post_filter
        self._removed = removed

    def run(self) -> CycleSteps[GroupTrial]:
        for _ in range(MAX_TRIES):
            results: Results = {}
            try:
                yield from self._try(self._root, whole_cluster(self._cluster), None, results)
            # From the start, as the other groups were decided on a cluster that is no more.
            except TreeChangedError:
                continue
            return self._completed(results)
        return GroupTrial(error(GIVEN_UP), members={leaf: GroupTrial(error(GIVEN_UP)) for leaf in self._pods})

    # -- groups -------------------------------------------------------------------------------------------------------

    def _try(
        self, group: str, parent: Placement, siblings: AssumedPods | None, results: Results
    ) -> CycleSteps[GroupTrial]:
        """Try a group within its parent's placement; what succeeds is assumed along with its `siblings`."""
        outer = self._removed if siblings is None else siblings
        if is_composite(group):
            found = yield from self._composite(group, parent, outer, results)
        else:
            found = yield from self._trials.of_group(
                self._framework,
                group,
                self._pods[group],
                run_post_filter=self._run_post_filter,
                removed=outer,
                parent=parent,
            )
        results[group] = found
        if siblings is not None and found.status.code == Code.Success:
            # For the siblings after it, which are tried on what this one leaves.
            try:
                for leaf in successful_leaves(self._trees.children, group, results):
                    siblings.assume(results[leaf].pods)
            except ClusterChangedError:
                text = "failed to assume the subtree: a plugin refuses what it accepted in the trial"
                found = results[group] = GroupTrial(error(text))
        return found

    def _composite(
        self, group: str, parent: Placement, outer: Surroundings | None, results: Results
    ) -> CycleSteps[GroupTrial]:
        """Try a group of groups in each of its placements."""
        state, info = CycleState(), self._info(group)
        placements = run_placement_generate(self._framework, state, info, parent)
        if isinstance(placements, Status):
            return GroupTrial(placements)
        tried: list[tuple[Placement, Results]] = []
        for placement in placements:
            below: Results = {}
            found = yield from self._within(group, placement, outer, below)
            if found.status.code == Code.Error:
                return found
            below[group] = found
            tried.append((placement, below))
        good = [(placement, below) for placement, below in tried if below[group].status.code == Code.Success]
        if not good:
            results.update(tried[0][1])
            text = f"0/{len(tried)} placements are available, first placement status: {results[group].status.cause}"
            return GroupTrial(rejected(text))
        best: int | Status = 0
        if len(good) > 1:
            best = best_placement(self._framework, state, info, [self._assigned(group, *one) for one in good])
        if isinstance(best, Status):
            return GroupTrial(best)
        results.update(good[best][1])
        return results[group]

    def _within(
        self, group: str, placement: Placement, outer: Surroundings | None, results: Results
    ) -> CycleSteps[GroupTrial]:
        """Try the children of a group in one placement."""
        feasibility, children = Feasibility(self._framework, group), self._trees.children(group)
        scheduled, remaining = 0, len(children)
        status = feasibility.ask(scheduled, remaining)
        if status.code in (Code.Unschedulable, Code.Error):
            return GroupTrial(status)
        assumed = self._trials.assumed(self._framework, outer)
        assumed.open()
        try:
            for child in children:
                found = yield from self._try(child, placement, assumed, results)
                if found.status.code == Code.Error:
                    text = "composite pod group evaluation failed due to child error"
                    return GroupTrial(error(f"{text}: {found.status.message}"))
                remaining -= 1
                scheduled += found.status.code == Code.Success
                status = feasibility.ask(scheduled, remaining)
                if status.code in (Code.Unschedulable, Code.Error):
                    break
        finally:
            # Only its own: what is around it stays.
            assumed.undo()
        return GroupTrial(rejected(*status.reasons) if status.code == Code.Wait else status)

    def _info(self, group: str) -> PodGroupInfo:
        namespace = qualified_name(group).partition("/")[0]
        pods = tuple(queued.pod for leaf in self._trees.leaves(group) for queued in self._pods.get(leaf, ()))
        return PodGroupInfo(namespace, name_of_group(group), pods, tree=group)

    def _assigned(self, group: str, placement: Placement, results: Results) -> PodGroupAssignments:
        leaves = successful_leaves(self._trees.children, group, results)
        return PodGroupAssignments(placement, tuple(one for leaf in leaves for one in results[leaf].proposed))

    # -- result -------------------------------------------------------------------------------------------------------

    def _completed(self, results: Results) -> GroupTrial:
        """The root's result, with one for each PodGroup: that of a parent that failed, if there is no own one."""
        placed = (
            pod.placed
            for leaf in successful_leaves(self._trees.children, self._root, results)
            for pod in results[leaf].pods
        )
        if results[self._root].status.code == Code.Success and not any(placed):
            # Enough of its groups have enough pods on nodes, and none of the others fits.
            results[self._root] = GroupTrial(rejected())
        # Parity: pods of groups that failed are nominated, too, if preemption helps the root.
        pods = [pod for leaf in self._pods if leaf in results for pod in results[leaf].pods]
        members: Results = {}

        def complete(group: str, above: GroupTrial | None) -> None:
            found = results.get(group)
            failed_above = above is not None and above.status.code != Code.Success
            if above is not None and (found is None or (failed_above and found.status.code == Code.Success)):
                found = GroupTrial(above.status)
            assert found is not None
            if is_composite(group):
                for child in self._trees.children(group):
                    complete(child, found)
            else:
                members[group] = found

        complete(self._root, None)
        return GroupTrial(results[self._root].status, pods, members=members)


def successful_leaves(
    children: Callable[[str], Sequence[str]], group: str, results: Mapping[str, GroupTrial]
) -> Iterator[str]:
    """The PodGroups that succeeded, and all groups above them, up to this one."""
    found = results.get(group)
    if found is None or found.status.code != Code.Success:
        return
    if not is_composite(group):
        yield group
    for child in children(group):
        yield from successful_leaves(children, child, results)
