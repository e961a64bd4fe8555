"""The handles passed to plugins: one `Handle` per profile, backed by the parts of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.kube.api.port import Api
from stowplan.kube.config import FeatureGates
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.context import EngineContext, Meter, RandomSource
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.ports.plugin_inputs import PluginInputs, PodActivation
from stowplan.scheduler.engine.ports.recorder import EffectRecorder
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.requests import Request
from stowplan.scheduler.framework.runtime.metrics import FrameworkMetrics


class Handles:
    def __init__(
        self,
        context: EngineContext,
        plugins: PluginInputs,
        *,
        activation: PodActivation,
        evictions: Evictions,
        features: FeatureGates,
        random: RandomSource | None,
        api: Api | None,
        meter: Meter,
        metrics: SchedulerMetrics | None,
        events: bool,
        wall_clock: Callable[[], float],
    ) -> None:
        """`plugins`: calls of coroutines between steps. `events`: whether Events are recorded."""
        self._context = context
        self._plugins = plugins
        self._activation = activation
        self._evictions = evictions
        self._features = features
        self._random = random
        self._api = api
        self._meter = meter
        self._metrics = metrics
        self._events = events
        self._wall_clock = wall_clock

    def new(self, profile: str, extenders: Sequence[Extender], *, in_force: bool) -> Handle:
        """`in_force`: whether the profile is active from the start."""
        context = self._context
        return Handle(
            cluster=context.state,
            profile_name=profile,
            features=self._features,
            random=self._random,
            activation=self._activation,
            waiting_pods=context.waiting_pods,
            pods_in_pre_bind=context.pods_in_pre_bind,
            api=self._api,
            extenders=extenders,
            event_recorder=EffectRecorder(self._plugins, profile) if self._events else None,
            preemptions=self._evictions,
            wall_clock=self._wall_clock,
            carry_out=self._carry_out,
            metrics=self._metrics,
            in_force=in_force,
        )

    def metrics(self, profile: str) -> FrameworkMetrics | None:
        metrics, meter = self._metrics, self._meter
        if metrics is None:
            return None
        return FrameworkMetrics(metrics, profile=profile, now=meter.clock, chance=meter.random)

    def _carry_out(self, request: Request) -> None:
        self._context.outbox.emit(request)
