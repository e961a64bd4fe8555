"""Equal pods of a group, decided together.

For equal pods that share an evaluation and reserve nothing, the next pod's node can be computed without assuming the
pods before it (`evaluation/batch_placement.py`). What is told of each follows from the number of the group's pods that
have nodes by then. So a gang of a thousand equal pods costs little more per rack than its first pod. Anything that
cannot be decided this way is tried pod by pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.boundary import call, declares, nothing
from stowplan.scheduler.framework.runtime.binding import run_permit
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod


class JointDecisions(PlainStruct, eq=False):
    """Decisions for the first of some equal pods, all of which get a node."""

    decisions: list[Decision] = field(default_factory=list)
    #: How many of them, counted from the first, would have to wait on Permit, and with which status.
    waiting: int = 0
    wait: Status | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class EqualPods:
    """Finds equal pods in a group, and decides for them; within one trial's transaction."""

    def __init__(self, algorithm: SchedulingAlgorithm, *, permits: bool) -> None:
        self._permits = permits
        self._algorithm = algorithm
        self._cluster = algorithm.cluster
        #: Of the last group tried: (first of a run, profile, the cluster's version) -> end of the run.
        self._pods: Sequence[QueuedPod] = ()
        self._ends: dict[Any, int] = {}

    def end(self, framework: Framework, pods: Sequence[QueuedPod], first: int) -> int:
        """The end of the run of equal pods that starts here. Called with the same `pods` for each placement."""
        if pods is not self._pods:
            self._pods, self._ends = pods, {}
        key = first, framework.profile_name, self._cluster.version
        end = self._ends.get(key)
        if end is None:
            end = self._ends[key] = end_of_run(framework, [queued.pod for queued in pods], first)
        return end

    def decided(self, framework: Framework, pods: Sequence[PodInfo], within: NodeSubset | None) -> JointDecisions:
        """Decide for as many of these equal pods of a group as possible together, or for none."""
        if len(pods) < 2 or not reserves_nothing(framework, pods):
            return JointDecisions()
        quorum = quorum_of(framework, pods[0]) if self._permits else 0
        if quorum is None:
            return JointDecisions()
        placed = self._cluster.pod_groups.scheduled(group_key(pods[0].pod))
        # If a plugin raises, the first pod that is tried by itself gets it as its error.
        batch = partial(self._algorithm.schedule_batch, within=within)
        decided = call(batch, framework, pods, check=None, failed=nothing)
        if decided is None:
            return JointDecisions()
        result = JointDecisions(decided)
        result.waiting = max(0, min(len(result.decisions), quorum - placed - 1))
        if result.waiting:
            first = result.decisions[0]
            assert first.state is not None
            result.wait, _ = run_permit(framework, first.state.clone(), first.pod, first.node_name)
        self._observe(framework, result)
        return result

    def rejected(
        self, framework: Framework, like: Decision, pods: Sequence[PodInfo], within: NodeSubset | None
    ) -> list[Decision]:
        """The rejections of pods that are equal to one that was just rejected; none if each has to be tried."""
        return self._algorithm.reject_equal(framework, like, pods, within=within)

    def _observe(self, framework: Framework, result: JointDecisions) -> None:
        """Count plugins that did not run per pod as if they had."""
        if framework.metrics is None:
            return
        points, pods = framework.metrics.points, len(result.decisions)
        for point in ("Reserve", "Unreserve"):
            points[point].took(0.0, runs=pods)
        if not self._permits:
            return
        points["Permit"].took(0.0, Code.Wait, runs=max(0, result.waiting - 1))
        points["Permit"].took(0.0, runs=pods - result.waiting)


def end_of_run(framework: Framework, pods: Sequence[PodInfo], first: int) -> int:
    """The end of the run of pods that share an evaluation with the first, in the current cluster."""
    template, signature = pods[first].shape.template, framework.signature(pods[first])
    end = first + 1
    if signature is not None:
        while end < len(pods) and pods[end].shape.template is template and framework.signature(pods[end]) == signature:
            end += 1
    return end


def reserves_nothing(framework: Framework, pods: Sequence[PodInfo]) -> bool:
    """Whether Reserve has nothing to do for any of these pods."""
    shapes = {pod.shape for pod in pods}
    return all(
        declares(plugin.ignores, shape, at=("Ignores", plugin)) for plugin in framework.reserve for shape in shapes
    )


def quorum_of(framework: Framework, pod: PodInfo) -> int | None:
    """The number of pods with nodes from which Permit approves the group; None if unknown."""
    found = 0
    for plugin in framework.permit:
        quorum = call(plugin.quorum, pod, check=None, failed=nothing, at=("Quorum", plugin))
        if quorum is None or (quorum and found):
            # With two plugins the status changes when the first one approves.
            return None
        found = max(found, quorum)
    return found
