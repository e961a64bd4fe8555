"""Follow a live cluster read-only, with an engine that is never started.

The engine has the state of a scheduler of this configuration, updated by the same informers. No pod is tried, and there
are no requests but lists and watches. A listener passes each input to the engine: `engine.input_recorder.Recorder`
records it, a shadow compares the decisions of another scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.drivers.live.engine_clock import EngineClock
from stowplan.drivers.live.informers import Informers
from stowplan.drivers.live.measuring import Measuring
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.klog import get_logger
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Changes, Served
from stowplan.scheduler.engine.watched_kinds import measured_sources, watched_kinds

if TYPE_CHECKING:
    from stowplan.kube.api.meta import ApiStruct
    from stowplan.kube.api.port import Api, Change
    from stowplan.kube.config import Configuration, FeatureGates
    from stowplan.scheduler.engine.inputs import Input
    from stowplan.scheduler.framework.runtime.registry import Registry

#: An engine that only follows has no stories and records no Events.
SETTINGS = EngineSettings(stories=False, events=False)

_log = get_logger(__name__)


class InputListener(Protocol):
    def step(self, engine: Engine, input_: Input, now: float, /) -> object:
        """Pass the input to the engine."""


class Follower:
    def __init__(
        self,
        api: Api,
        config: Configuration,
        listener: InputListener,
        *,
        registry: Registry,
        times: Times = REAL_TIMES,
        features: FeatureGates = DEFAULT_FEATURES,
    ) -> None:
        self._clock = EngineClock(times)
        self._listener = listener
        self.engine = Engine(
            config, registry=registry, now=self.clock(), meter=times, features=features, settings=SETTINGS
        )
        self.kinds = watched_kinds(self.engine.frameworks.values(), report=_report)
        self._informers = Informers(api, kinds=self.kinds, receiver=self, times=times, report=_report)
        self._measuring = Measuring(api, deliver=self.handle, times=times, report=_report)
        self._measuring.adopt(measured_sources(self.engine.frameworks.values()))

    def clock(self) -> float:
        """The engine's time."""
        return self._clock.now()

    @property
    def synced(self) -> asyncio.Event:
        """Set when the initial lists have been delivered."""
        return self._informers.synced

    @property
    def awaited(self) -> dict[str, str]:
        """Resource without an initial list -> reason."""
        return self._informers.awaited

    async def run(self) -> None:
        """Run until cancelled; exceptions of the listener propagate."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._measuring.run())
            await self._informers.run()

    # -- informer callbacks --------------------------------------------------------------------------------------------

    def handle(self, kind: type[ApiStruct], changes: Sequence[Change[Any]]) -> None:
        self._take(Changes(kind, changes))

    def switch_off(self, plugins: frozenset[str]) -> None:
        self._take(Served(plugins, served=False))

    def switch_on(self, plugins: frozenset[str]) -> None:
        self._take(Served(plugins, served=True))

    def _take(self, input_: Input) -> None:
        # The only effects of an engine that tries no pods are wake-ups, which are not needed.
        self._listener.step(self.engine, input_, self.clock())


def _report(problem: str) -> None:
    _log.warning(problem)
