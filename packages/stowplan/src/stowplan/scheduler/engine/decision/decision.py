"""`Decision`: a node for a pod, or the reasons and a preemption plan."""

from __future__ import annotations

from typing import Any

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.inspection.frames import Row

NO_NODES = "no nodes available to schedule pods"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"


# Not frozen: one is created per attempt, and creating a frozen one takes four times as long.
class Decision(Row, PlainStruct, eq=False):
    """The result of one attempt; read-only.

    Examples:
        >>> [decision] = cluster.schedule(["ml/notebook"])
        >>> decision.node_name, decision.message[:44]
        ('', '0/9 nodes are available: 1 node(s) were unsc')
    """

    pod: PodInfo
    #: The chosen node; "" if there is none.
    node_name: str = ""
    #: Why there is none: a rejection or an error.
    status: Status | None = None
    diagnosis: Diagnosis | None = None
    #: Results of PostFilter plugins, by plugin, in call order.
    post_filter: tuple[tuple[str, PostFilterResult], ...] = ()
    #: What plugins wrote in this attempt. Equal pods share it: clone before use.
    state: CycleState | None = None
    #: Number of evaluated nodes.
    evaluated: int = 0
    #: Number of nodes that the choice was made from.
    feasible: int = 0

    def __repr__(self) -> str:
        if self.node_name:
            return f"<Decision: {self.pod.key} goes to {self.node_name}>"
        return f"<Decision: {self.pod.key} goes nowhere: {self.message}>"

    def to_dict(self) -> dict[str, Any]:
        """The decision as JSON-able data."""
        return {
            "pod": self.pod.key,
            "node": self.node_name,
            "message": self.message,
            "plugins": sorted(self.diagnosis.unschedulable_plugins) if self.diagnosis is not None else [],
            "nominatedNode": self.nominated_node_name or "",
            "evaluatedNodes": self.evaluated,
            "feasibleNodes": self.feasible,
        }

    @property
    def message(self) -> str:
        """The reference's message for an unschedulable pod; "" if there is a node."""
        return "" if self.status is None else self.status.message

    @property
    def nominated_node_name(self) -> str | None:
        """The node that preemption clears; "" removes the nomination, None keeps it."""
        if not self.post_filter:
            return ""
        last = self.post_filter[-1][1]
        if last.status.code in (Code.Unschedulable, Code.Pending):
            # No result ended PostFilter, so the last one with a nomination wins.
            nominations = (result.nominated_node_name for _, result in reversed(self.post_filter))
            return next((name for name in nominations if name is not None), None)
        decided = last.status.code in (Code.Success, Code.UnschedulableAndUnresolvable)
        return last.nominated_node_name if decided else None

    @property
    def plan(self) -> EvictionPlan | None:
        """The evictions that clear the nominated node; None if there are none."""
        return self.post_filter[-1][1].plan if self.post_filter else None

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        return frozenset() if self.diagnosis is None else self.diagnosis.unschedulable_plugins

    @property
    def pending_plugins(self) -> frozenset[str]:
        return frozenset() if self.diagnosis is None else self.diagnosis.pending_plugins


def without_nodes(pod: PodInfo) -> Decision:
    """The decision if there are no nodes at all."""
    return Decision(pod, status=Status(Code.UnschedulableAndUnresolvable, error=RuntimeError(NO_NODES)))


def fits_nowhere(pod: PodInfo, state: CycleState, diagnosis: Diagnosis) -> Decision:
    """The decision for a pod that no node fits, before PostFilter."""
    return Decision(pod, diagnosis=diagnosis, state=state, evaluated=diagnosis.evaluated)
