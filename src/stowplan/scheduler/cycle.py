"""One pod's way through the scheduling cycle: where it goes, or why nowhere, and whom preemption would evict.

`Scheduler` holds one framework a profile and the evaluations that equal pods share. It decides and changes nothing;
placing the pod is the caller's next step.

Upstream: pkg/scheduler/schedule_one.go; spec'd in scheduling-cycle.md.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.framework.status import Code, Status
from stowplan.scheduler.evaluation import Evaluation
from stowplan.scheduler.node_sums import NodeSums

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.handle import Random
    from stowplan.framework.interface import PostFilterResult
    from stowplan.framework.runtime import Framework

NO_NODES = "no nodes available to schedule pods"

#: Evaluations kept a profile; each holds a few arrays with a row a node.
_KEPT_EVALUATIONS = 64


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one attempt."""

    pod: PodInfo
    #: The chosen node; "" when there is none.
    node_name: str = ""
    #: Why there is none: a rejection, or an error.
    status: Status | None = None
    diagnosis: Diagnosis | None = None
    #: What PostFilter plugins said, by plugin, in the order in which they ran.
    post_filter: tuple[tuple[str, PostFilterResult], ...] = ()

    @property
    def message(self) -> str:
        """The reference's text for a pod that found no node; "" for one that did."""
        return "" if self.status is None else self.status.message

    @property
    def nominated_node_name(self) -> str | None:
        """The node that preemption makes room on; None when the pod's nomination stays as it is."""
        return self.post_filter[-1][1].nominated_node_name if self.post_filter else ""

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        return frozenset() if self.diagnosis is None else self.diagnosis.unschedulable_plugins


class Scheduler:
    """Decides for pods of several profiles on one cluster."""

    def __init__(
        self,
        cluster: ClusterState,
        frameworks: dict[str, Framework],
        *,
        random: Random | None = None,
        reuse: bool = True,
    ) -> None:
        self.cluster = cluster
        self.frameworks = frameworks
        self._random = random
        self._reuse = reuse
        self._sums = {name: NodeSums(framework) for name, framework in frameworks.items()}
        self._evaluations: OrderedDict[tuple[str, Any], Evaluation] = OrderedDict()

    def framework_for(self, pod: PodInfo) -> Framework | None:
        """The profile that is responsible for a pod."""
        return self.frameworks.get(pod.pod.spec.scheduler_name or "default-scheduler")

    def schedule(self, framework: Framework, pod: PodInfo) -> Decision:
        """Find the best node for a pod."""
        if not self.cluster.table.count:
            return Decision(pod, status=Status(Code.UnschedulableAndUnresolvable, error=RuntimeError(NO_NODES)))
        evaluation = self._evaluation(framework, pod)
        outcome = evaluation.filter(pod)
        if outcome.error is not None:
            return Decision(pod, status=outcome.error)
        if outcome.diagnosis is not None:
            return post_filtered(framework, outcome.state, pod, outcome.diagnosis)
        row = promised_row(self.cluster, pod, outcome.feasible)
        if row is None:
            if np.count_nonzero(outcome.feasible) == 1:
                # A single feasible node is taken without scoring.
                row = int(outcome.feasible.argmax())
            else:
                totals = evaluation.score(pod, outcome.feasible)
                if isinstance(totals, Status):
                    return Decision(pod, status=totals)
                row = self._best(totals)
        return Decision(pod, self.cluster.table.names[row])

    def _evaluation(self, framework: Framework, pod: PodInfo) -> Evaluation:
        signature = framework.signature(pod) if self._reuse else None
        if signature is None:
            return Evaluation(framework)
        key = (framework.profile_name, signature)
        found = self._evaluations.get(key)
        if found is None:
            found = self._evaluations[key] = Evaluation(framework, self._sums[framework.profile_name])
            if len(self._evaluations) > _KEPT_EVALUATIONS:
                self._evaluations.popitem(last=False)
        else:
            self._evaluations.move_to_end(key)
        return found

    def _best(self, totals: npt.NDArray[np.int64]) -> int:
        """The row with the highest total; among equals the first, or any when there is chance."""
        best = int(totals.argmax())
        if self._random is None:
            return best
        equal = np.flatnonzero(totals == totals[best])
        return int(equal[self._random.randrange(len(equal))]) if len(equal) > 1 else best


def promised_row(cluster: ClusterState, pod: PodInfo, feasible: npt.NDArray[np.bool_]) -> int | None:
    """The node that preemption promised the pod, if it takes the pod now: it wins without scoring."""
    name = cluster.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
    row = cluster.table.row_of.get(name)
    return row if row is not None and feasible[row] else None


def post_filtered(framework: Framework, state: Any, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
    """Let PostFilter plugins try to help a pod that fits nowhere."""
    results: list[tuple[str, PostFilterResult]] = []
    messages: list[str] = []
    for plugin in framework.post_filter:
        result = framework.run_post_filter(plugin, state, pod, diagnosis)
        results.append((plugin.name, result))
        if result.status.code == Code.Success:
            break
        if result.status.code not in (Code.Unschedulable, Code.Pending):
            messages = [result.status.message]
            break
        messages += result.status.shown_reasons
    succeeded = bool(results) and results[-1][1].status.code == Code.Success
    text = diagnosis.message("" if succeeded else ", ".join(messages))
    return Decision(pod, "", Status(Code.Unschedulable, (text,)), diagnosis, tuple(results))
