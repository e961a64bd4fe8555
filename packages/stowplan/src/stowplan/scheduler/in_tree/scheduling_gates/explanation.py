"""Explain scheduling gates."""

from __future__ import annotations

from stowplan.kube.api.types import Pod
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.formatting import joined
from stowplan.scheduler.framework.explanations.remedy import Change, Way, with_spec


class SchedulingGatesExplanation(Explanation):
    def ways_for_pod(self) -> list[Way]:
        return [(_remove_gates(self.inspection.pod.pod),)]


def _remove_gates(pod: Pod) -> Change:
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    noun = "gate" if len(gates) == 1 else "gates"
    text = f"remove the scheduling {noun} {joined(gates)}"
    return Change(
        "schedulingGates", text, {"remove": gates}, lambda p: with_spec(p, scheduling_gates=()), cost=len(gates)
    )
