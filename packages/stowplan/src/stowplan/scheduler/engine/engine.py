"""The engine: inputs in, effects out.

One synchronous machine for the cluster state, the queue, the scheduling and binding cycles, failures, nominations and
evictions. It does no I/O, reads no clock, and uses only the random source that it was given. Each step takes one input
at a given time and returns effects, which a driver carries out. The same configuration, random source and inputs at the
same times give the same effects, so every run is reproducible.

    effects = engine.step(Changes(Pod, changes), now)
    while engine.wants_turn:
        effects += engine.step(SCHEDULE, now)
    ...                                                  # a driver carries them out
    effects = engine.step(Answer(number, Done()), now)

What plugins' coroutines do between steps (activate pods, allow or reject one, record an Event) is also passed as
inputs, by the attached driver.

Metrics use a stopwatch that is never read back, and a random source of their own.

Upstream: pkg/scheduler/scheduler.go and schedule_one.go;
docs/reference/behaviour.md, The scheduling cycle.
The model of inputs and effects is that of dask.distributed's worker state machine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Pod
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.config import DEFAULT_FEATURES, Configuration, FeatureGates
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning
from stowplan.scheduler.engine import inputs
from stowplan.scheduler.engine.binding_cycle import BindingCycles
from stowplan.scheduler.engine.context import (
    EngineContext,
    EngineSettings,
    Meter,
    QueueTimer,
    QueueWatcher,
    Reporter,
    Stopwatch,
)
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics, SizeMetrics
from stowplan.scheduler.engine.decision.questions import Question
from stowplan.scheduler.engine.deferred_resizes import DeferredResizes
from stowplan.scheduler.engine.dumped import EngineDump, set_chance
from stowplan.scheduler.engine.dumping import Dumping, EngineParts
from stowplan.scheduler.engine.effects import Effect, RunPlugin
from stowplan.scheduler.engine.event_handlers import EventHandlers
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.groups.group_cycle import GroupScheduling
from stowplan.scheduler.engine.groups.group_questions import GroupQuestion
from stowplan.scheduler.engine.leaving_pods import LeavingPods
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.plugin_inputs import Driver, PluginInputs
from stowplan.scheduler.engine.profiles import FrameworkBuilder, Profiles, group_kinds
from stowplan.scheduler.engine.schedule_one import (
    AttemptTracer,
    DecisionListener,
    FailureHandler,
    Observers,
    ScheduleOne,
    SchedulingCycle,
)
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles
from stowplan.scheduler.engine.validation import InvalidStateError, Validation
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.handle import Random, RunningScheduler
from stowplan.scheduler.framework.runtime.binding import call_plugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.scheduler.inspection.stories import NoStories, Stories
from stowplan.scheduler.queue.backoff import QueueSettings
from stowplan.scheduler.queue.metrics import NoQueueMetrics, QueueMetrics
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime.registry import Registry

#: Maximum number of concurrent writes of binding cycles. Deciding further ahead would only use an older state.
MAX_BINDING_WRITES = 256

SCHEDULE = inputs.Schedule()
TICK = inputs.Tick()

_log = get_logger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine:
    def __init__(
        self,
        config: Configuration,
        *,
        registry: Registry,
        now: float,
        meter: Meter,
        metrics: SchedulerMetrics | None = None,
        random: Random | None = None,
        features: FeatureGates = DEFAULT_FEATURES,
        settings: EngineSettings | None = None,
        api: Api | None = None,
        extenders: Sequence[Extender] | None = None,
        listener: DecisionListener | None = None,
        tracer: AttemptTracer | None = None,
    ) -> None:
        """`now`: seconds since the epoch, like all times. `random` of None: ties go to the first node.

        `metrics` of None: nothing is counted. `api` is passed to plugins' coroutines. `extenders` are in call order;
        None: those of the configuration.
        """
        #: Construction arguments besides the configuration.
        self.features, self.random, self.metrics = features, random, metrics
        self.settings = settings = settings or EngineSettings()
        kinds = group_kinds(config, registry, features)
        #: Those that scheduling follows: groups of custom resources do not need a gate.
        self._features = features.with_gates({"GenericWorkload": True}) if kinds else features
        # First, as it compares `now` with the meter's clock.
        stopwatch = Stopwatch(meter, now)
        self._outbox = outbox = Outbox(now)
        self._is_stopped = False
        self.state = ClusterState(
            settled=lambda kind, key: outbox.changed((kind.__name__, key)),
            emulated_version=features.emulated_version,
            counts_claims=features.enabled("DRANodeAllocatableResources"),
            has_group_trees=features.gates.get("CompositePodGroup", False),
            group_kinds=kinds,
            reads_pod_groups=not kinds or features.enabled("GenericWorkload"),
        )
        self.stories = Stories(now=outbox.time) if settings.stories else NoStories()
        reporter = Reporter()
        #: By name. Empty at first: plugins are built with a handle that activates pods in the queue.
        self.frameworks: dict[str, Framework] = {}
        self.queue = self._new_queue(config, reporter, meter)
        self.plugins = PluginInputs(outbox, self.queue)
        self.waiting_pods = WaitingPods(now=outbox.time, outside=self.plugins)
        self.statuses = PodStatuses(outbox, random=_jitter(random), report=reporter.report)
        self.context = context = EngineContext(
            outbox=outbox,
            stopwatch=stopwatch,
            state=self.state,
            queue=self.queue,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=PodsInPreBind(outside=self.plugins),
            leaving=LeavingPods(),
            stories=self.stories,
            reporter=reporter,
            statuses=self.statuses,
            profiles=self.frameworks,
        )
        self._queue_timer = QueueTimer(context, second=0.0 if self._pops_from_backoff else now)
        self._sizes = None if metrics is None else SizeMetrics(metrics, queue=self.queue, state=self.state)
        self.evictions = Evictions(context, metrics=metrics, now=meter.clock, version=features.emulated_version)
        builder = self._new_builder(registry, meter=meter, api=api, traced=tracer is not None)
        self.profiles = Profiles(
            config, self.frameworks, builder=builder, features=features, extenders=extenders, reporter=reporter
        )
        # As after any later change of the profiles.
        self.queue.reconfigure(self._queue_settings(config), ())
        self.algorithm = SchedulingAlgorithm(
            self.state,
            self.frameworks,
            random=random,
            reuse=settings.reuse,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        )
        self._register_participants(random)
        attempts = None if metrics is None else AttemptMetrics(metrics, now=stopwatch.now)
        self._begin_cycles(Observers(metrics=attempts, listener=listener, tracer=tracer))
        self.handlers = EventHandlers(
            context,
            algorithm=self.algorithm,
            durations=None if metrics is None else metrics.event_handling_duration_seconds,
            now=meter.clock,
            gangs=self._features.enabled("GangScheduling"),
            resizes=self.resizes,
        )
        self._input_handlers = self._handlers_of_inputs()

    def _new_queue(self, config: Configuration, reporter: Reporter, meter: Meter) -> SchedulingQueue:
        version = self.features.emulated_version
        return SchedulingQueue(
            self.frameworks,
            self.state.nominator,
            self.state.pending,
            now=self._outbox.time,
            metrics=NoQueueMetrics() if self.metrics is None else QueueMetrics(self.metrics, now=meter.clock),
            settings=self._queue_settings(config),
            observer=QueueWatcher(self.stories, reporter, version),
            emulated_version=version,
            root_of=self.state.group_trees.root if self._has_group_entries else None,
        )

    @property
    def _has_group_entries(self) -> bool:
        return self.features.emulated_version >= V1_37 and self._features.enabled("GenericWorkload")

    @property
    def _pops_from_backoff(self) -> bool:
        return self.features.enabled("SchedulerPopFromBackoffQ")

    def _queue_settings(self, config: Configuration) -> QueueSettings:
        return QueueSettings(
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            max_in_unschedulable=self.settings.max_in_unschedulable,
            pop_from_backoff=self._pops_from_backoff,
        )

    def _new_builder(self, registry: Registry, *, meter: Meter, api: Api | None, traced: bool) -> FrameworkBuilder:
        scheduler = RunningScheduler(
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.context.pods_in_pre_bind,
            activation=self.plugins,
            preemptions=self.evictions,
            wall_clock=self._outbox.wall_clock,
            carry_out=self._outbox.emit,
            api=api,
        )
        return FrameworkBuilder(
            registry=registry,
            cluster=self.state,
            features=self._features,
            random=self.random,
            scheduler=scheduler,
            events=self.plugins if self.settings.events else None,
            metrics=self.metrics,
            meter=meter,
            traced=traced,
            ahead=self.context.stopwatch.ahead,
        )

    def _begin_cycles(self, observers: Observers) -> None:
        """Create the parts that handle pods and pod groups."""
        features, settings, context = self._features, self.settings, self.context
        groups = features.enabled("GenericWorkload")
        failures = FailureHandler(context, observers=observers, schedules_groups=groups)
        self.bindings = BindingCycles(context, failures=failures, observers=observers)
        cycle = SchedulingCycle(
            context,
            algorithm=self.algorithm,
            bindings=self.bindings,
            failures=failures,
            evictions=self.evictions,
            observers=observers,
        )
        #: None if pods that are to grow on their node evict none.
        self.resizes: DeferredResizes | None = None
        if features.enabled("InPlacePodVerticalScalingSchedulerPreemption"):
            self.resizes = DeferredResizes(context, evictions=self.evictions, metrics=observers.metrics)
        self.suspended = SuspendedCycles(context, handler=cycle, overlaps=settings.overlaps)
        self.groups = GroupScheduling(
            context,
            algorithm=self.algorithm,
            features=features,
            cycle=cycle,
            evictions=self.evictions,
            suspended=self.suspended,
            metrics=self.metrics,
        )
        self.schedule_one = ScheduleOne(
            context,
            cycle=cycle,
            suspended=self.suspended,
            groups=self.groups.cycle,
            resizes=self.resizes,
            timed=self.metrics is not None or settings.stories,
        )

    def _handlers_of_inputs(self) -> dict[type[Any], Callable[[Any], None]]:
        """The handler of each input type."""
        return {
            inputs.Changes: self._changes,
            inputs.Answer: lambda answer: self._outbox.answered(answer.number, answer.outcome),
            inputs.Schedule: self.schedule_one.run,
            inputs.Tick: lambda _: self._outbox.ring(),
            inputs.Served: self._served,
            inputs.Offered: lambda offered: self.profiles.take_offer(offered.configuration),
            inputs.Adopted: self._adopted,
            inputs.Declined: lambda _: self.profiles.decline(),
            inputs.Started: self._started,
            inputs.Stopped: self._stopped,
            inputs.Closing: lambda _: self.statuses.last_try(),
            inputs.WallClock: self._wall_clock_moved,
            inputs.Activated: self._activated,
            inputs.Allowed: self._allowed,
            inputs.Rejected: self._rejected,
            inputs.Cancelled: self._cancelled,
            inputs.EventEmitted: lambda emitted: self.plugins.emit_event(emitted.event),
        }

    def _register_participants(self, random: Any) -> None:
        """Register everything besides the cluster that decisions depend on, for transactions and dumps."""
        register, sampling = self.state.transactions.register, self.algorithm.sampling
        register("sampling", CopiedAtBeginning(lambda: sampling.start, lambda start: setattr(sampling, "start", start)))
        # A custom random source may not support this; it is then not rewound.
        if hasattr(random, "getstate") and hasattr(random, "setstate"):
            register("random", CopiedAtBeginning(random.getstate, partial(set_chance, random)))

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, input_: inputs.Input, now: float) -> list[Effect]:
        """Process an input at a time, which must not be earlier than the last step's, and return the effects."""
        outbox = self._outbox
        outbox.now = now
        self.plugins.stepping = True
        try:
            self._input_handlers[type(input_)](input_)
            if outbox.waking:
                outbox.finish()
            if self.profiles.retired:
                self.profiles.close_unused({b.attempt.framework for b in self.bindings.under_way.values()})
        finally:
            self.plugins.stepping = False
        return outbox.take() if outbox.effects else []

    @property
    def wants_turn(self) -> bool:
        """Whether a pod can be tried now, so that `Schedule` does something."""
        return (
            # The driver checks after every step, so the most likely False comes first.
            self.queue.can_pop
            # Parity: the reference writes a rejected pod's status before it pops again. Only pods that still back off
            # have to wait for that: an event that wakes thousands of them for a little room does not get all rejected.
            and (self.queue.any_active or self.statuses.settled)
            and not self._is_stopped
            and not (self.suspended.under_way and self.suspended.blocks_scheduling)
            and self.bindings.writes < MAX_BINDING_WRITES
        )

    def _changes(self, input_: inputs.Changes) -> None:
        self.handlers.handle(input_.kind, input_.changes)
        if input_.kind is Pod and self.suspended.under_way:
            self.suspended.pods_changed(input_.changes)

    def _served(self, input_: inputs.Served) -> None:
        if input_.served:
            self.handlers.switch_on(input_.plugins)
        else:
            self.handlers.switch_off(input_.plugins)
        self.suspended.plugins_switched()

    def _adopted(self, input_: inputs.Adopted) -> None:
        """Switch to the offered profiles; pods that were judged by replaced profiles are judged again."""
        swapped = self.profiles.adopt(input_.lacking)
        config = self.profiles.configuration
        self.algorithm.reconfigure(percentage_of_nodes_to_score=config.percentage_of_nodes_to_score)
        self.queue.reconfigure(self._queue_settings(config), swapped)
        self.suspended.profiles_swapped(self.frameworks)
        self.suspended.plugins_switched()
        self.handlers.profiles_swapped()

    def _started(self, input_: inputs.Started) -> None:
        self._is_stopped = False
        self._queue_timer.start()

    def _stopped(self, input_: inputs.Stopped) -> None:
        self._queue_timer.stop()
        self._is_stopped = True
        self.suspended.stop()

    def _wall_clock_moved(self, input_: inputs.WallClock) -> None:
        self._outbox.ahead = input_.ahead

    def _activated(self, input_: inputs.Activated) -> None:
        found = (self.state.pending.get(key) for key in input_.pods)
        self.queue.activate([pod for pod in found if pod is not None])

    def _allowed(self, input_: inputs.Allowed) -> None:
        waiting = self.waiting_pods.get(input_.uid)
        if waiting is not None:
            waiting.allow(input_.plugin)

    def _rejected(self, input_: inputs.Rejected) -> None:
        waiting = self.waiting_pods.get(input_.uid)
        if waiting is not None:
            waiting.resolve(input_.status)

    def _cancelled(self, input_: inputs.Cancelled) -> None:
        preparing = self.context.pods_in_pre_bind.get(input_.uid)
        if preparing is not None:
            preparing.cancel(input_.reason)

    # -- drivers and plugins' coroutines ------------------------------------------------------------------------------

    def run_plugin(
        self, action: RunPlugin, *, cancelled: tuple[type[BaseException], ...] = ()
    ) -> Coroutine[Any, Any, Status | None]:
        """The coroutine of the effect; its result is the answer.

        `cancelled`: what the driver's cancelling raises in it, and is let through, because only the driver knows
        whether it or the plugin has cancelled something.
        """
        attempt = self.bindings.under_way[action.uid].attempt
        return call_plugin(
            attempt.framework, action.point, action.plugin, attempt.state, attempt.pod, action.node, cancelled=cancelled
        )

    def attach(self, driver: Driver) -> None:
        """Let the driver submit what plugins do between steps."""
        self.plugins.driver = driver

    @property
    def schedules_groups(self) -> bool:
        """Whether pods of a group are tried together."""
        return self.groups.cycle is not None

    # -- questions ----------------------------------------------------------------------------------------------------

    def framework_for(self, pod: PodInfo) -> Framework | None:
        """The profile of a pod."""
        return self.frameworks.get(pod.shape.scheduler_name)

    @contextmanager
    def asking(self, pod: PodInfo) -> Iterator[Question]:
        """Ask about a pod of one of the profiles, between steps. Leaving the context restores everything."""
        framework = self.framework_for(pod)
        if framework is None:
            raise ValueError(f'pod {pod.key}: no profile for scheduler name "{pod.pod.spec.scheduler_name}"')
        state, before = self.state, self.plugins.asking
        version, placed = state.version, state.placed(pod.uid)
        current = "" if placed is None else placed.node_name
        self.plugins.asking = True
        try:
            with nullcontext() if placed is None else state.transaction():
                state.remove_pod(pod.uid)
                yield Question(self.algorithm, framework, placed or pod, current_node=current, version=version)
        finally:
            self.plugins.asking = before

    @contextmanager
    def asking_about_group(self, group: str) -> Iterator[GroupQuestion]:
        """Ask about a pod group, `namespace/name`, in the same way."""
        version = self.state.version
        before, self.plugins.asking = self.plugins.asking, True
        try:
            # The trial undoes its changes of the cluster; this undoes random draws and the removal of pods.
            with self.state.transaction():
                yield self.groups.question(group, version)
        finally:
            self.plugins.asking = before

    # -- invariants ---------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> EngineParts:
        return EngineParts(
            context=self.context,
            algorithm=self.algorithm,
            suspended=self.suspended,
            bindings=self.bindings,
            evictions=self.evictions,
            queue_timer=self._queue_timer,
            resizes=self.resizes,
        )

    def validate(self) -> None:
        """Raise InvalidStateError, listing all problems, if an invariant is violated between steps.

        For debugging and tests: it checks the whole cluster.
        """
        validation = Validation(self._parts)
        problems = [*validation.problems(), *self.algorithm.problems(), *self._problems_of_turns()]
        if problems:
            raise InvalidStateError(problems)

    def _problems_of_turns(self) -> Iterator[str]:
        if not self._is_stopped and not self._queue_timer.is_set:
            yield "pods are scheduled, and no alarm is set to look after the queue"

    # -- dump and load ------------------------------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """What is in progress and prevents a dump."""
        offered = [] if self.profiles.offer is None else ["a configuration is offered"]
        return [*offered, *Dumping(self._parts).unfinished(), *self.groups.unfinished()]

    def dump(self) -> EngineDump:
        """The whole engine as a plain value, between two steps.

        For what is included, see `stowplan.scheduler.engine.dumped`. Raises UnfinishedDumpError while something is in
        progress.
        """
        return Dumping(self._parts).dump(stopped=self._is_stopped)

    def load(self, dump: EngineDump) -> None:
        """Continue from another engine's dump, before the first step; DumpError if that engine was of another kind.

        The driver must pass a `Tick` first, to learn when to wake the engine.
        """
        Dumping(self._parts).load(dump)
        self._is_stopped = dump.stopped

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Shut down after the last step: report what is still unreported, and close plugins."""
        self.statuses.close()
        self.profiles.close()

    # -- pages, metrics, drivers and tests -----------------------------------------------------------------------------

    def refresh_metrics(self) -> None:
        """Set the gauges of sizes, before metrics are exported."""
        if self._sizes is not None:
            self._sizes.refresh()

    @property
    def resting(self) -> int:
        """Cycles and evictions that only time, a plugin's decision, or a change of some object can advance."""
        asleep = self.bindings.asleep + self.suspended.asleep
        return len(self.waiting_pods) + self.evictions.delayed_retries + asleep

    @property
    def under_way(self) -> int:
        """Suspended and binding cycles, and unfinished evictions."""
        return len(self.suspended.cycles) + len(self.bindings.under_way) + self.evictions.plans_under_way


def _jitter(random: Random | None) -> Callable[[], float]:
    return _no_chance if random is None else random.random


def _no_chance() -> float:
    return 0.5
