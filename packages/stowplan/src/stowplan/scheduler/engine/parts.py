"""Objects shared by the parts of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.leaving_pods import LeavingPods
    from stowplan.scheduler.engine.outbox import Outbox
    from stowplan.scheduler.engine.reporter import Reporter
    from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
    from stowplan.scheduler.inspection.stories import Stories
    from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue


class Parts(PlainStruct, kw_only=True, eq=False):
    outbox: Outbox
    state: ClusterState
    waiting_pods: WaitingPods
    pods_in_pre_bind: PodsInPreBind
    leaving: LeavingPods
    stories: Stories
    reporter: Reporter
    #: Set after the profiles are built, which plugins need first.
    queue: SchedulingQueue = None  # type: ignore[assignment]
