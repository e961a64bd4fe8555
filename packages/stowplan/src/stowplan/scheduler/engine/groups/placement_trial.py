"""Place a group's pods within a transaction, and undo it.

Each pod sees those before it on their nodes. Victims of preemption stay, so a node may look fuller than it will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.groups.group_trial import TriedPod
from stowplan.scheduler.engine.schedule_one import failure_of, reserve
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.runtime.binding import run_unreserve
from stowplan.scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.cluster.transaction import Transaction
    from stowplan.scheduler.engine.context import Reporter
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.decision.decision import Decision
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.queue.queued_pod import QueuedPod


class PlacementTrial:
    """The pods of a group in one placement, from `open` to `undo`."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        framework: Framework,
        pods: Sequence[QueuedPod],
        reporter: Reporter,
    ) -> None:
        self.state: ClusterState = algorithm.cluster
        self.framework = framework
        self.reporter = reporter
        #: What has to be undone: pods on their nodes, in order.
        self.placed: list[tuple[TriedPod, PodInfo, CycleState]] = []
        self._sampling = algorithm.sampling
        self._uids = frozenset(queued.pod.uid for queued in pods)
        self._transaction: Transaction | None = None

    def open(self) -> None:
        self._transaction = self.state.transaction().__enter__()
        self.state.pod_groups.on_trial = self._uids

    def place(self, queued: QueuedPod, decision: Decision) -> TriedPod:
        """Place a pod on the chosen node, or the one that preemption clears, if Reserve and Permit succeed."""
        host = decision.node_name or _made_room(decision)
        # Equal pods share the decision's state, which changes with the next of them.
        state = CycleState() if decision.state is None else decision.state.clone()
        decision.state = state
        tried = TriedPod(queued=queued, decision=decision)
        if not host:
            return tried
        info = PodInfo(queued.pod.pod, queued.pod.shape)
        reservation = reserve(self.framework, state, info, host)
        if reservation is not None:
            for problem in reservation.problems:
                self.reporter.report(problem)
            if reservation.failed is not None:
                tried.failed = failure_of(reservation.failed)
                return tried
            tried.wait = reservation.wait
        tried.host = host
        self.placed.append((tried, info, state))
        return tried

    def undo(self) -> None:
        """Undo everything. Idempotent."""
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        for tried, info, state in reversed(self.placed):
            if self.state.is_assumed(info.uid):
                for problem in run_unreserve(self.framework, state, info, tried.host):
                    self.reporter.report(problem)
                self.state.forget(info)
        self.state.pod_groups.on_trial = frozenset()
        start = self._sampling.start
        transaction.rollback()
        # Keep the sampling position: searches continue after the nodes of this one.
        self._sampling.start = start


def _made_room(decision: Decision) -> str:
    """The node that a PostFilter plugin just nominated the pod to; "" also if an earlier nomination stays."""
    succeeded = decision.post_filter and decision.post_filter[-1][1].status.code == Code.Success
    return (decision.nominated_node_name or "") if succeeded else ""
