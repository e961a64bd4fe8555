"""A verdict beside the cluster that it is about, for what is worked out on demand: details, advice.

A pod that is placed was judged as if it were not: whoever looks closer must see the same cluster, so an inspection
takes the pod off its node for as long as it lasts. When the cluster has moved on since the verdict, it refuses.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stowplan.engine.evaluation.evaluation import Evaluation
from stowplan.framework.explanations.inspection import Inspection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.explain.verdict import Verdict
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.runtime import Framework


class VerdictInspection(Inspection):
    """The inspection of one verdict, with its profile."""

    def __init__(self, framework: Framework, verdict: Verdict) -> None:
        super().__init__(framework.handle.cluster, verdict.pod, verdict.diagnosis)
        self.framework = framework
        self.verdict = verdict

    def of(self, pod: PodInfo) -> VerdictInspection:
        """The same cluster with another version of the pod."""
        other = VerdictInspection(self.framework, self.verdict)
        other.pod, other.diagnosis = pod, self.filtered(pod)
        return other

    def filtered(self, pod: PodInfo) -> Diagnosis | None:
        evaluation = Evaluation(self.framework, asking=True)
        outcome = evaluation.filter(pod)
        if outcome.error is not None:
            return None
        return outcome.diagnosis or evaluation.diagnosis(outcome.refused)


@contextmanager
def inspecting(framework: Framework, verdict: Verdict) -> Iterator[VerdictInspection]:
    """The cluster as the verdict saw it; raise StaleVerdictError when it is no longer so."""
    state = framework.handle.cluster
    verdict.check_current(state)
    placed = state.placed(verdict.pod.uid) if verdict.current_node else None
    if placed is None:
        yield VerdictInspection(framework, verdict)
        return
    with state.transaction():
        state.remove_pod(placed.uid)
        yield VerdictInspection(framework, verdict)
