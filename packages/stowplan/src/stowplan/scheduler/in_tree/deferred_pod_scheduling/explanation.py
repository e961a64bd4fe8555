"""Explain what becomes of a resize that is deferred: whether it fits now, or whom an attempt evicts for it."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.scheduler.cluster.pod_info import resize_is_deferred
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.formatting import listed
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import with_spec
from stowplan.scheduler.framework.interface import ResizeJudge
from stowplan.scheduler.framework.status import Code


class DeferredPodSchedulingExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: ResizeJudge) -> None:
        super().__init__(inspection)
        self._judge = plugin

    def facts(self) -> Iterator[str]:
        node, pod = self.inspection.current_node, self.inspection.pod.pod
        if not node or pod.metadata.deletion_timestamp is not None or not resize_is_deferred(pod):
            return
        cluster = self.inspection.cluster
        # A resize is judged with the pod on its node.
        with cluster.transaction():
            placed = cluster.add_pod(with_spec(pod, node_name=node))
            verdict = self._judge.judge_resize(placed, asking=True)
        then = ""
        if verdict.plan is not None:
            then = f"; an attempt evicts {listed([victim.key for victim in verdict.plan.victims])} for it"
        elif verdict.status.code == Code.Unschedulable:
            then = "; nothing can be evicted for it"
        yield f"its resize on {node} is deferred: {verdict.status.message}{then}"
