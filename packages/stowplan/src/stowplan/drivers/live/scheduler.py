"""The live scheduler: the engine on an event loop, connected to a real cluster.

One event loop owns everything. Informers deliver batches of changes; in between, the engine tries a pod, and the loop
starts a task for each resulting effect: bindings, status patches, evictions, coroutines of plugins. No decisions are
made here: what depends on the driver's clock, such as the end of a turn, is passed to the engine as inputs.

    async with HttpApi.open(connection, ...) as api:
        await Scheduler(api, config, registry=in_tree_registry()).run()  # until cancelled

Upstream: pkg/scheduler/scheduler.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from stowplan.drivers.live.effects import Effects
from stowplan.drivers.live.engine_clock import EngineClock
from stowplan.drivers.live.extenders import HttpExtenderClients
from stowplan.drivers.live.informers import Informers
from stowplan.drivers.live.measuring import Measuring
from stowplan.drivers.live.reconfiguration import Reconfiguration, RefusedConfigurationError
from stowplan.kube.api.documents import Documents
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.client.events.event_recorder import EventBroadcaster
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import SCHEDULE, TICK, Engine
from stowplan.scheduler.engine.inputs import Changes, Closing, Served, Started, Stopped, WallClock
from stowplan.scheduler.engine.validation import InvalidStateError
from stowplan.scheduler.engine.watched_kinds import measured_sources, watched_kinds

if TYPE_CHECKING:
    from stowplan.drivers.live.effects import ExtenderClients
    from stowplan.kube.api.meta import ApiStruct
    from stowplan.kube.api.port import Api, Change
    from stowplan.kube.config import Configuration, FeatureGates
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.input_log.input_recorder import Recorder
    from stowplan.scheduler.engine.inputs import Input
    from stowplan.scheduler.engine.schedule_one import AttemptTracer
    from stowplan.scheduler.framework.extender import Extender
    from stowplan.scheduler.framework.handle import Random
    from stowplan.scheduler.framework.requests import Ask, Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.runtime.registry import Registry
    from stowplan.scheduler.framework.waiting_pods import WaitingPods
    from stowplan.scheduler.inspection.stories import Stories
    from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue


#: Seconds that the loop schedules before it yields to other tasks. Longer turns cost less per pod. After a rejected pod
#: they are shorter, so that many of those do not delay the events that would help them.
TURN_SECONDS = 0.002
TURN_SECONDS_AFTER_REJECTION = 0.0002
#: Maximum number of pods per turn.
MAX_PODS_PER_TURN = 16
#: After a turn this long, for example because a plugin hung, other tasks get this pause: the lease has to be renewed
#: and health checks answered before the next turn, which may take as long.
LONG_TURN_SECONDS, PAUSE_AFTER_LONG_TURN = 1.0, 0.2
#: Timeout in seconds for pending writes at shutdown.
SHUTDOWN_TIMEOUT = 5.0
#: Timeout in seconds for events after the lease is lost: another replica leads by now.
FLUSH_TIMEOUT_AFTER_LOST_LEASE = 1.0

#: Timeout in seconds for cancelled tasks, as a plugin may suppress the cancellation.
CANCELLATION_TIMEOUT = 1.0

#: Only a bug gets here; otherwise scheduling would stop silently.
_ENDED_UNEXPECTEDLY = "a part of the scheduler ended, or was cancelled, unexpectedly"

_log = get_logger(__name__)


class SchedulerSettings(PlainStruct, frozen=True, kw_only=True):
    """Settings that are not in KubeSchedulerConfiguration."""

    max_in_unschedulable: float = 300.0
    #: For the reportingInstance of events.
    hostname: str = "localhost"
    #: Seconds between checks for kinds that the cluster did not serve.
    unserved_kinds_interval: float = 60.0
    #: Whether other pods are tried while one waits for an extender.
    overlaps: bool = False
    #: User agent of requests to extenders.
    agent: str = "stowplan"
    #: For debugging: verify the engine's invariants after every step, and exit with an error if one is violated. Each
    #: check covers the whole cluster.
    validate: bool = False


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
        recorder: Recorder | None = None,
        tracer: AttemptTracer | None = None,
        extenders: Sequence[Extender] | None = None,
        extender_clients: ExtenderClients | None = None,
        documents: Documents | None = None,
        may_change: Callable[[], bool] | None = None,
    ) -> None:
        """`give_up_waiting` cancels binds that wait for the rate limit, lifts it, and does not wait for a dead server.

        `extenders` are in call order, and `extender_clients` call them; None: those of the configuration, over HTTP.
        `documents` has the objects that the API keeps in full for them. `may_change` returns whether an extender may be
        asked to bind.
        """
        settings = settings or SchedulerSettings()
        self._times = times
        self._clock = EngineClock(times)
        self.metrics = metrics or SchedulerMetrics(MetricsRegistry(), gates=features)
        rules = EngineSettings(max_in_unschedulable=settings.max_in_unschedulable, overlaps=settings.overlaps)
        now = self.clock()
        self._recorder = recorder
        if recorder is not None:
            recorder.begin(config, now=now, features=features, settings=rules, random=random)
        self.engine = Engine(
            config,
            registry=registry,
            now=now,
            meter=times,
            metrics=self.metrics,
            random=random,
            features=features,
            settings=rules,
            api=api,
            extenders=extenders,
            tracer=tracer,
        )
        self.engine.attach(self)
        self._documents = Documents(()) if documents is None else documents
        self._extender_calls = HttpExtenderClients(
            config, self._documents, times=times, agent=settings.agent, may_change=may_change or _always
        )
        self._alarm = _Alarm(self._clock, self.tick)
        self._broadcaster = EventBroadcaster(api, hostname=settings.hostname, times=times, report=_report)
        self._effects = Effects(
            api,
            self.engine,
            submit=self.submit,
            wake_at=self._alarm.set,
            broadcaster=self._broadcaster,
            hostname=settings.hostname,
            extender_clients=self._extender_calls if extender_clients is None else extender_clients,
        )
        self.informers = Informers(
            api,
            kinds=watched_kinds(self.frameworks.values(), report=_report),
            receiver=self,
            times=times,
            report=_report,
            unserved_kinds_interval=settings.unserved_kinds_interval,
        )
        self._measuring = Measuring(api, deliver=self.handle, times=times, report=_report, agent=settings.agent)
        self._measuring.adopt(measured_sources(self.frameworks.values()))
        self._reconfiguration = Reconfiguration(
            self.engine,
            submit=self.submit,
            informers=self.informers,
            extender_clients=self._extender_calls,
            times=times,
            report=_report,
        )
        #: Set while a pod can be tried.
        self._wake = asyncio.Event()
        #: Set when the informers have delivered the initial lists, and pods are being scheduled.
        self.ready = asyncio.Event()
        self._give_up_waiting = give_up_waiting
        #: The scheduling loop, while it runs.
        self._loops: list[asyncio.Task[None]] = []
        self._halted = self._draining = False
        self._validates = settings.validate
        #: Set when a violated invariant was found; and which.
        self._is_invalid = asyncio.Event()
        self._invalid: InvalidStateError | None = None

    @property
    def state(self) -> ClusterState:
        return self.engine.state

    @property
    def queue(self) -> SchedulingQueue:
        return self.engine.queue

    @property
    def algorithm(self) -> SchedulingAlgorithm:
        return self.engine.algorithm

    @property
    def frameworks(self) -> dict[str, Framework]:
        return self.engine.frameworks

    @property
    def waiting_pods(self) -> WaitingPods:
        return self.engine.waiting_pods

    @property
    def stories(self) -> Stories:
        return self.engine.stories

    @property
    def bound_by_others(self) -> tuple[str, str] | None:
        """The first pod of our profiles that was bound by another client, and its node."""
        return self.engine.handlers.bound_by_others

    @property
    def configuration(self) -> Configuration:
        """The active configuration."""
        return self.engine.profiles.configuration

    async def reconfigure(self, configuration: Configuration) -> None:
        """Apply another configuration; raises RefusedConfigurationError, without having changed anything.

        Only its profiles, extenders and queue settings are used.
        """
        if self._draining:
            raise RefusedConfigurationError("the scheduler is about to end")
        await self._reconfiguration.apply(configuration)
        self._measuring.adopt(measured_sources(self.frameworks.values()))

    def record(self, recorder: Recorder) -> None:
        """Start recording, as soon as nothing is in progress in the engine."""
        if self._recorder is not None:
            raise RuntimeError("this scheduler is recorded already")
        self._recorder = recorder
        recorder.join(self.engine, self.clock())

    # -- the engine's inputs ------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Seconds since the epoch by a monotonic clock: the wall clock at the start plus the elapsed time."""
        return self._clock.now()

    def submit(self, input_: Input) -> None:
        """Pass an input to the engine now, and carry out the effects."""
        if self._recorder is None:
            effects = self.engine.step(input_, self.clock())
        else:
            effects = self._recorder.step(self.engine, input_, self.clock())
        if effects:
            self._effects.carry_out(effects)
        if not self._wake.is_set() and self.engine.wants_turn:
            self._wake.set()
        if self._validates:
            self._validate(input_)

    def _validate(self, input_: Input) -> None:
        try:
            self.engine.validate()
        except InvalidStateError as e:
            _log.error(e, "The engine contradicts itself", input=type(input_).__name__)
            # The caller may ignore the error, but the scheduler exits. Its shutdown must not fail for the same reason.
            self._validates, self._invalid = False, e
            self._is_invalid.set()
            raise

    def handle(self, kind: type[ApiStruct], changes: Sequence[Change[Any]]) -> None:
        """Process what an informer delivers."""
        self._check_wall_clock()
        if kind in self._documents.kinds:
            for change in changes:
                if change.new is None and change.old is not None:
                    self._documents.forget(change.old)
        self.submit(Changes(kind, changes))

    def switch_off(self, plugins: frozenset[str]) -> None:
        self.submit(Served(plugins, served=False))

    def switch_on(self, plugins: frozenset[str]) -> None:
        self.submit(Served(plugins, served=True))

    def tick(self) -> None:
        """Pass a Tick to the engine."""
        self._check_wall_clock()
        self.submit(TICK)

    def _check_wall_clock(self) -> None:
        """Tell the engine if the wall clock was set."""
        if self._clock.was_set():
            self.submit(WallClock(self._clock.ahead))

    async def ask(self, question: Ask) -> Outcome:
        """Call an extender for a question."""
        return await self._effects.ask_extender(question)

    # -- the loop -----------------------------------------------------------------------------------------------------

    @property
    def synced(self) -> asyncio.Event:
        """Set when the informers have delivered the initial lists."""
        return self.informers.synced

    async def run(self, *, lead: asyncio.Event | None = None) -> None:
        """Follow the cluster until cancelled, and schedule once `lead` is set; None: immediately."""
        tasks = [
            asyncio.create_task(self._broadcaster.run()),
            asyncio.create_task(self.informers.run()),
            asyncio.create_task(self._measuring.run()),
            asyncio.create_task(self._working(lead)),
            asyncio.create_task(self._until_invalid()),
        ]
        try:
            await _first_to_end(tasks)
            raise RuntimeError(_ENDED_UNEXPECTEDLY)
        finally:
            await self._stop(tasks)
            if self._invalid is not None:
                raise self._invalid

    async def _until_invalid(self) -> None:
        await self._is_invalid.wait()
        assert self._invalid is not None, "it was set before the event"
        raise self._invalid

    async def drain(self) -> None:
        """Stop scheduling. Binds that were sent are completed; those that wait for their turn are dropped.

        Pods whose binds are dropped stay pending for the next scheduler.
        """
        self._draining = True
        self.submit(Stopped())
        await self._cancelled(self._loops)
        if self._give_up_waiting is not None:
            self._give_up_waiting()
        await self._until(lambda: self.engine.under_way <= self.engine.resting + self._effects.given_up)
        # Those that wait on Permit, or take too long. A plugin must not cause a binding now.
        await self._cancelled(self._effects.end())

    async def halt(self) -> None:
        """Stop all writes to the cluster: another replica is the leader."""
        self._halted = self._draining = self._effects.halted = True
        self.submit(Stopped())
        await self._cancelled((*self._loops, *self._effects.tasks))
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
            self.submit(Closing())
            await self._until(lambda: self.engine.statuses.idle)
            self._effects.halted = True
        self._alarm.stop()
        await self._cancelled(self._effects.tasks)
        await self._extender_calls.close()
        await self._broadcaster.flush(FLUSH_TIMEOUT_AFTER_LOST_LEASE if self._halted else SHUTDOWN_TIMEOUT)
        broadcasting.cancel()
        await asyncio.gather(broadcasting, return_exceptions=True)
        self.engine.close()

    async def _cancelled(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        stubborn = await cancel_all(tasks, seconds=CANCELLATION_TIMEOUT, sleep=self._times.sleep)
        if stubborn:
            # They will not be waited for again.
            self._effects.abandon(stubborn)
            text = "cancelled tasks did not end and are abandoned; plugins must not swallow CancelledError"
            _log.error(None, text, tasks=sorted(task.get_name() for task in stubborn))

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Let effects finish until the condition holds; those that take too long are not waited for."""
        timer = asyncio.ensure_future(self._times.sleep(SHUTDOWN_TIMEOUT))
        try:
            while not reached() and self._effects.tasks and not timer.done():
                await asyncio.wait((*self._effects.tasks, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)

    async def _working(self, lead: asyncio.Event | None) -> None:
        await self.informers.synced.wait()
        await self._measuring.first_answers()
        if lead is not None:
            await lead.wait()
        try:
            # Shutdown may be requested before the initial lists.
            if not self._draining:
                self.ready.set()
                self.submit(Started())
                self._loops = [asyncio.create_task(self._scheduling())]
                await _first_to_end(self._loops)
            if not self._draining:
                raise RuntimeError(_ENDED_UNEXPECTEDLY)
            # The other tasks run until the scheduler is cancelled.
            await asyncio.Event().wait()
        finally:
            await self._cancelled(self._loops)

    async def _scheduling(self) -> None:
        clock, engine = self._times.clock, self.engine
        while True:
            if not engine.wants_turn:
                self._wake.clear()
                await self._wake.wait()
            began, turn = clock(), 0.0
            for _ in range(MAX_PODS_PER_TURN):
                if not engine.wants_turn:
                    break
                self.submit(SCHEDULE)
                turn = clock() - began
                if turn > (TURN_SECONDS_AFTER_REJECTION if engine.schedule_one.tried_again else TURN_SECONDS):
                    break
            await (asyncio.sleep(0) if turn < LONG_TURN_SECONDS else self._times.sleep(PAUSE_AFTER_LONG_TURN))

    # -- for pages, metrics and tests ---------------------------------------------------------------------------------

    def refresh_metrics(self) -> None:
        """Set the gauges of sizes, before metrics are exported."""
        self.engine.refresh_metrics()

    @property
    def dropped_events(self) -> int:
        """Events lost because too many were waiting."""
        return self._broadcaster.dropped

    @property
    def busy(self) -> bool:
        """Whether a pod can be scheduled or is being bound, or a write is pending."""
        engine = self.engine
        return bool(
            engine.queue.counts()["active"]
            or (not self._effects.is_over and engine.under_way > engine.resting)
            or not engine.statuses.idle
            or not self._broadcaster.idle
        )


class _Alarm:
    """Passes a Tick when the engine wants to be woken."""

    def __init__(self, clock: EngineClock, tick: Callable[[], None]) -> None:
        self._clock = clock
        self._tick = tick
        self._at = inf
        self._task: asyncio.Task[None] | None = None

    def set(self, at: float) -> None:
        """Tick at this time, unless an earlier one is set."""
        if at < self._at:
            self.stop()
            self._at = at
            self._task = asyncio.create_task(self._ring(at))

    async def _ring(self, at: float) -> None:
        await self._clock.sleep_until(at)
        # Before the tick, which may set it again.
        self._at, self._task = inf, None
        self._tick()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._at, self._task = inf, None


def _report(problem: str) -> None:
    _log.warning(problem)


def _always() -> bool:
    return True


async def _first_to_end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until one of the tasks ends or is cancelled; exceptions propagate."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        if not task.cancelled():
            task.result()


async def cancel_all(
    tasks: Iterable[asyncio.Task[Any]], *, seconds: float, sleep: Callable[[float], Awaitable[object]]
) -> set[asyncio.Task[Any]]:
    """Cancel the tasks and wait until they have ended; return those that have not after this many seconds.

    A plugin that catches every exception also catches CancelledError. Its task is abandoned, so that it cannot keep
    alive a process that has lost its lease.
    """
    ending = {task for task in tasks if not task.done()}
    for task in ending:
        task.cancel()
    if not ending:
        return ending
    left, alarm = set(ending), asyncio.ensure_future(sleep(seconds))
    try:
        while left and not alarm.done():
            await asyncio.wait((*left, alarm), return_when=asyncio.FIRST_COMPLETED)
            left = {task for task in left if not task.done()}
    finally:
        alarm.cancel()
        await asyncio.gather(alarm, return_exceptions=True)
    for task in ending - left:
        # Otherwise asyncio logs that the exception was never retrieved.
        if not task.cancelled():
            task.exception()
    return left
