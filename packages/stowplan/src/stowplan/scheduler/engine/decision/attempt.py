"""A scheduling attempt: its intermediate results, and its failure.

Upstream: pkg/scheduler/schedule_one.go (ScheduleResult), pkg/scheduler/framework/types.go (FitError).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import histogram_text
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.framework.eviction_plan import EvictionPlan

_NOBODY: frozenset[str] = frozenset()


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """A popped pod on its way to a node."""

    queued: QueuedPod
    framework: Framework
    #: The pod as the cluster has it; updated by the watch once it is assumed. The pod as of the start of the attempt is
    #: `queued.pod`.
    pod: PodInfo
    node_name: str
    #: When the attempt began.
    started: float
    #: The attempt's own state, not shared.
    state: CycleState
    #: Permit plugins that make the pod wait -> timeout in seconds.
    permit_timeouts: Mapping[str, float] = msgspec.field(default_factory=dict)
    evaluated: int = 0
    feasible: int = 0
    #: Whether its binding cycle starts with Bind: there is no Permit wait, no PreBind work, and no metrics for either.
    goes_straight: bool = False


class Failure(PlainStruct, frozen=True, kw_only=True):
    """How an attempt ended without binding the pod, and the consequences."""

    status: Status
    #: Plugins that rejected the pod, whose events requeue it. If empty, the pod failed with an error.
    unschedulable_plugins: frozenset[str] = _NOBODY
    pending_plugins: frozenset[str] = _NOBODY
    #: The node that the pod is nominated to; "" removes the nomination; None keeps it.
    nominated_node_name: str | None = ""
    #: The evictions that clear that node.
    plan: EvictionPlan | None = None

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return "Unschedulable" if self.status.rejected else "SchedulerError"

    @property
    def message(self) -> str:
        return self.status.message


def refused_by_node(status: Status) -> Failure:
    """A rejection by Reserve, Permit or a plugin that the pod waited for: a fit error for one node."""
    listed = histogram_text(Counter(status.shown_reasons))
    text = f"0/1 nodes are available: {listed}." if listed else "0/1 nodes are available:"
    # Parity: a pod rejected because it is being deleted has a rejecting plugin without a name, so no event requeues it.
    plugins = frozenset((status.plugin,))
    return Failure(
        status=Status(status.code, (text,), status.plugin),
        unschedulable_plugins=plugins,
        pending_plugins=plugins if status.code == Code.Pending else _NOBODY,
    )


def on_node(pod: Pod, node_name: str) -> Pod:
    """A copy of the pod, bound to the node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
