"""What the parts of an engine share: settings, randomness and time, and the objects that most of them use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.dumped import DumpedTimer
from stowplan.scheduler.engine.leaving_pods import LeavingPods
from stowplan.scheduler.engine.outbox import Alarm, Outbox
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.framework.events import SCHEDULE_ATTEMPT_FAILURE, ClusterEvent
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.scheduler.inspection.stories import Stories
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, QueuedPod, log_keys
from stowplan.scheduler.queue.scheduling_queue import QUEUE_NAMES, SchedulingQueue

_log = get_logger(__name__)


class Meter(Protocol):
    """For metrics: a stopwatch, and random numbers for sampling."""

    def clock(self) -> float: ...

    def random(self) -> float: ...


class EngineSettings(PlainStruct, frozen=True, kw_only=True):
    """Settings that are not in KubeSchedulerConfiguration."""

    max_in_unschedulable: float = 300.0
    #: Whether stories of pods are kept and Events recorded.
    stories: bool = True
    events: bool = True
    #: Whether equal pods share results.
    reuse: bool = True
    #: Whether other pods are tried while one waits for an extender.
    overlaps: bool = False


class Stopwatch:
    """Time for metrics, comparable with the engine's, but advancing within a step."""

    def __init__(self, meter: Meter, now: float) -> None:
        self._clock = meter.clock
        #: The engine's time minus the meter's.
        self.ahead = now - meter.clock()

    def now(self) -> float:
        return self.ahead + self._clock()


@mypyc_attr(allow_interpreted_subclasses=True)
class Reporter:
    """Reports problems that are not part of any result, such as a failing Unreserve."""

    def report(self, problem: str) -> None:
        """Log a problem in one line."""
        _log.warning(problem)


class EngineContext(PlainStruct, kw_only=True, eq=False):
    """Objects shared by the parts of the engine."""

    outbox: Outbox
    #: Time for metrics and stories.
    stopwatch: Stopwatch
    state: ClusterState
    waiting_pods: WaitingPods
    pods_in_pre_bind: PodsInPreBind
    leaving: LeavingPods
    stories: Stories
    reporter: Reporter
    queue: SchedulingQueue
    statuses: PodStatuses
    #: The active profiles, by scheduler name.
    profiles: Mapping[str, Framework]


class QueueWatcher(QueueObserver):
    """Turns queue moves into stories and log lines."""

    def __init__(self, stories: Stories, reporter: Reporter, version: KubernetesVersion) -> None:
        self._stories = stories
        self._reporter = reporter
        self._version = version
        self._words = ("Pod", "the pod") if version < V1_37 else ("Entity", "it")

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        if self._stories.kept:
            self._stories.moved(queued, place, cause)
        if _log.verbosity >= 5 and queued.entry is None:
            self._log_move(queued, place, cause)

    def group_moved(self, group: QueuedGroup, place: Place, cause: str) -> None:
        if _log.verbosity >= 5:
            self._log_move(group, place, cause)

    def _log_move(self, queued: QueuedPod, place: Place, cause: str) -> None:
        if place not in QUEUE_NAMES:
            return
        text = f"{self._words[0]} moved to an internal scheduling queue"
        if place is Place.UNSCHEDULABLE:
            if queued.gated:
                text += f", because {self._words[1]} is gated"
            elif cause == SCHEDULE_ATTEMPT_FAILURE:
                # Logged in more detail by the queue itself.
                return
        _log.v(5).info(text, **log_keys(queued, self._version), event=cause, queue=QUEUE_NAMES[place])

    def woken(self, pods: Sequence[QueuedPod], event: ClusterEvent, changed: Any) -> None:
        self._stories.woken(pods, event.label, changed)

    def problem(self, text: str) -> None:
        self._reporter.report(text)


class QueueTimer:
    """Wakes the queue: once a second, and when a backoff ends."""

    def __init__(self, context: EngineContext, *, second: float) -> None:
        """`second`: the phase of the interval. Backoffs in whole seconds end at the same time for all pods."""
        self._context = context
        self._second = second
        self._alarm: Alarm | None = None

    def __str__(self) -> str:
        return "queue's timer"

    @property
    def is_set(self) -> bool:
        """Whether it will fire, or has not been set for the first time yet."""
        return self._alarm is None or self._alarm.target is self

    def on_wake(self) -> None:
        outbox, queue = self._context.outbox, self._context.queue
        queue.flush()
        at = outbox.now + 1.0 - (outbox.now - self._second) % 1.0
        due = queue.next_flush()
        self._alarm = outbox.wake(at if due is None or due <= outbox.now else min(at, due), self)

    def start(self) -> None:
        if self._alarm is None:
            self.on_wake()

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # -- dump and load ------------------------------------------------------------------------------------------------

    def dump(self) -> DumpedTimer:
        return DumpedTimer(second=self._second, at=None if self._alarm is None else self._alarm.at)

    def load(self, dumped: DumpedTimer) -> None:
        self._second = dumped.second
        if dumped.at is not None:
            self._alarm = self._context.outbox.wake(dumped.at, self)
