"""The live scheduler: its parts wired together, and the loop that drives them.

One event loop owns everything. Informers deliver batches of changes; between them the loop pops a pod, runs its
scheduling cycle to the end without waiting, and starts a coroutine for its binding. Nothing is locked, as nothing else
runs meanwhile. What needs the network, or a timer, is a task beside the loop: binding cycles, status patches, events,
evictions, the informers themselves.

    async with HttpApi.open(connection, ...) as api:
        await Scheduler(api, config, registry=in_tree_registry()).run()  # until cancelled

Upstream: pkg/scheduler/scheduler.go and schedule_one.go; docs/behaviour.md, The scheduling cycle.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stowplan.client.events.event_recorder import EventBroadcaster
from stowplan.cluster.state import ClusterState
from stowplan.config import DEFAULT_FEATURES
from stowplan.engine.algorithm import SchedulingAlgorithm
from stowplan.engine.attempt import Attempt, Failure
from stowplan.engine.attempt_metrics import AttemptMetrics
from stowplan.engine.event_handlers import EventHandlers
from stowplan.engine.failure_handler import FailureHandler
from stowplan.engine.scheduling_cycle import SchedulingCycle
from stowplan.engine.size_metrics import SizeMetrics
from stowplan.engine.watched_kinds import watched_kinds
from stowplan.framework.events import SCHEDULE_ATTEMPT_FAILURE
from stowplan.framework.handle import Handle
from stowplan.framework.metrics import FrameworkMetrics
from stowplan.framework.runtime import Framework
from stowplan.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.inspection.stories import Stories
from stowplan.klog import get_logger
from stowplan.live.binding_cycle import BindingCycle
from stowplan.live.cancellation import cancel_all
from stowplan.live.evictor import Evictor
from stowplan.live.informers import Informers
from stowplan.live.status_writer import PodStatusWriter
from stowplan.metrics.registry import MetricsRegistry
from stowplan.metrics.scheduler import SchedulerMetrics
from stowplan.queue.backoff import QueueSettings
from stowplan.queue.metrics import QueueMetrics
from stowplan.queue.observer import QueueObserver
from stowplan.queue.queued_pod import Place
from stowplan.queue.scheduling_queue import QUEUE_NAMES, SchedulingQueue
from stowplan.timing.times import REAL_TIMES, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from stowplan.api.port import Api
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.config import Configuration, FeatureGates
    from stowplan.framework.handle import Random
    from stowplan.framework.registry import Registry
    from stowplan.queue.queued_pod import QueuedPod

#: Binding cycles at a time, without those that wait on Permit. Deciding further ahead would only decide on older
#: knowledge.
MAX_CONCURRENT_BINDINGS = 256
#: Seconds that the loop schedules before it yields to other tasks. Longer turns cost less per pod; after a rejected pod
#: they are shorter, as crowds of those must not delay the news that would help them.
TURN_SECONDS = 0.002
TURN_SECONDS_AFTER_REJECTION = 0.0002
#: Pods per turn, however quick they are.
MAX_PODS_PER_TURN = 16
#: After a turn this long, such as one in which a plugin hung, other tasks get a pause of the loop: the lease has to be
#: renewed and health checks answered before the next turn, which may be as long.
LONG_TURN_SECONDS, PAUSE_AFTER_LONG_TURN = 1.0, 0.2
#: Seconds for what is still to be written when the scheduler ends.
SHUTDOWN_TIMEOUT = 5.0
#: Seconds for events after the lease is lost: another replica leads by now.
FLUSH_TIMEOUT_AFTER_LOST_LEASE = 1.0

#: Seconds that cancelled tasks have to end: a plugin may swallow the cancellation.
CANCELLATION_TIMEOUT = 1.0

#: Only a bug gets here; otherwise scheduling would stop silently.
_ENDED_UNEXPECTEDLY = "a part of the scheduler ended, or was cancelled, unexpectedly"

_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """What is not in KubeSchedulerConfiguration."""

    max_in_unschedulable: float = 300.0
    #: For the reportingInstance of events.
    hostname: str = "localhost"
    #: Seconds between two checks whether kinds that the cluster did not serve are served.
    unserved_kinds_interval: float = 60.0


class NotSupportedError(ValueError):
    """The configuration asks for something that this scheduler cannot do yet."""


class Scheduler:
    def __init__(
        self,
        api: Api,
        config: Configuration,
        *,
        registry: Registry,
        times: Times = REAL_TIMES,
        random: Random | None = None,
        settings: SchedulerSettings | None = None,
        features: FeatureGates = DEFAULT_FEATURES,
        metrics: SchedulerMetrics | None = None,
        give_up_waiting: Callable[[], None] | None = None,
    ) -> None:
        """`give_up_waiting` cancels binds that wait for the rate limit, and lifts the limit."""
        if config.extenders:
            raise NotSupportedError("extenders: not supported yet; without them the pods would go elsewhere")
        settings = settings or SchedulerSettings()
        self._times = times
        self.metrics = metrics or SchedulerMetrics(MetricsRegistry(), gates=features)
        self._started_at = times.wall_clock() - times.clock()
        self.state = ClusterState()
        self.stories = Stories(now=self.clock)
        self.waiting_pods = WaitingPods(now=times.clock)
        self._pods_in_pre_bind = PodsInPreBind()
        self._broadcaster = EventBroadcaster(api, hostname=settings.hostname, times=times, report=_report)
        self._statuses = PodStatusWriter(api, times=times, report=_report)
        #: Tasks beside the loop that end by themselves: binding cycles, preemptions.
        self._tasks: set[asyncio.Task[None]] = set()
        self._evictor = Evictor(
            api=api,
            state=self.state,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            statuses=self._statuses,
            times=times,
            metrics=self.metrics,
            activate=self._activate,
            spawn=self._spawn,
            report=_report,
        )
        self.frameworks = self._frameworks(api, config, registry, random, features)
        self._wake = asyncio.Event()
        self.queue = SchedulingQueue(
            self.frameworks,
            self.state.nominator,
            self.state.pending,
            now=self.clock,
            metrics=QueueMetrics(self.metrics, now=times.clock),
            settings=QueueSettings(
                initial_backoff=config.pod_initial_backoff_seconds,
                max_backoff=config.pod_max_backoff_seconds,
                max_in_unschedulable=settings.max_in_unschedulable,
                pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            ),
            observer=_Observer(self.stories, self._wake),
        )
        #: Where a second begins for the queue: backoffs that end in whole seconds do so for all pods at once.
        self._second = 0.0 if features.enabled("SchedulerPopFromBackoffQ") else self.clock()
        self.algorithm = SchedulingAlgorithm(
            self.state,
            self.frameworks,
            random=random,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        )
        self._sizes = SizeMetrics(self.metrics, queue=self.queue, state=self.state)
        self._wire(api, times, settings)
        #: Set when the informers have delivered their first lists, and pods are being scheduled.
        self.ready = asyncio.Event()
        self._give_up_waiting = give_up_waiting
        #: The scheduling loop and the queue's timers, while they run.
        self._loops: list[asyncio.Task[None]] = []
        self._halted = self._draining = False
        self._binding_now = 0
        self._fewer_binding = asyncio.Event()

    def _frameworks(
        self, api: Api, config: Configuration, registry: Registry, random: Random | None, features: FeatureGates
    ) -> dict[str, Framework]:
        found = {}
        for profile in config.profiles:
            handle = Handle(
                cluster=self.state,
                profile_name=profile.scheduler_name,
                features=features,
                random=random,
                activate=self._activate,
                waiting_pods=self.waiting_pods,
                pods_in_pre_bind=self._pods_in_pre_bind,
                api=api,
                event_recorder=self._broadcaster.recorder(profile.scheduler_name),
                preemptions=self._evictor,
                metrics=FrameworkMetrics(
                    self.metrics,
                    profile=profile.scheduler_name,
                    now=self._times.clock,
                    chance=self._times.random,
                ),
            )
            found[profile.scheduler_name] = Framework(profile, registry, handle)
        return found

    def _wire(self, api: Api, times: Times, settings: SchedulerSettings) -> None:
        attempts = AttemptMetrics(self.metrics, now=self.clock)
        self._failures = FailureHandler(
            state=self.state,
            queue=self.queue,
            statuses=self._statuses,
            metrics=attempts,
            report=_report,
        )
        self._cycle = SchedulingCycle(
            algorithm=self.algorithm,
            state=self.state,
            queue=self.queue,
            waiting_pods=self.waiting_pods,
            stories=self.stories,
            metrics=attempts,
            report=_report,
        )
        self._binding = BindingCycle(
            state=self.state,
            queue=self.queue,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            statuses=self._statuses,
            failures=self._failures,
            stories=self.stories,
            times=times,
            metrics=attempts,
            report=_report,
        )
        self.handlers = EventHandlers(
            state=self.state,
            queue=self.queue,
            algorithm=self.algorithm,
            waiting_pods=self.waiting_pods,
            statuses=self._statuses,
            stories=self.stories,
            durations=self.metrics.event_handling_duration_seconds,
            now=times.clock,
        )
        self.informers = Informers(
            api,
            kinds=watched_kinds(self.frameworks.values(), report=_report),
            receiver=self.handlers,
            times=times,
            report=_report,
            unserved_kinds_interval=settings.unserved_kinds_interval,
        )

    # -- what the parts need of each other ----------------------------------------------------------------------------

    def clock(self) -> float:
        """Seconds since the epoch by a monotonic clock: the wall clock at the start, and what has passed since."""
        return self._started_at + self._times.clock()

    def _activate(self, pods: Sequence[PodInfo]) -> None:
        self.queue.activate(pods)

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str | None = None) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failed := task.exception()) is not None:
            _log.error(failed, "a background task failed", trace=True)

    # -- the loop -----------------------------------------------------------------------------------------------------

    @property
    def synced(self) -> asyncio.Event:
        """Set when the informers have delivered their first lists."""
        return self.informers.synced

    async def run(self, *, lead: asyncio.Event | None = None) -> None:
        """Keep up with the cluster until cancelled, and schedule from when `lead` is set; None: at once."""
        tasks = [
            asyncio.create_task(self._broadcaster.run()),
            asyncio.create_task(self.informers.run()),
            asyncio.create_task(self._working(lead)),
        ]
        try:
            await _first_to_end(tasks)
            raise RuntimeError(_ENDED_UNEXPECTEDLY)
        finally:
            await self._stop(tasks)

    async def drain(self) -> None:
        """Begin no more; let binds that were sent get there, and give up those that still wait for their turn.

        Pods that are given up stay pending, for whoever schedules next.
        """
        self._draining = True
        await self._cancelled(self._loops)
        if self._give_up_waiting is not None:
            self._give_up_waiting()
        await self._finish()

    async def halt(self) -> None:
        """Write nothing more to the cluster: another replica schedules it."""
        self._halted = self._draining = True
        await self._cancelled((*self._loops, *self._tasks))
        await self._statuses.abandon()
        if self._give_up_waiting is not None:
            self._give_up_waiting()

    async def _stop(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        broadcasting, *others = tasks
        await self._cancelled(others)
        if not self._halted:
            await self.drain()
        self.queue.close()
        _log.v(2).info("Scheduling queue is closed")
        if not self._halted:
            await self._statuses.close(SHUTDOWN_TIMEOUT)
        await self._broadcaster.flush(FLUSH_TIMEOUT_AFTER_LOST_LEASE if self._halted else SHUTDOWN_TIMEOUT)
        broadcasting.cancel()
        await asyncio.gather(broadcasting, return_exceptions=True)
        for framework in self.frameworks.values():
            for problem in framework.close():
                _report(problem)

    async def _cancelled(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        stubborn = await cancel_all(tasks, seconds=CANCELLATION_TIMEOUT, sleep=self._times.sleep)
        if stubborn:
            # Nobody waits for them again.
            self._tasks -= stubborn
            text = "cancelled tasks did not end and are abandoned; plugins must not swallow CancelledError"
            _log.error(None, text, tasks=sorted(task.get_name() for task in stubborn))

    async def _finish(self) -> None:
        """Let binding cycles end; those that wait on Permit would not in time."""
        timer = asyncio.ensure_future(self._times.sleep(SHUTDOWN_TIMEOUT))
        try:
            while len(self._tasks) > self._resting and not timer.done():
                await asyncio.wait((*self._tasks, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        await self._cancelled((*self._tasks, timer))

    async def _working(self, lead: asyncio.Event | None) -> None:
        await self.informers.synced.wait()
        if lead is not None:
            await lead.wait()
        try:
            # The end may have been asked for before there were first lists.
            if not self._draining:
                self.ready.set()
                self._loops = [asyncio.create_task(self._flushing()), asyncio.create_task(self._scheduling())]
                await _first_to_end(self._loops)
            if not self._draining:
                raise RuntimeError(_ENDED_UNEXPECTEDLY)
            # The other tasks run until the scheduler is cancelled.
            await asyncio.Event().wait()
        finally:
            await self._cancelled(self._loops)

    async def _scheduling(self) -> None:
        clock = self._times.clock
        while True:
            turn_began, turn = clock(), 0.0
            for _ in range(MAX_PODS_PER_TURN):
                queued = self.queue.pop()
                if queued is None:
                    self._wake.clear()
                    await self._wake.wait()
                    break
                self.schedule_one(queued)
                turn = clock() - turn_began
                while self._binding_now >= MAX_CONCURRENT_BINDINGS:
                    self._fewer_binding.clear()
                    await self._fewer_binding.wait()
                    turn_began = clock()
                if turn > (TURN_SECONDS_AFTER_REJECTION if queued.unschedulable_count else TURN_SECONDS):
                    break
            await (asyncio.sleep(0) if turn < LONG_TURN_SECONDS else self._times.sleep(PAUSE_AFTER_LONG_TURN))

    async def _flushing(self) -> None:
        """Look after the queue's timers: once a second, and whenever it knows that something is due."""
        while True:
            self.queue.flush()
            now = self.clock()
            wait = 1.0 - (now - self._second) % 1.0
            due = self.queue.next_flush()
            await self._times.sleep(wait if due is None or due <= now else min(wait, due - now))

    def schedule_one(self, queued: QueuedPod) -> None:
        """Run a popped pod's scheduling cycle, and set off its binding."""
        pod = queued.pod
        verbose = _log.v(4)
        if verbose.enabled:
            verbose.info("About to try and schedule pod", pod=pod)
        framework = self.algorithm.framework_for(pod)
        if framework is None:
            name = pod.pod.spec.scheduler_name
            _log.error(f'profile not found for scheduler name "{name}"', "Error occurred", pod=pod)
            self.queue.done(pod.uid)
            return
        if self._skipped(framework, pod):
            self.queue.done(pod.uid)
            return
        verbose = _log.v(3)
        if verbose.enabled:
            verbose.info("Attempting to schedule pod", pod=pod)
        started = self.clock()
        outcome = self._cycle.run(framework, queued, started=started)
        if isinstance(outcome, Failure):
            if outcome.plan is not None:
                # First: PreEnqueue holds the pod back from when it returns to the queue.
                self._evictor.carry_out(outcome.plan, framework.handle.event_recorder)
            self._failures.handle(framework, queued, outcome, started=started)
        else:
            # Counted at once: the task begins only when the loop has its next turn.
            counted = not outcome.permit_timeouts
            self._binding_now += counted
            self._spawn(self._bind(outcome, counted=counted), name=f"binding {pod.key}")

    def _skipped(self, framework: Framework, pod: PodInfo) -> bool:
        if pod.terminating:
            recorder = framework.handle.event_recorder
            if recorder is not None:
                note = f"skip schedule deleting pod: {pod.key}"
                recorder.event(pod.pod, type_="Warning", reason="FailedScheduling", action="Scheduling", note=note)
            _log.v(3).info("Skip schedule deleting pod", pod=pod)
            return True
        return self.state.is_assumed(pod.uid)

    async def _bind(self, attempt: Attempt, *, counted: bool) -> None:
        try:
            await self._binding.run(attempt)
        finally:
            self._binding_now -= counted
            self._fewer_binding.set()

    @property
    def _resting(self) -> int:
        """Tasks that only time, or a plugin's word, moves on."""
        return len(self.waiting_pods) + self._evictor.delayed_retries

    # -- for pages, metrics and tests ---------------------------------------------------------------------------------

    def refresh_metrics(self) -> None:
        """Set the gauges of sizes, before metrics are shown."""
        self._sizes.refresh()

    @property
    def dropped_events(self) -> int:
        """Events lost because too many waited."""
        return self._broadcaster.dropped

    @property
    def busy(self) -> bool:
        """Whether a pod could be scheduled, is being bound, or something is still to be written."""
        return bool(
            self.queue.counts()["active"]
            or len(self._tasks) > self._resting
            or not self._statuses.idle
            or not self._broadcaster.idle
        )


class _Observer(QueueObserver):
    """Has pods' stories kept, moves logged, and the scheduling loop woken."""

    def __init__(self, stories: Stories, wake: asyncio.Event) -> None:
        self._stories = stories
        self._wake = wake

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        self._stories.moved(queued, place, cause)
        verbose = _log.v(5)
        if not verbose.enabled or place not in QUEUE_NAMES:
            return
        text = "Pod moved to an internal scheduling queue"
        if place is Place.UNSCHEDULABLE:
            if queued.gated:
                text += ", because the pod is gated"
            elif cause == SCHEDULE_ATTEMPT_FAILURE:
                # The queue itself logs more of these.
                return
        verbose.info(text, pod=queued.pod, event=cause, queue=QUEUE_NAMES[place])

    def problem(self, text: str) -> None:
        _report(text)

    def ready(self) -> None:
        self._wake.set()


def _report(problem: str) -> None:
    _log.warning(problem)


async def _first_to_end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Until one of them ends, be it cancelled; what fails is raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        if not task.cancelled():
            task.result()
