"""Assume, Reserve and Permit for a chosen node, undone on failure.

Upstream: the second half of schedulingCycle in pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.runtime.binding import run_assumed, run_permit, run_reserve, run_unreserve
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.runtime.framework import Framework


class Reservation(PlainStruct, eq=False):
    """The result of Reserve and Permit for a pod on a node."""

    #: Why the pod cannot use the node: a rejection or an error. Everything was unreserved.
    failed: Status | None = None
    #: Permit's status if the pod has to wait.
    wait: Status | None = None
    #: Permit plugins that make the pod wait -> timeout in seconds.
    permit_timeouts: Mapping[str, float] = field(default_factory=dict)
    #: Failures of Unreserve.
    problems: list[str] = field(default_factory=list)


def reserve(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Reservation | None:
    """Assume the pod on the node and run Reserve and Permit.

    None: the pod has the node, and its binding cycle can begin with Bind. No Reserve, Permit or PreBind plugin has
    anything to do for it, and there are no metrics for their calls.

    Raises ValueError if the pod is already on a node.
    """
    cluster = framework.handle.cluster
    if framework.assuming and (failed := run_assumed(framework, state, pod, node_name)) is not None:
        return Reservation(failed=failed)
    cluster.assume(pod, node_name)
    if framework.metrics is None and not framework.permit:
        concerned = framework.concerned(pod.shape)
        if not concerned.reserve and not concerned.pre_bind:
            return None
    result = Reservation()
    result.failed = run_reserve(framework, state, pod, node_name, problems=result.problems)
    if result.failed is None:
        answer, result.permit_timeouts = run_permit(framework, state, pod, node_name)
        if answer is not None and answer.code == Code.Wait:
            result.wait = answer
        elif answer is not None:
            result.failed = answer
            result.problems += run_unreserve(framework, state, pod, node_name)
    if result.failed is not None:
        cluster.forget(pod)
    return result
