"""A verdict with access to its cluster, to compute details and suggestions on demand.

Details must be computed on the same cluster, so the engine is asked about the same pod again; a placed pod is off its
node during the inspection. If the cluster has changed since the verdict, this raises.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stowplan.scheduler.framework.explanations.inspection import Inspection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.ask.explain.verdicts.verdict import Verdict
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.decision.questions import Question
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.framework.diagnosis import Diagnosis


class VerdictInspection(Inspection):
    """The inspection of one verdict, with its profile."""

    def __init__(self, question: Question, verdict: Verdict) -> None:
        super().__init__(question.cluster, verdict.pod, verdict.diagnosis)
        self.question = question
        self.framework = question.framework
        self.verdict = verdict

    def of(self, pod: PodInfo) -> VerdictInspection:
        """An inspection of the same cluster with another version of the pod."""
        other = VerdictInspection(self.question, self.verdict)
        other.pod, other.diagnosis = pod, self.filtered(pod)
        return other

    def filtered(self, pod: PodInfo) -> Diagnosis | None:
        return self.question.diagnosis(pod)


@contextmanager
def inspecting(engine: Engine, verdict: Verdict) -> Iterator[VerdictInspection]:
    """An inspection of the cluster as the verdict saw it; raises StaleVerdictError if it has changed."""
    verdict.check_current(engine.state)
    with engine.asking(verdict.pod) as question:
        yield VerdictInspection(question, verdict)
