"""Turn queue moves into stories and log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.klog import get_logger
from stowplan.scheduler.framework.events import SCHEDULE_ATTEMPT_FAILURE
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.scheduler.queue.scheduling_queue import QUEUE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.engine.reporter import Reporter
    from stowplan.scheduler.framework.events import ClusterEvent
    from stowplan.scheduler.inspection.stories import Stories
    from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


class QueueWatcher(QueueObserver):
    def __init__(self, stories: Stories, reporter: Reporter) -> None:
        self._stories = stories
        self._reporter = reporter

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        if self._stories.kept:
            self._stories.moved(queued, place, cause)
        if _log.verbosity < 5 or place not in QUEUE_NAMES:
            return
        text = "Pod moved to an internal scheduling queue"
        if place is Place.UNSCHEDULABLE:
            if queued.gated:
                text += ", because the pod is gated"
            elif cause == SCHEDULE_ATTEMPT_FAILURE:
                # Logged in more detail by the queue itself.
                return
        _log.v(5).info(text, pod=queued.pod, event=cause, queue=QUEUE_NAMES[place])

    def woken(self, pods: Sequence[QueuedPod], event: ClusterEvent, changed: Any) -> None:
        self._stories.woken(pods, event.label, changed)

    def problem(self, text: str) -> None:
        self._reporter.report(text)
